"""The Debian package in a fresh root of Debian 12: installed with apt, tried, upgraded under a daemon and a router that
serve, refused as a downgrade, removed and purged. No systemd runs there: what the maintainer scripts ask of it is written
down by a stand-in for systemctl and carried out here, with the units' own command lines, users and hardening
(sandbox.py). Takes root, debootstrap and a mirror, which are the machine's own; the plain root is kept in the build
folder. Says "skipped: …" where it cannot run.
Usage: bare_root.py BUILD_FOLDER"""
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from sandbox import Sandbox, read_unit  # noqa: E402

BEGAN = time.monotonic()
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SUITE = "bookworm"
PATIENCE_S = 60
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


class Failure(AssertionError):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def step(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def wait_for(what, probe):
    end = time.monotonic() + PATIENCE_S
    while not (value := probe()):
        check(time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}")
        time.sleep(0.05)
    return value


def outcome(words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False, **options)


def succeed(words, **options):
    done = outcome(words, **options)
    check(done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}")
    return done.stdout


# ---- The root

def plain_root(folder):
    """A minimal Debian from the machine's own mirror, made once."""
    base = os.path.join(folder, "base")
    if os.path.exists(os.path.join(base, "made")):
        return base
    shutil.rmtree(base, ignore_errors=True)
    sources = "".join(open(path, encoding="utf-8").read() for path in glob.glob("/etc/apt/sources.list.d/*.sources")) \
        + (open("/etc/apt/sources.list", encoding="utf-8").read() if os.path.exists("/etc/apt/sources.list") else "")
    mirror = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?)\s*(\S+)", sources, re.M)
    check(mirror, "the machine's apt sources name no mirror")
    succeed(["debootstrap", "--variant=minbase", SUITE, base, mirror.group(1)])
    with open(f"{base}/etc/apt/sources.list", "w", encoding="utf-8") as file:
        file.write(f"deb {mirror.group(1)} {SUITE} main\n")
    for path in glob.glob("/etc/apt/apt.conf.d/*"):  # how the mirror is reached
        with open(path, encoding="utf-8") as file:
            if "Acquire::" in file.read():
                shutil.copy(path, f"{base}/etc/apt/apt.conf.d")
    open(os.path.join(base, "made"), "w", encoding="utf-8").close()
    return base


def fresh_root(folder):
    base, root = plain_root(folder), os.path.join(folder, "root")
    if os.path.exists(root):
        shutil.rmtree(root)
    succeed(["cp", "-a", "--reflink=auto", base, root])
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", f"{root}/etc/{name}")
    for path, kind in (("/proc", "rbind"), ("/dev", "rbind")):
        succeed(["mount", f"--{kind}", path, root + path])
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
    shutil.copy(deb, f"{root}/tmp/driftgate.deb")
    return inside(root, "dpkg", "-i", "/tmp/driftgate.deb", check_code=check_code, environment=environment or {})


def asked_of_systemctl(root):
    """What the maintainer scripts asked since the last look, without questions."""
    path = f"{root}/run/systemctl.log"
    lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
    open(path, "w", encoding="utf-8").close()
    return [line.replace("--system", "").replace("--quiet", "").strip() for line in lines
            if "is-enabled" not in line and "is-active" not in line]


# ---- What systemd does

