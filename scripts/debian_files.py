#!/usr/bin/env python3
"""Writes what the Debian package needs beside installed files: its changelogs from CHANGELOG.md, and the maintainer
scripts with the version and the database's schema version in them. Usage: scripts/debian_files.py VERSION FOLDER"""
import email.utils
import gzip
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTACT = "driftgate maintainers <maintainers@driftgate.invalid>"


def time_of_sources():
    """SOURCE_DATE_EPOCH, or the time of the newest commit: the same package from the same sources."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    asked = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(asked.stdout) if asked.returncode == 0 and asked.stdout.strip() else int((ROOT / "CHANGELOG.md").stat().st_mtime)


def entries(changelog):
    """(version, [(heading, [item])]) for each section of CHANGELOG.md."""
    for section in re.split(r"^## ", changelog, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        version = re.match(r"\[([^\]]+)\]", title)
        parts = []
        for part in re.split(r"^### ", body, flags=re.M)[1:]:
            heading, _, text = part.partition("\n")
            items = [re.sub(r"\s+", " ", item).strip() for item in re.split(r"^- ", text, flags=re.M)[1:]]
            parts.append((heading.strip(), [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", item) for item in items]))
        yield version.group(1) if version else title.strip(), parts


def debian_changelog(version, changelog, time):
    """One entry of this version: nothing was packaged before."""
    lines = [f"driftgate ({version}) bookworm; urgency=medium", ""]
    for name, parts in entries(changelog):
        for heading, items in parts:
            lines += textwrap.wrap(f"{heading} ({name}):", 76, initial_indent="  * ", subsequent_indent="    ")
            for item in items:
                lines += textwrap.wrap(item, 76, initial_indent="    - ", subsequent_indent="      ",
                                       break_long_words=True, break_on_hyphens=False)
    return "\n".join(lines + ["", f" -- {CONTACT}  {email.utils.format_datetime(email.utils.datetime.datetime.fromtimestamp(time, email.utils.datetime.timezone.utc))}", ""])


def write_compressed(path, text):
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())


def main():
    version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    write_compressed(folder / "changelog.gz", changelog)
    write_compressed(folder / "changelog.Debian.gz", debian_changelog(version, changelog, time_of_sources()))
    schema = max(int(file.name[:4]) for file in (ROOT / "migrations").glob("[0-9][0-9][0-9][0-9]_*.sql"))
    for name in ("preinst", "postinst", "prerm", "postrm"):
        text = (ROOT / "configs/debian" / name).read_text(encoding="utf-8")
        made = folder / name
        made.write_text(text.replace("@VERSION@", version).replace("@SCHEMA_VERSION@", str(schema)), encoding="utf-8")
        made.chmod(0o755)


if __name__ == "__main__":
    main()
