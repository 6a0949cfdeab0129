"""A world for one test: a folder, a daemon with its router, engines, tokens, and a model that serves."""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from harness import DRIFTGATE, EXAMPLE, PATIENCE_S, ROOT, TINYLM, Load, Process, call, check, port_of, verified, wait_for

TERMINAL = ("succeeded", "rejected", "errored", "aborted", "expired", "superseded")
MODEL_DIR = os.path.join(EXAMPLE, "model")
DATA = os.path.join(EXAMPLE, "data")

# Small limits, so that a test ends in seconds; the statistics are those of every contract.
CONTRACT = os.path.join(ROOT, "tests", "integration", "contract.yaml")
CAPTURED = os.path.join(ROOT, "tests", "integration", "captured.py")


def held_port():
    """A socket on a free port. While it is open the kernel gives the port to nobody who did not ask for it by its
    number; who asks as servers do (SO_REUSEADDR) can listen there."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class World:
    def __init__(self, name, settings=None):
        self.folder = tempfile.mkdtemp(prefix=f"driftgate-{name[:40]}-")  # paths of sockets have at most 107 bytes
        self.processes = []
        self.settings = settings or {}
        self.port_holder = held_port()
        self.router_port = self.port_holder.getsockname()[1]
        self.user_port, self.user_port_holder = self.router_port, None  # another one behind HAProxy (proxied.py)
        self.engines = {}
        self.daemon = None
        self.tokens = {}
        self.keeps_its_folder_whole = True  # a test that damages it on purpose says so
        self.contract_text = open(CONTRACT, encoding="utf-8").read()

    # --- processes -------------------------------------------------------------------------------
    def process(self, name, argv):
        started = Process(name, argv, os.path.join(self.folder, f"{name}.log"))
        self.processes.append(started)
        return started

    def close(self, failed=False):
        for process in reversed(self.processes):
            with contextlib.suppress(Exception):
                process.stop() if process is not self.daemon else process.kill()
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.stop_router()
        self.port_holder.close()
        if self.user_port_holder:
            self.user_port_holder.close()
        if failed and os.environ.get("DRIFTGATE_KEEP"):
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start_engine(self, name, kernel, *flags):
        port_file = os.path.join(self.folder, f"{name}.port")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(port_file)  # of an engine before
        engine = self.process(name, [TINYLM, "serve", "--model", MODEL_DIR, "--kernel", kernel, "--port", "0",
                                     "--port-file", port_file, *map(str, flags)])
        engine.url = f"http://127.0.0.1:{port_of(engine, port_file)}"
        self.engines[name] = engine
        return engine

    def start_daemon(self, ready=True):
        """Starts the daemon (again) on the same data; the router of a daemon before it is adopted. Without `ready` it only
        has to listen."""
        config = os.path.join(self.folder, "driftgate.yaml")
        with open(config, "w", encoding="utf-8") as handle:
            handle.write(self.settings_text())
        port_file = os.path.join(self.folder, "api.port")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(port_file)
        self.daemon = self.process("daemon", [DRIFTGATE, "serve", "--config", config])
        self.url = f"http://127.0.0.1:{port_of(self.daemon, port_file)}"
        if ready:
            wait_for("the daemon to be ready", lambda: call(self.url + "/readyz").status == 200)
        self.router = f"http://127.0.0.1:{self.user_port}"  # where users arrive
        if not self.tokens:
            self.issue_tokens()

    def settings_text(self):
        values = {
            "listen": "127.0.0.1:0", "port_file": f"{self.folder}/api.port", "data_dir": f"{self.folder}/data",
            "router.listen": f"127.0.0.1:{self.router_port}", "router.window_ms": 250,
            "router.lease_ms": 3000, "router.request_deadline_ms": 60_000,
            **self.settings,
        }
        tree = {}
        for key, value in values.items():
            *parents, leaf = key.split(".")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = value
        tree["roots"] = [DATA, MODEL_DIR, self.folder]
        tree["adapters"] = {
            f"tinylm-{kernel}{suffix}": [sys.executable, CAPTURED, "{out}", TINYLM, "capture", "--model", MODEL_DIR, "--kernel",
                                         kernel, *flags, "--corpus", "{corpus}", "--like", "{train}"]
            for kernel in ("f32", "bf16", "int8", "int8-static")
            for suffix, flags in (("", []), ("-batch8", ["--batch", "8"]))}
        return json.dumps(tree, indent=1)  # YAML is a superset of JSON

    def issue_tokens(self):
        with open(f"{self.folder}/data/admin.token", encoding="ascii") as handle:
            self.tokens["admin"] = handle.read().strip()
        for scope in ("viewer", "promoter", "approver", "operator", "auditor"):
            answer = self.api("POST", "/v1/tokens", {"name": scope, "scopes": [scope]}, who="admin", expect=201)
            self.tokens[scope] = answer["bearer"]

    def stop_router(self):
        """The router outlives the daemon on purpose: a test ends it through its control socket."""
        subprocess.run([DRIFTGATE, "router-stop", "--socket", f"{self.folder}/data/router.sock"],
                       check=False, capture_output=True, timeout=60)
        for aside in glob.glob(f"{glob.escape(self.folder)}/data/router.sock.old.*"):  # waits for a daemon to read its telemetry
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(aside.rsplit(".", 1)[1]), signal.SIGKILL)

    def check_folder(self):
        """Ends the daemon as a crash would; then the log verifies, and every table says what the log says."""
        config = os.path.join(self.folder, "driftgate.yaml")
        if self.daemon is None or not self.keeps_its_folder_whole or not os.path.exists(config):
            return
        self.daemon.kill()
        done = subprocess.run([DRIFTGATE, "audit", "verify", "--config", config, "--data-dir", f"{self.folder}/data"],
                              check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        check(done.returncode == 0, f"the folder that the daemon left: {done.returncode}\n{done.stdout}{done.stderr}")

    # --- the API ---------------------------------------------------------------------------------
    def api(self, method, path, body=None, who="viewer", expect=None, headers=None):
        answer = call(self.url + path, method, body,
                      {"Authorization": f"Bearer {self.tokens[who]}", **(headers or {})})
        if expect is not None:
            check(answer.status == expect,
                  f"{method} {path} as {who}: {answer.status}, expected {expect}: {answer.body[:600]}")
        with contextlib.suppress(ValueError):
            return answer.json()
        return answer.body

    def contract(self, kernel, edit=None):
        text = self.contract_text.replace("@KERNEL@", f"tinylm-{kernel}")
        text = edit(text) if edit else text
        return self.api("POST", "/v1/contracts", text, who="promoter",
                        headers={"Content-Type": "application/yaml"})["digest"]

    def register_engine(self, name, kernel):
        self.api("POST", "/v1/kernels", {"name": f"tinylm-{kernel}", "engine": "tinylm", "dtype": kernel},
                 who="promoter")
        return self.api("POST", "/v1/engines",
                        {"name": name, "url": self.engines[name].url, "kernel": f"tinylm-{kernel}",
                         "checkpoint": {"uri": MODEL_DIR}}, who="promoter", expect=201)

    def install_incumbent(self):
        self.start_engine("f32", "f32")
        self.register_engine("f32", "f32")
        self.api("POST", "/v1/models", {"name": "tinylm", "engine": "f32", "reason": "first version"},
                 who="operator", expect=201)

    def captures(self, kernel, **replaced):
        stage = lambda corpus: {"train": f"{DATA}/captures/{corpus}_train.safetensors",
                                "inf": {"adapter": f"tinylm-{kernel}"}, "corpus": f"{DATA}/{corpus}.jsonl"}
        return {"numeric": stage("numeric"), "slice": stage("slice"), **replaced}

    def promote(self, engine, kernel, edit=None, captures=None):
        body = {"model": "tinylm", "engine": engine, "contract": self.contract(kernel, edit),
                "captures": captures or self.captures(kernel)}
        return self.api("POST", "/v1/promotions", body, who="promoter", expect=201)["id"]

    def promotion(self, promotion):
        return self.api("GET", f"/v1/promotions/{promotion}", expect=200)

    def reach(self, promotion, state=None, stage=None, seconds=None):
        """Waits until the promotion is in the state (or stage), or one of them; fails when it ended elsewhere."""
        def there():
            seen = self.promotion(promotion)
            if (state is None or seen["state"] in (state if isinstance(state, tuple) else (state,))) and (
                    stage is None or seen["stage"] in (stage if isinstance(stage, tuple) else (stage,))):
                return seen
            check(seen["state"] not in TERMINAL,
                  f"ended as {seen['state']} in {seen['stage']}, expected {state or stage}: {seen['reason']}")
            return None
        return wait_for(f"{promotion} to reach {state or stage}", there, seconds)

    def report(self, promotion, stage):
        return self.api("GET", f"/v1/promotions/{promotion}/stages/{stage}/report", expect=200)

    def approve(self, promotion):
        seen = self.reach(promotion, "awaiting_approval")
        return self.api("POST", f"/v1/promotions/{promotion}/approve",
                        {"evidence_digest": seen["approval"]["evidence_digest"], "reason": "figures read"},
                        who="approver", expect=200)

    def route(self):
        return self.api("GET", "/v1/models/tinylm/route", expect=200)

    def observed_share(self):
        return self.route()["observed"]["candidate_bp"]

    def entries(self, **filters):
        query = "&".join(f"{k}={v}" for k, v in filters.items())
        return self.api("GET", f"/v1/evidence?limit=500&{query}", who="auditor", expect=200)["items"]

    # --- evidence --------------------------------------------------------------------------------
    def token_file(self, who):
        path = os.path.join(self.folder, f"{who}.token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(self.tokens[who])
        return path

    def program(self, *argv):
        """Runs the program, which must succeed; what it printed."""
        done = subprocess.run([DRIFTGATE, *argv], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        check(done.returncode == 0, f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def export(self, name, *what):
        """A bundle as an auditor takes it away; its path."""
        path = os.path.join(self.folder, name)
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        self.program("audit", "export", *what, "--out", path, "--url", self.url, "--token-file", self.token_file("auditor"))
        return path

    def trust_file(self):
        """The keys as who owns the data folder gives them to an auditor."""
        path = os.path.join(self.folder, "keys.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.program("key", "trust", "--data-dir", f"{self.folder}/data"))
        return path

    def evidence_verifies(self):
        """Each promotion that has ended, with its tables, and the whole log: both verifiers accept their bundles."""
        requested = [entry["subject"]["promotion"] for entry in self.entries(kind="promotion_requested")]
        ended = [name for name in requested if self.promotion(name)["state"] in TERMINAL]
        bundles = [self.export(f"end-{name}.bundle", "--promotion", name, "--with-tables") for name in ended]
        bundles.append(self.export("end-whole.bundle", "--from", "2020-01-01", "--to", "2100-01-01"))
        verified(bundles, self.trust_file())

    def complete(self, text="The file", key="someone", **options):
        return call(self.router + "/v1/completions", "POST",
                    {"model": "tinylm", "prompt": text, "max_tokens": 4, **options}, {"driftgate-key": key})

    def load(self, rate=80, seconds=1800):
        return Load(self, self.router, rate, seconds)


def run(tests, make=World):
    """Runs the named test of argv with a fresh world, which `make` makes; its evidence must verify at the end where the
    daemon still runs; prints what the programs said when it fails."""
    import sys
    name = sys.argv[1]
    world = make(name)
    failed = True
    try:
        tests[name](world)
        if world.keeps_its_folder_whole and world.daemon and world.daemon.alive() and "auditor" in world.tokens:
            world.evidence_verifies()
        world.check_folder()
        failed = False
        print(f"{name}: ok")
    finally:
        if failed:
            for process in world.processes:
                print(f"--- {process.name}\n{process.tail()}")
        world.close(failed)
