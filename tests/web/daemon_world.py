"""A daemon with its router, tinylm's engines and real traffic for the browser tests of real/, and a control server on
loopback by which a test starts promotions and restarts the daemon."""
import contextlib
import http.server
import json
import os
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("DRIFTGATE_ROOT", ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
from world import World, held_port  # noqa: E402

PEOPLE = {"vera": ["viewer"], "anna": ["approver"], "bert": ["approver"], "olga": ["operator"], "otto": ["operator"],
          "audrey": ["auditor"], "chief": ["approver", "operator", "auditor"], "ada": ["admin"]}

# Few requests decide: what is tested here is the page, not how many keys a proof takes.
FASTER = (("    steps: [{share: 0.25}, {share: 0.5, approval: true}, {share: 1.0}]",
           "    steps: [{share: 0.3}, {share: 0.5, approval: true}, {share: 0.7, approval: true}, {share: 1.0}]"),
          ("min_keys: 60", "min_keys: 40"), ("min_duration: 4s", "min_duration: 2s"),
          ("{id: errors, metric: error_rate, max: 0.05, max_ratio: 1.5}", "{id: errors, metric: error_rate, max: 0.25, max_ratio: 3}"),
          ("min_count: 120", "min_count: 40"))


def edited(text, name, offline):
    for old, new in (*FASTER, ("name: tinylm-test", f"name: {name}")):
        if old not in text:
            raise AssertionError(f"the contract of tests/integration lost {old!r}")
        text = text.replace(old, new, 1)
    if offline:
        return text
    head, rest = text.split("numerical:\n", 1)
    return head + "runtime:\n" + rest.split("\nruntime:\n", 1)[1]  # no clauses of the stages before traffic


class Stage(World):
    """A world whose daemon keeps its port over restarts, with people and one model that serves."""

    def __init__(self, name):
        super().__init__(f"web-{name}")
        self.api_holder = held_port()
        self.settings["listen"] = f"127.0.0.1:{self.api_holder.getsockname()[1]}"
        # What the page does when an engine is late is no matter of these tests, which run beside a compiler.
        self.settings["router.first_byte_floor_ms"] = 20_000
        self.people = {}
        self.running_load = None
        self.lock = threading.Lock()

    def begin(self):
        self.start_daemon()
        for name, scopes in PEOPLE.items():
            self.people[name] = self.api("POST", "/v1/tokens", {"name": name, "scopes": scopes}, who="admin", expect=201)
        self.install_incumbent()
        for kernel in ("bf16", "int8-static"):
            self.start_engine(kernel, kernel)
            self.register_engine(kernel, kernel)
        self.running_load = self.load(rate=60)

    def close(self, failed=False):
        super().close(failed)
        self.api_holder.close()

    def answer(self, path, body):
        with self.lock:
            return getattr(self, f"do_{path.strip('/').replace('-', '_')}")(**body)

    def do_info(self):
        with open(self.trust_file(), encoding="utf-8") as file:
            trust = file.read()
        return {"url": self.url, "users": self.router, "trust": trust,
                "people": {name: {"id": token["id"], "bearer": token["bearer"]} for name, token in self.people.items()}}

    def do_promote(self, kernel, name, offline=True):
        captures = self.captures(kernel) if offline else {}
        body = {"model": "tinylm", "engine": kernel, "contract": self.contract(kernel, lambda text: edited(text, name, offline))}
        if offline:
            body["captures"] = captures
        return {"id": self.api("POST", "/v1/promotions", body, who="promoter", expect=201)["id"]}

    def do_stop(self):
        self.daemon.stop()
        return {}

    def do_start(self):
        self.start_daemon()
        return {"url": self.url}

    def do_person(self, name, scopes):
        self.people[name] = self.api("POST", "/v1/tokens", {"name": name, "scopes": scopes}, who="admin", expect=201)
        return {"id": self.people[name]["id"], "bearer": self.people[name]["bearer"]}


@contextlib.contextmanager
def serving(name):
    """Starts everything; gives the control server's URL; ends everything, and prints the programs' last words when the
    body failed or a test of it did (exit code)."""
    stage = Stage(name)
    failed = True

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802 (the base class names it)
            source = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, value = 200, stage.answer(self.path, json.loads(source or b"{}"))
            except Exception as error:  # the test is told what went wrong  # noqa: BLE001
                status, value = 500, {"error": f"{type(error).__name__}: {error}"}
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        stage.begin()
        yield f"http://127.0.0.1:{server.server_port}"
        failed = False
    finally:
        server.shutdown()
        server.server_close()
        if failed or os.environ.get("DRIFTGATE_KEEP"):
            for process in stage.processes:
                print(f"--- {process.name}\n{process.tail(2000)}")
        stage.close(failed)