class Manager:
    """Holds the sockets of the units, starts the daemon and, for each connection, a router."""

    def __init__(self, root, folder):
        self.root, self.folder, self.children, self.daemon = root, folder, [], None
        units = os.path.join(root, "lib/systemd/system")
        address = read_unit(f"{units}/driftgate.socket")["Socket"]["ListenStream"][0]
        host, port = address.rsplit(":", 1)
        self.api = socket.create_server((host, int(port)))
        launcher = read_unit(f"{units}/driftgate-router.socket")["Socket"]
        path = root + launcher["ListenStream"][0]
        self.router_sandbox = Sandbox(root, "driftgate-router@.service")
        self.launcher = socket.socket(socket.AF_UNIX)
        self.launcher.bind(path)
        os.chown(path, self.router_sandbox.uid, self.router_sandbox.gid)
        os.chmod(path, int(launcher["SocketMode"][0], 8))
        self.launcher.listen()
        threading.Thread(target=self.start_routers, daemon=True).start()

    def start_routers(self):
        while True:
            try:
                connection = self.launcher.accept()[0]
            except OSError:
                return
            with connection, open(os.path.join(self.folder, "routers.log"), "ab") as log:
                self.children.append(self.router_sandbox.start(stdin=connection, stdout=log, stderr=log))

    def start(self):
        """The daemon by its unit's ExecStart, with the API's socket as descriptor 3."""
        sandbox, api = Sandbox(self.root, "driftgate.service"), self.api.fileno()
        # Only the child knows its process id: a shell says it, and becomes the daemon.
        sandbox.words = ["/bin/bash", "-c", f'LISTEN_PID=$$ exec "$@" 3<&{api}', "sh", *sandbox.words]
        seen = self.text().count("ready port=")
        with open(self.log(), "ab") as log:
            self.daemon = sandbox.start(stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[api],
                                        environment={"LISTEN_FDS": "1"})
        wait_for(f"the daemon\n{self.text()}", lambda: self.text().count("ready port=") > seen or self.daemon.poll() is not None)
        check(self.daemon.poll() is None, f"the daemon ended with {self.daemon.poll()}:\n{self.text()}")
        with open(f"{self.root}/run/daemon.pid", "w", encoding="utf-8") as file:
            file.write(f"{self.daemon.pid}\n")

    def restart(self):
        self.stop()
        self.start()

    def stop(self):
        self.daemon.send_signal(signal.SIGTERM)
        check(self.daemon.wait(PATIENCE_S) == 0, f"the daemon ended with {self.daemon.returncode}:\n{self.text()}")

    def log(self):
        return os.path.join(self.folder, "daemon.log")

    def text(self):
        return open(self.log(), encoding="utf-8").read() if os.path.exists(self.log()) else ""

    def close(self):
        self.launcher.close()
        for child in [self.daemon, *self.children]:
            if child is not None and child.poll() is None:
                child.kill()
                child.wait()


# ---- The steps

def try_commands(root):
    step("the program, the manual and the example")
    version = inside(root, "driftgate", "version").strip()
    check(re.fullmatch(r"driftgate \d+\.\d+\.\d+", version), version)
    data = f"{EXAMPLE}/data"
    report = inside(root, "driftgate", "drift", f"{data}/captures/numeric_train.safetensors",
                    f"{data}/captures/numeric_train_batch8.safetensors", "--corpus", f"{data}/numeric.jsonl", "--json", "-")
    report = report[report.index("{"):report.rindex("}") + 1]
    check(json.loads(report), report)
    check("serve" in inside(root, TINYLM, "--help"), "tinylm has no help")
    check("libdriftgate.so.1 " in inside(root, "ldconfig", "-p"), "the linker does not know the C library: ldconfig was not run")
    for page in ("man1/driftgate.1.gz", "man1/driftgate-drift.1.gz", "man1/driftgate-audit.1.gz", "man5/driftgate.yaml.5.gz"):
        check(os.path.exists(f"{root}/usr/share/man/{page}"), f"there is no manual page {page}")
    loaded = inside(root, "bash", "-c", "source /usr/share/bash-completion/completions/driftgate; "
                    "COMP_WORDS=(driftgate au); COMP_CWORD=1; _driftgate; echo ${COMPREPLY[*]}")
    check(loaded.split() == ["audit"], f"bash completes 'driftgate au' to {loaded}")


def client(root, *words):
    return inside(root, "driftgate", *words, environment={"DRIFTGATE_TOKEN": open(f"{root}/tmp/ana", encoding="utf-8").read().strip()})


def serve_model(root, folder, manager):
    """An engine of the package, a model on it, and users who ask for it all the time."""
    step("an engine, a model and users' requests")
    inside(root, "driftgate", "token", "issue", "--token-file", f"{DATA}/admin.token", "--name", "ana", "--scope", "promoter",
           "--scope", "operator", "--scope", "auditor", "--out", "/tmp/ana")
    with open(os.path.join(folder, "engine.log"), "wb") as log:
        engine = subprocess.Popen(["chroot", root, TINYLM, "serve", "--model", f"{EXAMPLE}/model", "--port", "8101", "--kernel", "f32"],
                                  stdout=log, stderr=log)
    manager.children.append(engine)
    wait_for("the engine", lambda: listens(8101))
    client(root, "kernel", "register", f"{EXAMPLE}/kernels/f32.json")
    client(root, "engine", "register", "f32", "--engine-url", "http://127.0.0.1:8101", "--kernel", "tinylm-f32", "--checkpoint",
           f"{EXAMPLE}/model")
    client(root, "model", "create", "tinylm", "--engine", "f32", "--reason", "first version")
    wait_for("the model's route", lambda: ask_router() == 200)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def ask_router():
    """The status of one request; 0 when it is refused or broken."""
    body = b'{"model":"tinylm","prompt":"The file","max_tokens":2,"user":"u"}'
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 8080), PATIENCE_S) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        text = b"".join(iter(lambda: connection.recv(65536), b""))
        if text.startswith(b"HTTP/1.1 ") and b"\r\n\r\n" in text:
            return int(text.split()[1])
    return 0


