"""Starts the real programs (driftgate serve and its router, tinylm engines) on loopback and talks to them
over sockets. Everything started here is ended here; every wait has a bound and watches an event or a state."""
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time

ROOT = os.environ["DRIFTGATE_ROOT"]
DRIFTGATE = os.environ["DRIFTGATE_BIN"]
TINYLM = os.environ["TINYLM_BIN"]
EXAMPLE = os.path.join(ROOT, "examples", "tinylm")
VERIFIER = os.path.join(ROOT, "scripts", "verify_bundle.py")
PATIENCE_S = float(os.environ.get("DRIFTGATE_TEST_PATIENCE_S", "300"))


class Failure(AssertionError):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def wait_for(what, probe, seconds=None):
    """Returns the first true value of probe(); fails by name when there is none in time."""
    end = time.monotonic() + (seconds or PATIENCE_S)
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"waited {seconds or PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(0.02)


def verified(bundles, trust, expect=0, older=None):
    """Both verifiers end with this code on the bundles; what the program printed."""
    arguments = ["--trust", trust, *(["--older-head", older] if older else []), *bundles]
    printed = []
    for argv in ([DRIFTGATE, "audit", "verify"], [sys.executable, VERIFIER]):
        done = subprocess.run([*argv, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        check(done.returncode == expect, f"{argv[1]}: {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
        printed.append(done.stdout)
    return printed[0]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def call(url, method="GET", body=None, headers=None, timeout=120):
    """One request; body may be a dict (sent as JSON) or text."""
    host = url.split("//", 1)[1].split("/", 1)
    connection = http.client.HTTPConnection(host[0], timeout=timeout)
    headers = dict(headers or {})
    if isinstance(body, dict):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, "/" + (host[1] if len(host) > 1 else ""), body, headers)
        response = connection.getresponse()
        endless = response.headers.get_content_type() == "text/event-stream"
        text = "" if endless else response.read().decode("utf-8", "replace")
        return Answer(response.status, dict(response.getheaders()), text)
    finally:
        connection.close()


class Process:
    """A child with its output in a file; ended with the test."""

    def __init__(self, name, argv, log):
        self.name, self.log = name, log
        self.handle = open(log, "ab")
        self.child = subprocess.Popen(argv, stdout=self.handle, stderr=self.handle, stdin=subprocess.DEVNULL)

    @property
    def pid(self):
        return self.child.pid

    def alive(self):
        return self.child.poll() is None

    def kill(self):
        if self.alive():
            self.child.send_signal(signal.SIGKILL)
        self.child.wait(timeout=PATIENCE_S)

    def stop(self, seconds=120):
        if self.alive():
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} did not stop within {seconds} s of SIGTERM:\n{self.tail()}")

    def tail(self, size=4000):
        with open(self.log, "rb") as handle:
            return handle.read()[-size:].decode("utf-8", "replace")


def port_of(process, path):
    def ready():
        check(process.alive(), f"{process.name} ended at its start:\n{process.tail()}")
        with contextlib.suppress(OSError, ValueError):
            with open(path, encoding="ascii") as handle:
                return int(handle.read().strip())
    return wait_for(f"the port file of {process.name}", ready)


def short_prompts(folder):
    """The example's prompts, of which an engine reads only the beginnings: that is most of its work for a request."""
    path = os.path.join(folder, "prompts.jsonl")
    with open(os.path.join(EXAMPLE, "data", "prompts.jsonl"), encoding="utf-8") as whole, open(path, "w", encoding="utf-8") as short:
        for line in whole:
            asked = json.loads(line)
            short.write(json.dumps({**asked, "prompt": asked["prompt"][:16]}) + "\n")
    return path


class Load:
    """Bounded real traffic through the router: distinct sticky keys, at most 4 tokens each."""

    def __init__(self, world, url, rate=80, seconds=1800):
        self.out = os.path.join(world.folder, f"load-{time.monotonic_ns()}.json")
        self.process = world.process("load", [
            TINYLM, "load", "--url", url, "--prompts", short_prompts(world.folder),
            "--rate", str(rate), "--seconds", str(seconds), "--max-tokens", "4",
            "--key-prefix", f"k{time.monotonic_ns()}", "--json", self.out])

    def stop(self):
        self.process.stop()
        with open(self.out, encoding="utf-8") as handle:
            return json.load(handle)
