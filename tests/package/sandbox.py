"""Runs a unit's command line in a root folder as systemd would, as far as one process can do without systemd: its user,
no capabilities, no new privileges, the file system read-only but for its state folder, a /proc without other users, its
filter of system calls and no memory that is writable and executable. What it does not do is named in docs/install.md."""
import ctypes
import os
import subprocess

ERRNO = lambda number: 0x00050000 | number  # SCMP_ACT_ERRNO
ALLOW = 0x7FFF0000
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
CLONE_NEWNS = 0x00020000
PROT_WRITE, PROT_EXEC = 2, 4
EQUAL_MASKED = 7


class Argument(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def read_unit(path):
    """Section → key → values, in order."""
    sections, current = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if line.startswith("["):
                current = sections.setdefault(line.strip("[]"), {})
            elif line and not line.startswith(("#", ";")):
                key, _, value = line.partition("=")
                current.setdefault(key, []).append(value)
    return sections


def expand(names):
    """System calls of groups such as @system-service, by systemd's own list."""
    calls = set()
    for name in names:
        if not name.startswith("@"):
            calls.add(name)
            continue
        listed = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
        calls |= expand([line.strip() for line in listed.splitlines()[1:] if line.strip() and not line.strip().startswith("#")])
    return calls


def allowed_calls(service):
    calls = expand(["@default"])
    for line in service.get("SystemCallFilter", []):
        if line.startswith("~"):
            calls -= expand(line[1:].split())
        else:
            calls |= expand(line.split())
    return sorted(calls)


class Sandbox:
    """How to start one unit's ExecStart in `root`; made in the parent, entered in the child before exec."""

    def __init__(self, root, unit):
        self.root, self.service = root, read_unit(os.path.join(root, "lib/systemd/system", unit))["Service"]
        self.words = self.service["ExecStart"][0].split()
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        for line in self.service.get("Environment", []):
            name, _, value = line.partition("=")
            self.environment[name] = value
        with open(os.path.join(root, "etc/passwd"), encoding="utf-8") as file:
            fields = next(line for line in file if line.startswith(self.service["User"][0] + ":")).split(":")
        self.uid, self.gid = int(fields[2]), int(fields[3])
        self.calls = allowed_calls(self.service)
        self.no_exec_memory = self.service.get("MemoryDenyWriteExecute") == ["yes"]
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.seccomp.seccomp_init.restype = ctypes.c_void_p

    def writable(self):
        return [f"/var/lib/{name}" for name in self.service["StateDirectory"]] + ["/tmp", "/run", "/dev"]

    def checked(self, done, what):
        if done != 0:
            raise OSError(ctypes.get_errno(), what)

    def mount(self, source, target, flags):
        self.checked(self.libc.mount(source.encode(), target.encode(), None, flags, None), f"mount {target}")

    def enter(self):
        """In the child, as root, until its user is taken. The mounts of `root` are private already (mounts.py)."""
        self.checked(self.libc.unshare(CLONE_NEWNS), "unshare")
        self.mount(self.root, self.root, MS_BIND | MS_REC)
        for path in self.writable():
            self.mount(self.root + path, self.root + path, MS_BIND | MS_REC)
        hidden = f"hidepid={self.service['ProtectProc'][0]}".encode()  # of other users' processes
        self.checked(self.libc.mount(b"proc", (self.root + "/proc").encode(), b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, hidden),
                     "mount /proc")
        self.mount("none", self.root, MS_REMOUNT | MS_BIND | MS_RDONLY)  # this mount only: those bound above stay writable
        os.chroot(self.root)
        os.chdir("/")
        for capability in range(64):
            self.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)
        os.umask(int(self.service["UMask"][0], 8))
        self.checked(self.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        self.filter_calls()

    def filter_calls(self):
        seccomp = self.seccomp
        context = ctypes.c_void_p(seccomp.seccomp_init(ERRNO(1)))
        for name in self.calls:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())
            if number == -1:
                continue
            rules = [[]]
            if self.no_exec_memory and name == "mmap":
                rules = [[Argument(2, EQUAL_MASKED, PROT_WRITE | PROT_EXEC, value)] for value in (0, PROT_WRITE, PROT_EXEC)]
            elif self.no_exec_memory and name in ("mprotect", "pkey_mprotect"):
                rules = [[Argument(2, EQUAL_MASKED, PROT_EXEC, 0)]]
            for rule in rules:
                arguments = (Argument * max(len(rule), 1))(*rule)
                seccomp.seccomp_rule_add_array(context, ALLOW, number, len(rule), arguments)
        if seccomp.seccomp_load(context) != 0:
            raise OSError("the filter of system calls cannot be loaded")

    def start(self, **options):
        return subprocess.Popen(self.words, env=self.environment | options.pop("environment", {}), preexec_fn=self.enter, **options)