class Users(threading.Thread):
    """One request after another, until they are told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping, self.answers = threading.Event(), []

    def run(self):
        while not self.stopping.is_set():
            self.answers.append(ask_router())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()

    def served_all(self, what):
        bad = [answer for answer in self.answers if answer != 200]
        check(self.answers and not bad, f"{what}: {len(bad)} of {len(self.answers)} requests were not served: {bad[:5]}")
        step(f"{what}: {len(self.answers)} requests, all served")


def router_pid(root):
    """The process that holds the lock beside the control socket now."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = open(path, "rb").read().split(b"\0")
            if b"--control" in words and b"router" in words[:2]:
                pid = int(path.split("/")[2])
                if os.stat(f"/proc/{pid}/exe").st_ino == os.stat(root + BIN).st_ino:
                    return pid
    return None


def upgrade(root, folder, deb, manager):
    """A higher version while users are served: only the daemon is restarted, and the router is handed over."""
    newer = repack(deb, folder, "0.1.1-1")
    before = router_pid(root)
    check(before, "no router runs the installed program")
    step("upgrade under a daemon and a router")
    asked_of_systemctl(root)
    with Users() as users:
        said = install(root, newer)
        asked = asked_of_systemctl(root)
        check([line for line in asked if line.startswith(("restart", "start", "stop"))] == ["restart driftgate.service"],
              f"an upgrade restarts the daemon alone, not: {asked}\n{said}")
        manager.restart()
        after = wait_for("a router of the new program", lambda: router_pid(root))
        wait_for("the end of the router before", lambda: not os.path.exists(f"/proc/{before}/exe"))
    users.served_all("upgrade")
    check(after != before, "the router is the same process")
    replaced = client(root, "audit", "query", "--kind", "router_replaced", "--json")
    check('"handed_over"' in replaced.replace(" ", ""), f"the hand-over is not on record: {replaced}")
    check("roots: [\"/usr/share/driftgate\"]" in open(root + CONFIG, encoding="utf-8").read(), "the upgrade undid a change of the settings")


def refuse_unusable(root, folder, deb):
    """Settings that cannot be used: the new version is there, the daemon that runs is left alone."""
    step("upgrade with settings that cannot be used")
    good = open(root + CONFIG, encoding="utf-8").read()
    with open(root + CONFIG, "a", encoding="utf-8") as file:
        file.write("no_such_setting: 1\n")
    asked_of_systemctl(root)
    with Users() as users:
        said = install(root, repack(deb, folder, "0.1.2-1"))
    users.served_all("unusable settings")
    asked = asked_of_systemctl(root)
    check(not any(line.startswith(("restart", "start")) for line in asked), f"asked of systemd: {asked}")
    check("no_such_setting" in said and "goes on as it is" in said, said)
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(good)


