"""Engines behind a gateway that wants a key, speaks TLS alone, and gives each engine a path of its own."""
import http.client
import http.server
import json
import os
import re
import ssl
import subprocess
import threading

from auditing import certificates
from harness import DRIFTGATE, PATIENCE_S, call, check, wait_for
from world import MODEL_DIR, run

KEYS = {"first": "sk-first-0123456789abcdef", "second": "sk-second-0123456789abcdef"}
USERS_OWN = "sk-users-own-0123456789"


class Gateway:
    """https://127.0.0.1:PORT/team/NAME/… goes to an engine when the request shows a key that is valid now."""

    def __init__(self, files):
        self.engines = {}          # by path
        self.valid = set()         # values of Authorization
        self.refused = 0
        self.shown = set()         # every Authorization that came
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *words):
                pass

            def answer(self):
                gateway.handle(self)

            do_GET = do_POST = answer

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass               # a peer that leaves, or does not trust the certificate

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{files}/server.pem", f"{files}/server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        shown = request.headers.get("Authorization", "")
        self.shown.add(shown)
        place = re.match(r"/team/([a-z0-9-]+)(/.*)$", request.path)
        engine = self.engines.get(place.group(1)) if place else None
        if engine is None or shown not in self.valid:
            self.refused += shown not in self.valid
            return reply(request, 404 if engine is None else 401, "application/json", b"{}")
        onward = http.client.HTTPConnection(engine, timeout=PATIENCE_S)
        try:
            kept = {name: value for name, value in request.headers.items()
                    if name.lower() not in ("host", "authorization", "content-length", "connection")}
            onward.request(request.command, place.group(2), body, kept)
            answer = onward.getresponse()
            kind = answer.getheader("Content-Type", "application/json")
            if not kind.startswith("text/event-stream"):
                return reply(request, answer.status, kind, answer.read())
            request.send_response(answer.status)
            request.send_header("Content-Type", kind)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            while part := answer.read1(65536):
                request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            request.wfile.write(b"0\r\n\r\n")
        finally:
            onward.close()
        return None


def reply(request, status, kind, body):
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def put_key(world, key):
    """As an operator replaces a key: the whole file at once."""
    folder = f"{world.folder}/data/engine-files"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.open(f"{folder}/new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(key + "\n")
    os.replace(f"{folder}/new", f"{folder}/gateway.key")


def register(world, gateway, name, kernel, *options, expect=0):
    """By the command, as people do."""
    if name not in world.engines:
        world.start_engine(name, kernel)
    gateway.engines[name] = world.engines[name].url.split("//")[1]
    world.api("POST", "/v1/kernels", {"name": f"tinylm-{kernel}", "engine": "tinylm", "dtype": kernel}, who="promoter")
    done = subprocess.run([DRIFTGATE, "engine", "register", name, "--engine-url", f"{gateway.url}/team/{name}/v1",
                           "--kernel", f"tinylm-{kernel}", "--checkpoint", MODEL_DIR, *options, "--url", world.url,
                           "--token-file", world.token_file("promoter")],
                          capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(done.returncode == expect, f"engine register {name}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def nobody_has_the_keys(world):
    """Not the database, the router's files and log, the daemon's log, the exported evidence."""
    world.export("keys.bundle", "--from", "2020-01-01", "--to", "2100-01-01")
    looked_at = 0
    for folder, _, names in os.walk(world.folder):
        for name in names:
            path = os.path.join(folder, name)
            if name == "gateway.key" or not os.path.isfile(path):
                continue
            looked_at += 1
            with open(path, "rb") as file:
                content = file.read()
            for secret in (*KEYS.values(), USERS_OWN):
                check(secret.encode() not in content, f"{path} has {secret}")
    check(looked_at > 10, f"only {looked_at} files were looked at")
    for command in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{command}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        check(not any(key.encode() in words for key in KEYS.values()), f"process {command} has a key in its arguments")


def engines_behind_a_gateway_are_promoted_while_its_key_is_rotated(world):
    files = certificates(f"{world.folder}/tls")
    gateway = Gateway(files)
    try:
        gateway.valid = {f"Bearer {KEYS['first']}"}
        put_key(world, KEYS["first"])
        os.link(f"{files}/ca.pem", f"{world.folder}/data/engine-files/ca.pem")
        said = register(world, gateway, "f32", "f32", "--ca-file", "ca.pem", expect=4)
        check("it wants a key" in said, f"without a key: {said}")
        said = register(world, gateway, "f32", "f32", "--engine-key-file", "gateway.key", expect=77)
        check("is not trusted" in said and "--ca-file" in said, f"without a CA: {said}")
        options = ["--engine-key-file", "gateway.key", "--ca-file", "ca.pem"]
        register(world, gateway, "f32", "f32", *options)
        world.api("POST", "/v1/models", {"name": "tinylm", "engine": "f32", "reason": "first version"}, who="operator",
                  expect=201)
        register(world, gateway, "bf16", "bf16", *options)
        seen = world.api("GET", "/v1/engines/bf16", expect=200)
        check(seen["url"] == f"{gateway.url}/team/bf16", f"registered at {seen['url']}")
        check(seen["key_file"].endswith("/engine-files/gateway.key"), f"the key file is {seen['key_file']}")
        entry = world.entries(kind="engine_registered")[-1]
        check(entry["body"]["ca_digest"] == seen["ca_digest"] and entry["body"]["key_file"] == seen["key_file"],
              f"the evidence is {json.dumps(entry['body'])[:600]}")

        answer = call(world.router + "/v1/completions", "POST", {"model": "tinylm", "prompt": "The file", "max_tokens": 4},
                      {"Authorization": f"Bearer {USERS_OWN}"})
        check(answer.status == 200, f"a user was answered {answer.status}: {answer.body}")
        check(f"Bearer {USERS_OWN}" not in gateway.shown, "the gateway was shown a user's own credentials")

        load = world.load(rate=60)
        promotion = world.promote("bf16", "bf16")
        world.reach(promotion, ("running", "awaiting_approval"), "canary")
        wait_for("a share in canary", world.observed_share)
        # Both keys are valid until the new one is seen; nobody is told but the file.
        gateway.valid.add(f"Bearer {KEYS['second']}")
        put_key(world, KEYS["second"])
        wait_for("the new key", lambda: f"Bearer {KEYS['second']}" in gateway.shown)
        wait_for("the old key to go", lambda: [gateway.shown.clear(), world.complete(), gateway.shown][-1]
                 == {f"Bearer {KEYS['second']}"})
        gateway.valid = {f"Bearer {KEYS['second']}"}
        refused = gateway.refused
        world.approve(promotion)
        world.reach(promotion, "succeeded")
        figures = load.stop()
        check(figures["failed"] == 0, f"users saw failures: {figures}")
        check(gateway.refused == refused, f"{gateway.refused - refused} requests had the old key")
        nobody_has_the_keys(world)
    finally:
        gateway.close()


TESTS = [
    engines_behind_a_gateway_are_promoted_while_its_key_is_rotated,
]


def started(test):
    def with_daemon(world):
        world.start_daemon()
        test(world)
    return with_daemon


if __name__ == "__main__":
    run({test.__name__: started(test) for test in TESTS})
