"""Mounts that only a test sees, and that are gone after it: also in a chroot, whose `/` may be no mount point."""
import contextlib
import ctypes
import errno
import os
import shutil

from steps import check

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2


class Refused(Exception):
    """Mounts cannot be made here; the text says why."""


def mount(source, target, flags):
    if LIBC.mount(source.encode(), target.encode(), None, flags, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def mounted_below(folder):
    """Mount points in `folder`, and the folder itself where it is one, as this process sees them."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    return [point for point in points if point == folder or point.startswith(folder.rstrip("/") + "/")]


def remove_tree(folder):
    """Deletes a folder, unless something is mounted in it, which would be deleted as well."""
    mounted = mounted_below(os.path.realpath(folder))
    check(not mounted, f"{folder} is not deleted, since these are mounted: {', '.join(mounted)}")
    shutil.rmtree(folder)


def make_root_private():
    """Whether it could be done: not in a chroot whose `/` is a folder of a mount, and no mount of its own."""
    try:
        mount("none", "/", MS_REC | MS_PRIVATE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


@contextlib.contextmanager
def private(folder):
    """What this process and its children mount in `folder` is seen by nobody else, and is unmounted at the end. The folder
    is a mount of its own meanwhile: where `/` is none, nothing else can be made private, and others see this one mount."""
    if os.geteuid() != 0:
        raise Refused("not root, who alone may mount")
    folder = os.path.realpath(folder)
    try:
        if LIBC.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        make_root_private()
        mount(folder, folder, MS_BIND)
        mount("none", folder, MS_PRIVATE)
    except OSError as error:
        raise Refused(f"mounts of a test's own cannot be made here ({error})") from error
    try:
        yield
    finally:
        # With all that is mounted in it, however long a process goes on that has a file of it open.
        if LIBC.umount2(folder.encode(), MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
