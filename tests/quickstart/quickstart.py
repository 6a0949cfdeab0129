"""Executes the shell blocks of docs/quickstart.md, unchanged and in their order, in one shell, and checks what came of
them: a promotion that succeeded after a second person approved it.

  quickstart.py source BUILD         in the source tree, with the programs of a build folder
  quickstart.py package ROOT DEB     in a Debian root (a folder), in which DEB is installed by the page's own block
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["DRIFTGATE_ROOT"])
PAGE = ROOT / "docs" / "quickstart.md"
PATIENCE_S = 420
BLOCK = re.compile(r"(?:<!-- only: (\w+) -->\n)?```sh\n(.*?)^```$", re.M | re.S)
# What the test itself asks before the last block ends the daemon.
PROBE = """driftgate status tinylm --json > outcome.json
driftgate evidence --kind approval_given --json > approvals.json
driftgate evidence --kind promotion_requested --json > requests.json
"""


class Failure(Exception):
    pass


def blocks_for(kind):
    """The page's blocks for "source" or "package", each with the line that it begins in."""
    text = PAGE.read_text(encoding="utf-8")
    found = [(text.count("\n", 0, match.start(2)) + 1, match.group(2)) for match in BLOCK.finditer(text)
             if match.group(1) in (None, kind)]
    if len(found) < 8:
        raise Failure(f"{PAGE} has {len(found)} blocks for {kind}")
    return found


def script_of(kind):
    """One script that ends at the first command that fails, and says which block it is in."""
    parts = ["set -e\n"]
    blocks = blocks_for(kind)
    for index, (line, block) in enumerate(blocks):
        if index == len(blocks) - 1:
            parts.append(PROBE)
        parts.append(f"printf '\\n== docs/quickstart.md:{line}\\n'\n{block}")
    return "".join(parts) + "printf '\\n== the end\\n'\n"


def run(argv, folder, environment, output):
    """Runs the script; its output goes to a file, since what stays in the background would keep a pipe open."""
    with open(output, "wb") as handle:
        child = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=handle,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:  # what the page leaves behind in its session: users, when a block failed
                os.killpg(child.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            child.wait()
    text = pathlib.Path(output).read_text(encoding="utf-8", errors="replace")
    if code != 0 or "== the end" not in text:
        what = f"was not done after {PATIENCE_S} s" if code is None else f"ended with exit code {code}"
        raise Failure(f"the page {what}:\n{text[-6000:]}")
    return text


def entries(text):
    """Entries as `evidence --json` prints them: one answer, or an object a line."""
    found = []
    for line in text.splitlines():
        if line.strip():
            answer = json.loads(line)
            found += answer.get("items", [answer]) if isinstance(answer, dict) else answer
    return found


def actor_of(entry):
    return entry.get("actor") or entry.get("body", {}).get("actor")


def check_outcome(folder):
    outcome = (folder / "outcome.json").read_text(encoding="utf-8")
    for wanted in ('"engine":"bf16"', '"kernel":"tinylm-bf16"'):
        if wanted not in outcome:
            raise Failure(f"bf16 does not serve tinylm: {outcome}")
    approvals = entries((folder / "approvals.json").read_text(encoding="utf-8"))
    requests = entries((folder / "requests.json").read_text(encoding="utf-8"))
    if not approvals or not requests:
        raise Failure(f"{len(approvals)} approvals and {len(requests)} requests are recorded")
    asked, approved = actor_of(requests[0]), actor_of(approvals[0])
    if not asked or not approved or asked == approved:
        raise Failure(f"asked for by {asked}, approved by {approved}")
    users = json.loads((folder / "first" / "traffic.json").read_text(encoding="utf-8"))
    if users["failed"] != 0:
        raise Failure(f"users saw failures: {users}")
    if (folder / "first" / "data" / "router.sock").exists():
        raise Failure("the router's socket is left")
    print(f"asked for by {asked}, approved by {approved}; users: {users}")


def from_source(build):
    with tempfile.TemporaryDirectory(prefix="dg-quick-") as name:
        folder = pathlib.Path(name)
        (folder / "build").symlink_to(build)  # the page is read in the root of the repository
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DRIFTGATE_")}
        program = [shutil.which("bash"), "-c", script_of("source")]
        try:
            print(run(program, folder, environment, folder / "output"))
            check_outcome(folder)
        finally:
            if (folder / "first" / "driftgate.yaml").exists():
                subprocess.run([f"{build}/daemon/app/driftgate", "dev", str(folder / "first"), "--stop"], check=False,
                               timeout=PATIENCE_S)


def from_package(root, package):
    """ROOT is a Debian root with apt's sources, changed by the installation; the caller mounts what it needs."""
    folder = pathlib.Path(root) / "srv" / "quickstart"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(package, folder / "driftgate.deb")
    script = folder / "page.sh"
    script.write_text("cd /srv/quickstart\n" + script_of("package"), encoding="utf-8")
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/srv", "LANG": "C.UTF-8",
                   "DEBIAN_FRONTEND": "noninteractive"}
    try:
        print(run(["chroot", str(root), "/bin/bash", "/srv/quickstart/page.sh"], folder, environment,
                  folder / "output"))
        check_outcome(folder)
    finally:
        subprocess.run(["chroot", str(root), "/usr/bin/driftgate", "dev", "/srv/quickstart/first", "--stop"],
                       check=False, timeout=PATIENCE_S, env=environment)


def main(words):
    try:
        if words[:1] == ["source"] and len(words) == 2:
            from_source(os.path.abspath(words[1]))
        elif words[:1] == ["package"] and len(words) == 3:
            from_package(words[1], words[2])
        else:
            print(__doc__, file=sys.stderr)
            return 64
    except Failure as failure:
        print(f"quickstart: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