def refuse_downgrade(root, folder, deb, manager):
    step("downgrades")

    def older_schema(tree):
        path = os.path.join(tree, "DEBIAN/preinst")
        text = open(path, encoding="utf-8").read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^known=\d+", "known=3", text, flags=re.M))

    older = repack(deb, folder, "0.0.9-1", older_schema)
    done = install(root, older, check_code=False)
    check(done.returncode != 0 and "is refused" in done.stdout and "knows up to 3" in done.stdout, done.stdout)
    status = inside(root, "dpkg-query", "-W", "-f", "${Status} ${Version}", "driftgate")
    check(status == "install ok installed 0.1.2-1", status)
    check(manager.daemon.poll() is None and ask_router() == 200, "the refused downgrade disturbed what runs")
    # The program says it itself, too: a copy of the data that a newer version has written.
    copy = f"{root}/tmp/newer"
    shutil.copytree(root + DATA, copy, ignore=shutil.ignore_patterns("*.sock*"))
    with contextlib.closing(sqlite3.connect(f"{copy}/driftgate.db")) as database:
        database.execute("INSERT INTO schema_migrations(version, name, checksum, applied_us) VALUES(999, 'later', 'x', 0)")
        database.commit()
    for words in (["--check"], []):
        done = inside(root, "driftgate", "serve", "--config", CONFIG, "--data-dir", "/tmp/newer", *words, check_code=False)
        check(done.returncode != 0 and "schema version 999" in done.stdout and "newer driftgate" in done.stdout, done.stdout)
    # Also with settings that cannot be used, and where nothing is said of the schema the administrator decides.
    good = open(root + CONFIG, encoding="utf-8").read()
    for fault, why in (("otlp: {endpoint: 'ftp://nowhere'}", "knows up to 3"), ("no_such_setting: 1", "does not say")):
        with open(root + CONFIG, "w", encoding="utf-8") as file:
            file.write(f"{good}{fault}\n")
        done = install(root, older, check_code=False)
        check(done.returncode != 0 and "is refused" in done.stdout and why in done.stdout, done.stdout)
    same = repack(deb, folder, "0.0.8-1")
    done = install(root, same, check_code=False)
    check(done.returncode != 0 and "no_such_setting" in done.stdout and "DRIFTGATE_FORCE_DOWNGRADE" in done.stdout, done.stdout)
    install(root, same, environment={"DRIFTGATE_FORCE_DOWNGRADE": "1"})
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(good)
    # Of the same schema an older version is installed as any other.
    install(root, repack(deb, folder, "0.1.2-1"))
    install(root, same)
    install(root, f"{folder}/driftgate_0.1.2-1.deb")


def listed(root):
    """What is left of the package, by hand and by dpkg."""
    found = []
    for top in ("/etc", "/usr/lib", "/usr/bin", "/usr/share", "/lib/systemd", "/var/lib", "/run"):
        for folder, folders, files in os.walk(root + top):
            place = folder[len(root):]
            found += [f"{place}/{name}" for name in folders + files if "driftgate" in name or "driftgate" in place]
    return sorted(set(found))


def remove_and_purge(root, manager):
    step("removal")
    asked_of_systemctl(root)
    said = inside(root, "apt-get", "remove", "-y", "driftgate")
    asked = asked_of_systemctl(root)
    check("stop driftgate.service driftgate.socket driftgate-router.socket" in asked, f"asked of systemd: {asked}")
    check("ending the router" in said and "are kept in /var/lib/driftgate" in said, said)
    check(ask_router() == 0, "a router still serves")
    check(manager.daemon.wait(PATIENCE_S) == 0, f"the daemon ended with {manager.daemon.returncode}")
    check(not os.path.exists(root + BIN) and os.path.exists(root + CONFIG), "what a removal leaves is not as it should be")
    step("purge")
    said = inside(root, "apt-get", "purge", "-y", "driftgate")
    check("the evidence is NOT deleted" in said, said)
    left = listed(root)
    print("    left after the purge:\n      " + "\n      ".join(left))
    for name in ("driftgate.db", "log.key", "attestation.key", "head.note", "trust.json", "admin.token"):
        check(os.path.exists(f"{root}{DATA}/{name}"), f"the purge deleted {name}")
    gone = [path for path in left if not path.startswith(DATA) and not path.startswith("/var/lib/systemd/deb-systemd-helper")]
    check(not gone, f"left outside the data folder: {gone}")
    check(not [path for path in left if "/spool" in path or "/jobs" in path or "router." in path or "session.key" in path],
          f"the purge left what is no evidence: {left}")


def again(root, deb):
    step("installed again on the record that was kept")
    install(root, deb)
    said = inside(root, "runuser", "-u", "driftgate", "--", "driftgate", "serve", "--check", "--config", CONFIG)
    check("the database has schema version" in said, said)
    verified = inside(root, "runuser", "-u", "driftgate", "--", "driftgate", "audit", "verify", "--data-dir", DATA)
    check(re.match(r"ok: \d+ entries", verified), verified)


