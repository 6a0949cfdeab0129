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

import debian_root  # noqa: E402
import mounts  # noqa: E402
import quickstart  # noqa: E402


def main(build):
    for program in ("debootstrap", "cpack", "dpkg-deb"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            return 0
    shared, folder = os.path.join(build, "package-test"), os.path.join(build, "quickstart-test")
    for path in (shared, folder):
        os.makedirs(path, exist_ok=True)
    try:
        with mounts.private(shared), mounts.private(folder):
            package = debian_root.built_package(build, folder)
            root = debian_root.fresh_root(folder, os.path.join(shared, "base"))
            return quickstart.main(["package", root, package])
    except mounts.Refused as why:
        print(f"skipped: {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
