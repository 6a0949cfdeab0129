"""What scripts/package makes of this tree, a release build, and the upgrade to it from the package of the commit before: in a
fresh root of Debian 12 the previous package is installed, serves users by its units, is upgraded under their requests,
removed and purged. Where git does not know the commit before, or is not there, this tree under a lower version takes its
place. Two release builds take some ten minutes each on a few cores, less with what ccache has. Takes root, debootstrap
and a mirror, as bare_root.py does, and says "skipped: …" where it cannot run.
Usage: released.py BUILD_FOLDER [--previous REF]"""
import argparse
import contextlib
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), str(ROOT / "scripts")]

import mounts  # noqa: E402
from bare_root import remove_and_purge, verify_units  # noqa: E402
from debian_files import git, is_checkout  # noqa: E402
from debian_root import inside, only_loopback, root_with  # noqa: E402
from service import Manager, allow_example, serve_model, upgrade  # noqa: E402
from steps import Failure, check, outcome, step, succeed  # noqa: E402

BUILD_LIMIT_S = 3 * 3600
# Lower than the revision that scripts/package gives by itself, for dpkg: a tilde sorts before the end.
PREVIOUS_REVISION = "1~previous"


# ---- The two packages

def previous_tree(folder, ref):
    """The sources of the commit `ref`, or of the one before this, and its time; or this tree, where there is none to be had."""
    wanted = ref or "HEAD^"
    commit = git("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}") if is_checkout() else ""
    if not commit:
        why = f"git does not know {wanted} of this tree (no git, no checkout, or a shallow clone)"
        check(ref is None, f"--previous {ref}: {why}")
        step(f"NOTE: {why}. This very tree under a lower version stands for the previous package: no change is upgraded to")
        return str(ROOT), {}
    tree, archive = os.path.join(folder, "previous-tree"), os.path.join(folder, "previous.tar")
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(tree)
    git("archive", "-o", archive, commit)
    succeed(["tar", "-x", "-f", archive, "-C", tree])
    os.unlink(archive)
    step(f"the previous package is that of {wanted}, commit {git('log', '-1', '--format=%h (%s)', commit)}")
    return tree, {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct", commit)}


def package(tree, folder, name, options=(), environment=None):
    """Runs a tree's own scripts/package. Every tree is built under the same path, for which ccache knows what two trees have
    in common: sources that are compiled together name each other by their whole paths."""
    step(f"{name}: scripts/package")
    link, build, log = (os.path.join(folder, part) for part in ("tree", "build", f"{name}.log"))
    shutil.rmtree(build, ignore_errors=True)
    if os.path.islink(link):
        os.unlink(link)
    os.symlink(tree, link)
    began = time.monotonic()
    with open(log, "wb") as file:
        done = subprocess.run([f"{link}/scripts/package", build, *options], env=os.environ | (environment or {}), stdin=subprocess.DEVNULL,
                              stdout=file, stderr=subprocess.STDOUT, timeout=BUILD_LIMIT_S, check=False)
    lines = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    check(done.returncode == 0, "\n".join([*lines[-60:], f"scripts/package ended with {done.returncode}; all it wrote is in {log}"]))
    found = glob.glob(f"{build}/driftgate_*.deb")
    check(len(found) == 1, f"scripts/package made {found}")
    warnings = [line for line in lines if "warning:" in line]
    step(f"{name}: {os.path.basename(found[0])}, {os.path.getsize(found[0]) / 2**20:.1f} MiB, after {time.monotonic() - began:.0f} s, "
         f"{len(warnings)} warnings")
    print("".join(f"    {line}\n" for line in warnings[:20]), end="", flush=True)
    kept = shutil.copy(found[0], os.path.join(folder, f"{name}.deb"))
    shutil.rmtree(build)
    os.unlink(link)
    return kept


def version_of(deb):
    return succeed(["dpkg-deb", "-f", deb, "Version"]).strip()


# ---- The upgrade

def check_installed(root, deb):
    status = inside(root, "dpkg-query", "-W", "-f", "${Status} ${Version}", "driftgate")
    check(status == f"install ok installed {version_of(deb)}", status)
    said = inside(root, "driftgate", "version").strip()
    check(said == f"driftgate {version_of(deb).rsplit('-', 1)[0]}", f"driftgate version says: {said}")
    step(f"installed: {version_of(deb)}; driftgate version says: {said}")
    verify_units(root)


def upgrade_in_root(folder, base, old, new):
    root = root_with(old, folder, base)
    check_installed(root, old)
    only_loopback()
    allow_example(root)
    step("daemon and router by their units")
    with contextlib.closing(Manager(root, folder)) as manager:
        manager.start()
        serve_model(root, folder, manager)
        upgrade(root, new, manager)
        check_installed(root, new)
        remove_and_purge(root, manager)


def run(build, ref):
    shared, folder = os.path.join(build, "package-test"), os.path.join(build, "package-released")
    for path in (shared, folder):
        os.makedirs(path, exist_ok=True)
        with mounts.private(path):  # refused now, and not after the long builds
            pass
    for log in glob.glob(f"{folder}/*.log"):
        os.unlink(log)
    new = package(str(ROOT), folder, "new")
    tree, environment = previous_tree(folder, ref)
    # Warnings of a version that is published already are nobody's errors.
    old = package(tree, folder, "previous", ["-DDRIFTGATE_WERROR=OFF", f"-DDRIFTGATE_DEBIAN_REVISION={PREVIOUS_REVISION}"], environment)
    versions = version_of(old), version_of(new)
    check(outcome(["dpkg", "--compare-versions", versions[0], "lt", versions[1]]).returncode == 0,
          f"{versions[0]} is no lower version than {versions[1]}")
    with mounts.private(shared), mounts.private(folder):
        upgrade_in_root(folder, os.path.join(shared, "base"), old, new)
    return f"from {versions[0]} to {versions[1]}"


def main(words):
    parser = argparse.ArgumentParser(description="Builds this tree's package and the previous one, and upgrades from that in a bare root.")
    parser.add_argument("build", help="folder for both packages and the roots")
    parser.add_argument("--previous", metavar="REF", help="the commit to upgrade from (default: HEAD^, or this tree where git has none)")
    asked = parser.parse_args(words)
    for program in ("debootstrap", "dpkg-deb", "systemd-analyze"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            return 0
    try:
        done = run(os.path.abspath(asked.build), asked.previous)
    except mounts.Refused as why:
        print(f"skipped: {why}")
        return 0
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(failure)
        step("FAILED: the released package")
        return 1
    step(f"passed: the released package, upgraded {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
