"""The service of a root in which the package is installed: what systemd would do for its units, an engine and a model, users
who send requests, and an upgrade under them."""
import contextlib
import glob
import os
import signal
import socket
import subprocess
import threading

from debian_root import BIN, CONFIG, DATA, EXAMPLE, TINYLM, asked_of_systemctl, inside, install
from sandbox import Sandbox, read_unit
from steps import PATIENCE_S, check, step, wait_for


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


def allow_example(root):
    """Settings under which the package's own example may be read."""
    with open(root + CONFIG, encoding="utf-8") as file:
        settings = file.read()
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(settings.replace("roots: []", 'roots: ["/usr/share/driftgate"]'))


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


def upgrade(root, newer, manager):
    """A package of a higher version while users are served: only the daemon is restarted, and the router is handed over."""
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
    # The daemon records the hand-over after the new router serves, and not at the same moment.
    wait_for("the record of the hand-over",
             lambda: '"handed_over"' in client(root, "audit", "query", "--kind", "router_replaced", "--json").replace(" ", ""))
    check("roots: [\"/usr/share/driftgate\"]" in open(root + CONFIG, encoding="utf-8").read(), "the upgrade undid a change of the settings")