def remove_without_systemd(root, folder):
    """A daemon that somebody started by hand: it ends first, so that it starts no router in place of the one that ends."""
    step("removal where no systemd runs")
    os.rmdir(f"{root}/run/systemd/system")
    path = os.path.join(folder, "by_hand.log")
    with open(path, "wb") as log:
        daemon = subprocess.Popen(["chroot", "--userspec=driftgate:driftgate", root, "driftgate", "serve", "--config", CONFIG, "--listen",
                                   "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                  env={"PATH": "/usr/sbin:/usr/bin:/bin", "LANG": "C.UTF-8"})
    try:
        wait_for("the daemon", lambda: "ready port=" in open(path, encoding="utf-8").read() or daemon.poll() is not None)
        check(daemon.poll() is None and router_pid(root), open(path, encoding="utf-8").read())
        said = inside(root, "apt-get", "remove", "-y", "driftgate")
        check(f"ending the daemon (process {daemon.pid})" in said and "ending the router" in said, said)
        check(daemon.wait(PATIENCE_S) == 0, f"the daemon ended with {daemon.returncode}")
        wait_for("the router's end", lambda: not listens(8080))
        left = [open(path, "rb").read() for path in glob.glob("/proc/[0-9]*/cmdline") if os.access(path, os.R_OK)]
        check(not [words for words in left if b"--control" in words and DATA.encode() in words], "a router is left")
        check("replaced" not in open(path, encoding="utf-8").read(), "the daemon replaced the router that was ended")
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()


def only_loopback():
    """From here on there is no other network, and any port is free on this one."""
    check(LIBC.unshare(CLONE_NEWNET) == 0, "no network namespace")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def in_root(folder, deb):
    root = fresh_root(folder)
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


def in_order(root, folder, deb):
    only_loopback()
    try_commands(root)
    with open(root + CONFIG, encoding="utf-8") as file:
        settings = file.read()
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(settings.replace("roots: []", 'roots: ["/usr/share/driftgate"]'))
    step("the daemon by its unit")
    with contextlib.closing(Manager(root, folder)) as manager:
        manager.start()
        serve_model(root, folder, manager)
        step("a restart of the daemon")
        router = router_pid(root)
        with Users() as users:
            manager.restart()
        users.served_all("restart")
        check(router and router_pid(root) == router, "the daemon's restart changed the router")
        upgrade(root, folder, deb, manager)
        refuse_unusable(root, folder, deb)
        refuse_downgrade(root, folder, deb, manager)
        remove_and_purge(root, manager)
        again(root, deb)
    remove_without_systemd(root, folder)


def built_package(build, folder):
    """By cpack from this build folder: what scripts/package makes of a release build."""
    succeed(["cmake", "--build", build, "--target", "driftgate_package_files"])
    for old in glob.glob(f"{folder}/*.deb"):
        os.unlink(old)
    succeed(["cpack", "-G", "DEB", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "--config", f"{build}/CPackConfig.cmake"], cwd=build)
    found = glob.glob(f"{folder}/driftgate_*.deb")
    check(len(found) == 1, f"cpack made {found}")
    return found[0]


def lint(deb, root):
    """Lintian with all its tags; what it says of things that have reasons is in configs/debian/lintian-overrides."""
    step("lintian and systemd-analyze")
    if shutil.which("lintian"):
        succeed(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", "unstripped-binary-or-object", deb])
    else:
        print("    lintian is not installed: left out")
    units = [f"{root}/lib/systemd/system/{name}" for name in
             ("driftgate.service", "driftgate.socket", "driftgate-router.socket", "driftgate-router@.service")]
    for unit in units:
        done = outcome(["systemd-analyze", "verify", "--man=no", f"--root={root}", os.path.basename(unit)])
        mine = [line for line in done.stdout.splitlines() if "driftgate" in line]
        check(not mine, "\n".join(mine))
    for unit in (units[0], units[3]):
        said = succeed(["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit])
        print("    " + said.strip().splitlines()[-1])


def main(build):
    for program in ("debootstrap", "unshare", "cpack", "dpkg-deb", "systemd-analyze"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            return 0
    if os.geteuid() != 0 or LIBC.unshare(CLONE_NEWNS) != 0:
        print("skipped: not root, or no mount namespaces here")
        return 0
    succeed(["mount", "--make-rprivate", "/"])
    folder = os.path.join(build, "package-test")
    os.makedirs(folder, exist_ok=True)
    for log in glob.glob(f"{folder}/*.log"):
        os.unlink(log)
    step("the package")
    deb = built_package(build, folder)
    step(f"{os.path.basename(deb)}: {os.path.getsize(deb) / 2**20:.1f} MiB")
    root = in_root(folder, deb)
    lint(deb, root)
    in_order(root, folder, deb)
    step("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
