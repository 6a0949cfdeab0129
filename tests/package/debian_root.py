"""Roots of Debian 12 that tests install the package in: made by debootstrap from the machine's own mirror, changed by chroot,
with a stand-in for systemctl, since no systemd runs there. The caller makes mounts private (mounts.py)."""
import fcntl
import glob
import os
import shutil
import socket
import struct

import mounts
from steps import check, outcome, step, succeed

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIG, DATA, BIN = "/etc/driftgate/driftgate.yaml", "/var/lib/driftgate", "/usr/bin/driftgate"
EXAMPLE = "/usr/share/driftgate/examples/tinylm"
TINYLM = "/usr/lib/driftgate/tinylm"
SYSTEMCTL = """#!/bin/sh
# Writes down what it is asked; units are enabled and inactive. The daemon is stopped here, and started by the test.
echo "$*" >>/run/systemctl.log
case "$*" in
*is-enabled*) echo enabled ;;
*is-active*) exit 3 ;;
*"stop driftgate.service"*)
    kill "$(cat /run/daemon.pid)"
    while [ -e "/proc/$(cat /run/daemon.pid)/exe" ]; do sleep 0.05; done
    ;;
esac
"""


# ---- The root

def plain_root(base):
    """A minimal Debian from the machine's own mirror, made once."""
    if os.path.exists(base) and not os.path.exists(os.path.join(base, "made")):
        mounts.remove_tree(base)
    succeed([os.path.join(ROOT, "scripts/bare"), "--base", base])


def fresh_root(folder, base):
    """A copy of the plain root `base`, which is made where it is missing, with the file systems that programs expect."""
    plain_root(base)
    root = os.path.join(folder, "root")
    if os.path.exists(root):
        mounts.remove_tree(root)
    succeed(["cp", "-a", "--reflink=auto", base, root])
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", f"{root}/etc/{name}")
    for path in ("/proc", "/dev"):
        succeed(["mount", "--rbind", path, root + path])
        succeed(["mount", "--make-rprivate", root + path])  # what is mounted on it in a test does not appear on the machine's
    archives = os.path.join(folder, "archives")
    os.makedirs(os.path.join(archives, "partial"), exist_ok=True)
    succeed(["mount", "--bind", archives, f"{root}/var/cache/apt/archives"])
    succeed(["mount", "-t", "tmpfs", "run", f"{root}/run"])
    succeed(["mount", "-t", "tmpfs", "tmp", f"{root}/tmp"])
    return root


def inside(root, *words, check_code=True, **options):
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                   "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"} | options.pop("environment", {})
    return (succeed if check_code else outcome)(["chroot", root, *words], env=environment, **options)


# ---- Packages

def repack(deb, folder, version, change=None):
    """The same package under another version, with the change made to its tree. Each program file is a new one."""
    tree = os.path.join(folder, f"tree-{version}")
    shutil.rmtree(tree, ignore_errors=True)
    succeed(["dpkg-deb", "-R", deb, tree])
    before = succeed(["dpkg-deb", "-f", deb, "Version"]).strip()
    for name in ("control", "preinst"):
        path = os.path.join(tree, "DEBIAN", name)
        text = open(path, encoding="utf-8").read()
        check(before in text, f"{name} does not name the version {before}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(before, version))
    if change:
        change(tree)
    made = os.path.join(folder, f"driftgate_{version}.deb")
    succeed(["dpkg-deb", "-b", "--root-owner-group", "-Zgzip", "-z1", tree, made])
    shutil.rmtree(tree)
    return made


def install(root, deb, check_code=True, environment=None):
    """As apt without a terminal: settings that were changed stay as they are."""
    shutil.copy(deb, f"{root}/tmp/driftgate.deb")
    return inside(root, "dpkg", "-i", "--force-confold", "/tmp/driftgate.deb", check_code=check_code,
                  environment=environment or {})


def asked_of_systemctl(root):
    """What the maintainer scripts asked since the last look, without questions."""
    path = f"{root}/run/systemctl.log"
    lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
    open(path, "w", encoding="utf-8").close()
    return [line.replace("--system", "").replace("--quiet", "").strip() for line in lines
            if "is-enabled" not in line and "is-active" not in line]


def only_loopback():
    """From here on there is no other network, and any port is free on this one."""
    check(mounts.LIBC.unshare(CLONE_NEWNET) == 0, "no network namespace")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def root_with(deb, folder, base):
    """A fresh root in which apt has installed the package."""
    root = fresh_root(folder, base)
    step("apt-get install in a fresh root")
    os.makedirs(f"{root}/run/systemd/system")
    with open(f"{root}/usr/local/sbin/systemctl", "w", encoding="utf-8") as file:
        file.write(SYSTEMCTL)
    os.chmod(file.name, 0o755)
    with open(f"{root}/etc/apt/apt.conf.d/99path", "w", encoding="utf-8") as file:
        file.write('DPkg::Path "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";\n')
    shutil.copy(deb, f"{root}/tmp/driftgate.deb")
    inside(root, "apt-get", "update", "-qq")
    said = inside(root, "apt-get", "install", "-y", "--no-install-recommends", "/tmp/driftgate.deb")
    asked = asked_of_systemctl(root)
    check("start driftgate-router.socket driftgate.socket driftgate.service" in asked, f"asked of systemd: {asked}\n{said}")
    return root


def built_package(build, folder):
    """By cpack from this build folder: what scripts/package makes of a release build."""
    succeed(["cmake", "--build", build, "--target", "driftgate_package_files"])
    for old in glob.glob(f"{folder}/*.deb"):
        os.unlink(old)
    succeed(["cpack", "-G", "DEB", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "--config",
             f"{build}/CPackConfig.cmake"], cwd=build)
    found = glob.glob(f"{folder}/driftgate_*.deb")
    check(len(found) == 1, f"cpack made {found}")
    return found[0]
