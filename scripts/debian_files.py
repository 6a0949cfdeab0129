#!/usr/bin/env python3
"""Writes what the Debian package needs beside installed files: its changelogs from CHANGELOG.md, and the maintainer
scripts with the version and the database's schema version in them. Usage: scripts/debian_files.py VERSION FOLDER
With --time alone it prints the time of the sources, in seconds since 1970: the time of all files in the package."""
import datetime
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


def git(*words):
    """What git says of this tree, or nothing where it is not installed or fails. Whoever owns the tree: it is only read."""
    here = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        asked = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, *words], env=here, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def is_checkout():
    """Whether this folder is the top of a git checkout, and not a folder in the checkout of something else."""
    top = git("rev-parse", "--show-toplevel")
    return bool(top) and pathlib.Path(top).resolve() == ROOT


def time_of_sources():
    """The same time for the same sources, whatever the times of the files are: SOURCE_DATE_EPOCH; else that of the newest
    commit of a checkout; else the date of the newest section of CHANGELOG.md, at midnight UTC."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    committed = git("log", "-1", "--format=%ct") if is_checkout() else ""
    if committed:
        return int(committed)
    title = re.search(r"^## .*", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    dated = re.fullmatch(r"## \[[^\]]+\] - (\d{4}-\d\d-\d\d)", title.group().strip()) if title else None
    if not dated:
        sys.exit("scripts/debian_files.py: the newest section of CHANGELOG.md has no date, such as '## [Unreleased] - 2026-11-27', "
                 "and neither SOURCE_DATE_EPOCH nor git says how old the sources are.")
    midnight = datetime.datetime.fromisoformat(dated.group(1)).replace(tzinfo=datetime.timezone.utc)
    return int(midnight.timestamp())


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
    made = datetime.datetime.fromtimestamp(time, datetime.timezone.utc)
    return "\n".join(lines + ["", f" -- {CONTACT}  {email.utils.format_datetime(made)}", ""])


def write_compressed(path, text):
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())


def main():
    if sys.argv[1:] == ["--time"]:
        print(time_of_sources())
        return
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
