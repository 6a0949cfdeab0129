"""mounts.private hides a test's mounts from everybody else and takes them back, where `/` is a mount point and in a chroot
where it is none. Says "skipped: …" where it cannot run. Usage: private_mounts.py"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import mounts  # noqa: E402
from steps import check, succeed  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MS_SHARED = 1 << 20


def as_a_test(folder, root_is_a_mount):
    """What a test does in `folder`: it mounts something, and the process that watches looks around meanwhile."""
    with mounts.private(folder):
        check(mounts.make_root_private() == (root_is_a_mount == "mount"), f"whether / is a mount point is not {root_is_a_mount}")
        inner = f"{folder}/inner"
        os.makedirs(inner, exist_ok=True)
        succeed(["mount", "-t", "tmpfs", "inner", inner])
        open(f"{inner}/file", "w", encoding="utf-8").close()
        print("mounted", flush=True)
        sys.stdin.readline()
    left = mounts.mounted_below(folder)
    check(not left and not os.path.exists(f"{inner}/file"), f"left after the test: {left}")
    print("unmounted", flush=True)


def watch(words, folder):
    """Runs a test beside this process, whose mounts would show what the test lets out."""
    before = mounts.mounted_below("/")
    with subprocess.Popen([*words, "--as-a-test"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as test:
        said = test.stdout.readline()
        leaked = [point for point in mounts.mounted_below("/") if point.endswith("/inner")]
        rest = test.communicate("\n", timeout=60)[0]
    check(said == "mounted\n" and rest == "unmounted\n" and test.returncode == 0, f"{words}: {test.returncode}\n{said}{rest}")
    check(not leaked, f"others see {leaked}")
    check(mounts.mounted_below("/") == before, "the test leaves mounts behind")
    check(os.path.isdir(f"{folder}/inner"), "the test worked in another folder")


def bind(path, target):
    os.makedirs(target)
    succeed(["mount", "--rbind", path, target])
    succeed(["mount", "--make-rprivate", target])
    if path not in ("/dev", "/proc"):
        succeed(["mount", "-o", "remount,bind,ro", target])


def chroot_without_mount(root):
    """A folder that this machine's programs can be run in as their `/`, and that is no mount point."""
    for path in ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/usr", sys.base_prefix):
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path) and not os.path.exists(root + path):
            bind(path, root + path)
    bind(HERE, f"{root}/package")
    os.makedirs(f"{root}/folder")


def main():
    place = tempfile.mkdtemp(prefix="dg-mounts-")
    try:
        with mounts.private(place):
            kind = "mount" if mounts.make_root_private() else "folder"
            # As on a machine with systemd: what is mounted here spreads to other processes unless it is made private.
            mounts.mount("none", place, mounts.MS_REC | MS_SHARED)
            for name in ("root", "plain"):
                os.makedirs(f"{place}/{name}")
            script = os.path.basename(__file__)
            watch([sys.executable, f"{HERE}/{script}", f"{place}/plain", kind], f"{place}/plain")
            root = os.path.join(place, "root")
            chroot_without_mount(root)
            watch(["chroot", root, f"{sys.base_prefix}/bin/python3", f"/package/{script}", "/folder", "folder"], root + "/folder")
    except mounts.Refused as why:
        print(f"skipped: {why}")
    finally:
        mounts.remove_tree(place)
    return 0


if __name__ == "__main__":
    if sys.argv[3:] == ["--as-a-test"]:
        as_a_test(sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
