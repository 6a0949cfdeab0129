#!/usr/bin/env python3
"""Writes what the browser tests' mock serves: the rows, reports and log of tests/vectors/folder_44abce1.tar.xz, in which
real promotions succeeded, were rejected in two stages, and wait for an approval. Usage: fixtures.py OUT.json"""
import json
import pathlib
import sqlite3
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "vectors" / "folder_44abce1.tar.xz"
TABLES = ("promotions", "stage_runs", "verdicts", "models", "versions", "contracts", "kernels", "engines", "tokens",
          "desired_routes", "applied_routes")
IN_JSON = {"canonical", "detail", "request", "outcome", "progress", "abilities", "route"}


def plain(name, value):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if name in IN_JSON:
        return json.loads(value) if value else None
    return value


def rows(database, table):
    cursor = database.execute(f'SELECT * FROM "{table}"')  # the names are those above
    names = [column[0] for column in cursor.description]
    return [{name: plain(name, value) for name, value in zip(names, row) if name != "hash"} for row in cursor]


def main(out):
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(FOLDER) as archive:
            archive.extractall(folder)  # our own archive: regular files at its top
        at = pathlib.Path(folder)
        database = sqlite3.connect(f"file:{at / 'driftgate.db'}?mode=ro&immutable=1", uri=True)
        found = {table: rows(database, table) for table in TABLES}
        found["entries"] = [row[0].decode() for row in database.execute("SELECT bytes FROM entries ORDER BY seq")]
        found["reports"] = {digest: json.loads(source) for digest, source in database.execute(
            "SELECT digest, bytes FROM blobs WHERE media_type = 'application/json'")}
        database.close()
        found["key"] = (at / "log.key").read_text(encoding="ascii")
        found["head"] = (at / "head.note").read_text(encoding="utf-8")
        found["trust"] = json.loads((at / "trust.json").read_text(encoding="ascii"))
    # Python reads NaN and infinities that JSON does not have; the API writes them as strings.
    text = json.dumps(found, ensure_ascii=True).replace(": NaN", ': "nan"').replace(": -Infinity", ': "-inf"').replace(
        ": Infinity", ': "inf"')
    pathlib.Path(out).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1])
