"""The time of the sources that a package is built from (scripts/debian_files.py --time): SOURCE_DATE_EPOCH, or the newest
commit of this very checkout, or the date in CHANGELOG.md; never a file's time or another repository's.
Usage: source_time.py"""
import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = "1700000000"


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def ask(tree, **environment):
    """What the script of a tree does; `path` instead of PATH where it is given."""
    known = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH" and not key.startswith("GIT_")}
    return subprocess.run([sys.executable, str(tree / "scripts/debian_files.py"), "--time"], env=known | environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def time_of(tree, **environment):
    done = ask(tree, **environment)
    check(done.returncode == 0, done.stdout)
    return done.stdout.strip()


def tree_at(folder, changelog):
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/debian_files.py", folder / "scripts")
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    return folder


def commit(folder):
    environment = os.environ | {"GIT_COMMITTER_DATE": f"@{COMMITTED} +0000", "GIT_AUTHOR_DATE": f"@{COMMITTED} +0000"}
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, env=environment)


def without_git(folder):
    """Of a tarball: the changelog's date, whatever the files' times are and whether git is installed."""
    dated = tree_at(folder / "tarball", "# Changelog\n\n## [Unreleased] - 2026-11-27\n\n## [0.1.0] - 2025-01-02\n")
    day = str(int(datetime.datetime(2026, 11, 27, tzinfo=datetime.timezone.utc).timestamp()))
    check(time_of(dated) == day, "a tree without git does not have the changelog's date")
    os.utime(dated / "CHANGELOG.md", (1, 1))
    check(time_of(dated, PATH="/nowhere", TZ="Asia/Tokyo") == day, "the date depends on the file's time, the time zone or git")
    check(time_of(dated, SOURCE_DATE_EPOCH="7") == "7", "SOURCE_DATE_EPOCH does not come first")
    undated = ask(tree_at(folder / "undated", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2025-01-02\n"))
    check(undated.returncode != 0 and "has no date" in undated.stdout, f"a changelog without a date: {undated.stdout}")
    return dated, day


def with_git(folder, dated, day):
    """Of a checkout: its newest commit, but not that of a repository which the tree merely lies in."""
    (folder / "other").write_text("", encoding="utf-8")
    commit(folder)
    check(time_of(dated) == day, "a tarball in another repository has that repository's time")
    commit(dated)
    check(time_of(dated) == COMMITTED, "a checkout does not have the time of its newest commit")
    check(time_of(dated, PATH="/nowhere") == day, "a checkout where git is not installed does not have the changelog's date")
    if os.geteuid() == 0:  # a checkout that belongs to somebody else, as in a container
        for path in [dated, *dated.rglob("*")]:
            os.chown(path, 12345, 12345)
        check(time_of(dated) == COMMITTED, "a checkout of another owner does not have the time of its newest commit")


def main():
    with tempfile.TemporaryDirectory(prefix="dg-time-") as name:
        folder = pathlib.Path(name).resolve()
        dated, day = without_git(folder)
        if shutil.which("git"):
            with_git(folder, dated, day)
        else:
            print("git is not installed: checkouts are not tested")
        # This tree's own changelog, which a tarball of it is dated by.
        copy = tree_at(folder / "own", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        check(int(time_of(copy, PATH="/nowhere")) > 1_700_000_000, "CHANGELOG.md has no sensible date")


if __name__ == "__main__":
    sys.exit(main())
