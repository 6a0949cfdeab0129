"""Bundles are verified by code that is not driftgate's: Go's checksum database libraries, openssl and securesystemslib.

usage: other_tools.py FOLDER, as mutated_bundles.py takes it
The packages that this needs are in scripts/packages.txt: golang-go, golang-golang-x-mod-dev, python3-securesystemslib.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import by_hand  # noqa: E402


def run(what, *command, expect=True, **environment):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    except FileNotFoundError:
        sys.exit(f"{what}: there is no {command[0]}; scripts/install-deps installs it")
    if (done.returncode == 0) != expect:
        sys.exit(f"{what} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def built(folder):
    """The program of sumdb/, with Debian's sources of golang.org/x/mod and nothing from the network."""
    path = os.path.join(folder, "sumdb")
    run("the Go compiler", "go", "build", "-o", path, os.path.join(HERE, "sumdb", "main.go"), GO111MODULE="off", GOFLAGS="", GOPROXY="off",
        GOPATH="/usr/share/gocode", GOCACHE=os.path.join(folder, "cache"))
    return path


def changed(bundle, path):
    """The bundle with one byte of its last entry changed."""
    with open(bundle, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    entry = [line for line in lines if line["t"] == "entry"][-1]
    entry["entry"] = entry["entry"][:-1] + "]"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def is_of_promotion(bundle):
    with open(bundle, encoding="utf-8") as file:
        return "promotion" in json.loads(file.readline())


def check(trust, older, bundles):
    """All three on the bundles: heads, inclusion, consistency, whole logs and attestations."""
    single = next(filter(is_of_promotion, bundles))
    with tempfile.TemporaryDirectory() as folder:
        sumdb = built(folder)
        said = [run("sumdb", sumdb, trust, older, *bundles)]
        run("sumdb on a changed entry", sumdb, trust, older, changed(single, os.path.join(folder, "changed")), expect=False)
        said.append(run("securesystemslib", "/usr/bin/python3", os.path.join(HERE, "dsse_library.py"), trust, *bundles))
        said.append(by_hand.check_bundle(trust, single))
    return "\n".join(said)


def main():
    folder = sys.argv[1]
    bundles = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".bundle")]
    print(check(os.path.join(folder, "trust.json"), os.path.join(folder, "older.note"), bundles))


if __name__ == "__main__":
    main()
