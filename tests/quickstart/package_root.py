"""The quickstart with the package, in a bare root of Debian 12: the page's own blocks, from apt on. The plain root is that
of the package's own test, made once and kept in the build folder. Says "skipped: …" where it cannot run.
Usage: package_root.py BUILD_FOLDER"""
import os
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("DRIFTGATE_ROOT", str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "package"))

import bare_root  # noqa: E402
import quickstart  # noqa: E402


def main(build):
    for program in ("debootstrap", "cpack", "dpkg-deb"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            return 0
    if os.geteuid() != 0 or bare_root.LIBC.unshare(bare_root.CLONE_NEWNS) != 0:
        print("skipped: not root, or no mount namespaces here")
        return 0
    bare_root.succeed(["mount", "--make-rprivate", "/"])
    shared, folder = os.path.join(build, "package-test"), os.path.join(build, "quickstart-test")
    for path in (shared, folder):
        os.makedirs(path, exist_ok=True)
    base = bare_root.plain_root(shared)
    bare_root.plain_root = lambda _: base
    package = bare_root.built_package(build, folder)
    root = bare_root.fresh_root(folder)
    return quickstart.main(["package", root, package])


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
