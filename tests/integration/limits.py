"""docs/design/evidence.md, "Limits on what comes in": each limit against the running daemon and its router."""
import http.server
import json
import os
import threading
import time

from harness import DRIFTGATE, PATIENCE_S, call, check, port_of, wait_for
from wire import Peer, Said, refused_and_closed, said, smuggled
from world import DATA, MODEL_DIR, run

MIB = 1 << 20


def refused(answer, status, code, words=""):
    body = answer if isinstance(answer, dict) else {"detail": answer}
    check(body.get("status") == status and body.get("code") == code,
          f"expected {status} {code}: {json.dumps(body)[:400]}")
    check(words in body["detail"], f"{body['detail']!r} does not say {words!r}")


def post(world, path, body, who="promoter", media="application/json"):
    return world.api("POST", path, body, who=who, headers={"Content-Type": media})


def smuggled_requests_are_refused_and_the_connection_closed(world):
    world.start_daemon()
    for name, (request, words) in smuggled().items():
        refused_and_closed(world.url, name, request, 400, "bad_request", words)
    check(call(world.url + "/healthz").status == 200, "the daemon does not serve any more")


def smuggled_requests_are_refused_by_the_router(world):
    world.start_daemon()
    for name, (request, words) in smuggled(b"/v1/completions", chunked_is_known=True).items():
        refused_and_closed(world.router, name, request, 400, "bad_request", words)
    check(call(world.router + "/health").status == 200, "the router does not serve any more")


def a_request_behind_a_refused_body_is_not_read(world):
    """The body of a request that is refused before it is read must not become the next request."""
    world.start_daemon()
    inner = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    head = b"POST /v1/tokens HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(inner)
    answer = said(world.url, head + inner)
    check(answer.status == 401 and answer.count == 1, f"{answer.count} answers, the first {answer.status}")


def slow_requests_are_cut_at_their_limit_and_nobody_waits_for_them(world):
    world.settings = {"http.head_timeout_ms": 600, "http.body_timeout_ms": 600, "http.idle_timeout_ms": 3_000}
    world.start_daemon()
    began = time.monotonic()
    slow_head = Peer(world.url)
    slow_head.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
    slow_body = Peer(world.url)
    slow_body.send(b"POST /v1/kernels HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n"
                   % world.tokens["promoter"].encode())
    idle = Peer(world.url)
    used = Peer(world.url)
    used.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    ends = {}
    while len(ends) < 4 and time.monotonic() - began < PATIENCE_S:
        for name, peer, drip in (("head", slow_head, b"X: y\r\n"), ("body", slow_body, b" "),
                                 ("idle", idle, b""), ("used", used, b"")):
            if name in ends:
                continue
            peer.send(drip)  # bytes that keep coming do not move an absolute limit
            if peer.closed_within(0.05):
                ends[name] = time.monotonic() - began
        check(call(world.url + "/healthz").status == 200, "a healthy request was not served")
    check(set(ends) == {"head", "body", "idle", "used"}, f"not cut: {ends}")
    for name, peer in (("head", slow_head), ("body", slow_body)):
        answer = Said(peer.received)
        check(answer.status == 408 and answer.code == "request_timeout", f"slow {name}: {answer.status}")
        check(ends[name] > 0.5, f"slow {name} was cut after {ends[name]:.1f} s")
    check(not idle.received, "an idle connection was told something")
    check(Said(used.received).status == 200 and Said(used.received).count == 1, "the used connection")


def large_heads_and_bodies_are_refused_before_they_are_read(world):
    world.start_daemon()
    line = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
    refused_and_closed(world.url, "17 KB of headers", line + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431,
                       "limit_exceeded", "16384 bytes")
    refused_and_closed(world.url, "an endless header", line + b"X: " + b"a" * 40_000, 431, "limit_exceeded")
    refused_and_closed(world.url, "an endless line", b"GET /" + b"a" * 40_000, 431, "limit_exceeded")
    refused_and_closed(world.url, "101 headers", line + b"X: a\r\n" * 100 + b"\r\n", 400, "bad_request", "100")
    token = b"Authorization: Bearer %s\r\n" % world.tokens["promoter"].encode()
    head = b"POST /v1/kernels HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n"
    peer = Peer(world.url)
    peer.send(head % (token, MIB + 1))  # not one byte of the body
    check(peer.closed_within(PATIENCE_S), "the daemon waits for a body that it will not take")
    answer = Said(peer.received)
    check(answer.status == 413 and answer.code == "limit_exceeded", f"1 MB + 1: {answer.status} {answer.detail}")
    peer = Peer(world.url)
    peer.send(head % (b"", 10 * MIB))
    check(peer.closed_within(PATIENCE_S), "the daemon waits for the body of nobody")
    check(Said(peer.received).status == 401, "credentials are judged before the body")


def hostile_json_is_refused_by_name(world):
    world.start_daemon()
    name = '"name": "k", "engine": "e", "dtype": "f32"'
    deep = lambda n: '{"a":' * n + "1" + "}" * n
    cases = {
        "depth 33": (deep(33), "32"),
        "depth 100,000": (deep(100_000), "32"),
        "an endless array": ("[" * 500_000, "32"),
        "50,001 values": ('{"a": [' + ",".join(["1"] * 50_001) + "]}", "50000"),
        "a duplicate key": ("{%s, \"name\": \"other\"}" % name, "name"),
        "an escaped duplicate key": ("{%s, \"n\\u0061me\": \"other\"}" % name, "name"),
        "2^53": ('{"a": 9007199254740992}', ""),
        "a huge integer": ('{"a": 1' + "0" * 400 + "}", ""),
        "NaN": ('{"a": NaN}', ""),
        "a byte-order mark": ("\ufeff{%s}" % name, ""),
        "NUL": ("{%s}\0" % name, ""),
        "a trailing comma": ("{%s,}" % name, ""),
        "two documents": ("{%s}{%s}" % (name, name), ""),
        "half a surrogate": ('{"name": "\\ud800"}', ""),
        "nothing": ("", ""),
    }
    for path, who in (("/v1/kernels", "promoter"), ("/v1/promotions", "promoter"), ("/v1/tokens", "admin")):
        for what, (text, words) in cases.items():
            answer = post(world, path, text.encode(), who)
            check(isinstance(answer, dict) and answer.get("status") in (400, 413, 422)
                  and answer.get("code") in ("invalid_document", "limit_exceeded", "invalid_argument"),
                  f"{path}, {what}: {str(answer)[:300]}")
            check(words in answer["detail"], f"{path}, {what}: {answer['detail']!r} does not say {words!r}")
    invalid = call(world.url + "/v1/kernels", "POST", b'{"name": "\xff\xfe"}',
                   {"Authorization": "Bearer " + world.tokens["promoter"]})
    check(invalid.status in (400, 422), f"bytes that are no UTF-8: {invalid.status}")
    check(not world.api("GET", "/v1/kernels", expect=200)["items"], "a kernel was registered")


def hostile_yaml_is_refused_with_its_place(world):
    world.start_daemon()
    text = world.contract_text.replace("@KERNEL@", "k")
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20))
    cases = {
        "an alias bomb": bomb,
        "an anchor": text.replace("name: ", "name: &x "),
        "an alias": text.replace("name: tinylm-test", "name: *x"),
        "a tag": text.replace("name: tinylm-test", "name: !!str tinylm-test"),
        "a custom tag": text.replace("name: tinylm-test", "name: !python/object:os.system x"),
        "a merge key": text.replace("metadata:", "metadata:\n  <<: {a: b}"),
        "a duplicate key": text.replace("kind: KernelContract", "kind: KernelContract\nkind: KernelContract"),
        "two documents": text + "\n---\n" + text,
        "depth 33": "a: " + "[" * 33 + "]" * 33,
        "10,001 nodes": "a: [" + "1," * 10_001 + "]",
        "256 KB + 1": text + "#" * (256 * 1024 + 1 - len(text)),
        "a control character": text.replace("name: tinylm-test", "name: a\x07b"),
    }
    for path in ("/v1/contracts", "/v1/contracts/lint"):
        for what, document in cases.items():
            answer = post(world, path, document, media="application/yaml")
            faults = answer.get("faults") if isinstance(answer, dict) else None
            if path.endswith("lint") and faults is not None:
                check(faults, f"lint finds nothing in {what}")
                continue
            check(isinstance(answer, dict) and answer.get("code") in ("invalid_document", "limit_exceeded"),
                  f"{path}, {what}: {str(answer)[:300]}")
            if what != "256 KB + 1":
                check(":" in answer["detail"], f"{path}, {what}: no place in {answer['detail']!r}")
    check(not world.api("GET", "/v1/contracts", expect=200)["items"], "a contract was registered")


def paths_that_escape_and_links_are_refused(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    contract = world.contract("bf16")
    outside = "/etc/hostname"
    os.symlink(f"{DATA}/captures/numeric_train.safetensors", f"{world.folder}/link.safetensors")
    os.symlink("/etc", f"{world.folder}/etc")
    cases = {
        "dots": f"{DATA}/../../../../../../../../etc/hostname",
        "relative dots": "../../../../../../../../etc/hostname",
        "another folder": outside,
        "a file URI": "file://" + outside,
        "percent-encoded dots": f"{DATA}/%2e%2e/%2e%2e/etc/hostname",
        "a link": f"{world.folder}/link.safetensors",
        "a linked folder": f"{world.folder}/etc/hostname",
        "the process's own files": "/proc/self/environ",
        "another scheme": "http://127.0.0.1/capture.safetensors",
        "a root's name as a prefix": DATA + "-other/x.safetensors",
    }
    for what, path in cases.items():
        for place in ("inf", "corpus"):
            captures = world.captures("bf16")
            captures["numeric"][place] = path
            answer = world.api("POST", "/v1/promotions", {"model": "tinylm", "engine": "bf16",
                               "contract": contract, "captures": captures}, who="promoter")
            check(answer.get("code") in ("forbidden", "not_found", "invalid_argument", "invalid_document"),
                  f"{what} as {place}: {str(answer)[:300]}")
    check(not world.api("GET", "/v1/promotions", expect=200)["items"], "a promotion began")


def checkpoints_that_are_links_or_pickles_are_refused(world):
    world.start_daemon()
    engine = world.start_engine("f32", "f32")
    world.api("POST", "/v1/kernels", {"name": "k", "engine": "tinylm", "dtype": "f32"}, who="promoter", expect=201)
    folders = {}
    for name in ("linked-file", "pickled", "linked-folder"):
        folders[name] = f"{world.folder}/{name}"
        os.mkdir(folders[name])
    os.symlink(f"{MODEL_DIR}/config.json", folders["linked-file"] + "/config.json")
    open(folders["pickled"] + "/pytorch_model.bin", "wb").write(b"\x80\x04\x95\x00.")
    os.symlink(MODEL_DIR, folders["linked-folder"] + "/model")
    os.symlink(MODEL_DIR, world.folder + "/link")
    for name, uri in {**folders, "link": world.folder + "/link", "outside": "/etc"}.items():
        answer = world.api("POST", "/v1/engines", {"name": name, "url": engine.url, "kernel": "k",
                           "checkpoint": {"uri": uri}}, who="promoter")
        check(answer.get("code") in ("forbidden", "not_found"), f"{name}: {str(answer)[:300]}")
    check(not world.api("GET", "/v1/engines", expect=200)["items"], "an engine was registered")


def tokens_in_the_wrong_place_are_not_seen(world):
    world.start_daemon()
    token = world.tokens["admin"]
    url = world.url + "/v1/tokens"
    wrong = {
        "the query": call(f"{url}?token={token}"),
        "the query, as OAuth has it": call(f"{url}?access_token={token}"),
        "a cookie": call(url, headers={"Cookie": f"token={token}; __Host-session={token}"}),
        "another header": call(url, headers={"X-Api-Key": token, "Proxy-Authorization": f"Bearer {token}"}),
        "the body": call(url, "POST", {"token": token, "name": "x", "scopes": ["admin"]}),
        "basic": call(url, headers={"Authorization": f"Basic {token}"}),
        "without its scheme": call(url, headers={"Authorization": token}),
        "cut short": call(url, headers={"Authorization": f"Bearer {token[:-1]}"}),
        "with more behind it": call(url, headers={"Authorization": f"Bearer {token}0"}),
        "in capitals": call(url, headers={"Authorization": f"Bearer {token.upper()}"}),
    }
    for where, answer in wrong.items():
        check(answer.status == 401 and answer.json()["code"] == "unauthenticated",
              f"{where}: {answer.status} {answer.body[:200]}")
        check(token not in answer.body, f"{where}: the answer repeats the token")
    twice = said(world.url, b"GET /v1/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n"
                 b"Authorization: Bearer %s\r\nConnection: close\r\n\r\n" % token.encode())
    check(twice.status == 400, f"two Authorization headers: {twice.status}")
    trailer = (b"POST /v1/tokens HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
               b"2\r\n{}\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode())
    refused_and_closed(world.url, "a trailer", trailer, 400, "bad_request", "transfer-encoding")
    log = open(world.daemon.log, encoding="utf-8", errors="replace").read()
    check(token not in log, "the token is in the log")


def each_token_has_a_rate_of_its_own(world):
    world.settings = {"http.requests_per_second": 10}
    world.start_daemon()
    ask = lambda who: call(world.url + "/v1/whoami", headers={"Authorization": "Bearer " + world.tokens[who]})
    limited = []

    def refused_often():
        answers = [ask("viewer") for _ in range(60)]
        limited.extend(a for a in answers if a.status == 429)
        return len(limited) >= 10

    wait_for("ten refusals of requests that come as fast as they are answered", refused_often)
    check(limited[0].json()["code"] == "rate_limited" and limited[0].headers.get("Retry-After") == "1",
          f"{limited[0].headers} {limited[0].body}")
    check(ask("auditor").status == 200, "another token was refused with it")
    wait_for("the token to be served again", lambda: ask("viewer").status == 200)


class Redirecting(http.server.BaseHTTPRequestHandler):
    """An engine that sends every request on to another address."""
    target = ""
    asked = 0

    def do_GET(self):  # noqa: N802 (the base class names it)
        type(self).asked += 1
        self.send_response(302)
        self.send_header("Location", self.target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_):
        pass


def engines_are_only_asked_where_the_settings_allow(world):
    reached = http.server.HTTPServer(("127.0.0.1", 0), type("Target", (Redirecting,), {"asked": 0}))
    redirecting = http.server.HTTPServer(("127.0.0.1", 0), type("Engine", (Redirecting,), {
        "asked": 0, "target": f"http://127.0.0.1:{reached.server_port}/v1/models"}))
    for server in (reached, redirecting):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    world.settings = {"engines.allowed_hosts": ["localhost"]}
    world.start_daemon()
    world.api("POST", "/v1/kernels", {"name": "k", "engine": "e", "dtype": "f32"}, who="promoter", expect=201)
    register = lambda url: world.api("POST", "/v1/engines", {"name": "e", "url": url, "kernel": "k",
                                     "checkpoint": {"uri": MODEL_DIR}}, who="promoter")
    for url in (f"http://127.0.0.1:{reached.server_port}", "http://169.254.169.254", "http://10.0.0.1",
                "http://192.168.1.1", "http://172.16.0.1", "http://100.64.0.1", "http://[::1]:1",
                "http://[fe80::1]", "http://[::ffff:127.0.0.1]:1", "http://0.0.0.0:1", "http://2130706433",
                "http://0x7f000001", "http://127.1", "http://engine.example", "https://10.0.0.1"):
        answer = register(url)
        check(answer.get("code") == "forbidden" and "allowed_hosts" in answer["detail"], f"{url}: {str(answer)[:300]}")
    for url in ("https:localhost", "ftp://localhost", "http://user:secret@localhost", "http://localhost:0",
                "http://localhost:99999", "http://localhost/a b", "http://localhost/#x", "localhost", ""):
        answer = register(url)
        check(answer.get("code") in ("invalid_argument", "unsupported", "invalid_document"), f"{url}: {str(answer)[:300]}")
    answer = register(f"http://localhost:{redirecting.server_port}")
    check(answer.get("code") == "unavailable", f"an engine that redirects: {str(answer)[:300]}")
    check(redirecting.RequestHandlerClass.asked > 0, "the engine was not asked")
    check(reached.RequestHandlerClass.asked == 0, "a redirect was followed")


def engines_on_public_hosts_may_not_resolve_to_internal_addresses(world):
    world.settings = {"engines.allowed_hosts": ["engine.example"], "engines.public_hosts": True}
    world.start_daemon()
    world.api("POST", "/v1/kernels", {"name": "k", "engine": "e", "dtype": "f32"}, who="promoter", expect=201)
    for url in ("http://localhost:1", "http://127.0.0.1:1", "http://10.0.0.1:1", "http://169.254.169.254:1",
                "http://[::1]:1", "http://[::ffff:10.0.0.1]:1", "http://[fd00::1]:1", "http://[64:ff9b::a00:1]:1",
                "http://2130706433:1", "http://127.1:1"):
        answer = world.api("POST", "/v1/engines", {"name": "e", "url": url, "kernel": "k",
                           "checkpoint": {"uri": MODEL_DIR}}, who="promoter")
        check(answer.get("code") in ("forbidden", "unavailable", "invalid_argument")
              and "refused" not in answer["detail"].lower(), f"{url}: {str(answer)[:300]}")


def router_of_its_own(world, **limits):
    port_file = f"{world.folder}/own.port"
    words = [DRIFTGATE, "router", "--listen", "127.0.0.1:0", "--port-file", port_file, "--control",
             f"{world.folder}/own.sock", "--spool", f"{world.folder}/own-spool", "--state", f"{world.folder}/own.state"]
    for name, value in limits.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    router = world.process("own-router", words)
    return f"http://127.0.0.1:{port_of(router, port_file)}"


def the_router_cuts_slow_clients_and_large_requests(world):
    url = router_of_its_own(world, header_ms=500, body_ms=500, idle_ms=3_000, max_body_bytes=4096)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
    slow = {"head": Peer(url), "body": Peer(url), "idle": Peer(url), "chunks": Peer(url)}
    slow["head"].send(head)
    slow["body"].send(head + b"Content-Length: 100\r\n\r\n")
    slow["chunks"].send(head + b"Transfer-Encoding: chunked\r\n\r\n")
    began, ends = time.monotonic(), {}
    while len(ends) < len(slow) and time.monotonic() - began < PATIENCE_S:
        for name, peer in slow.items():
            if name not in ends:
                peer.send({"head": b"X: y\r\n", "body": b" ", "idle": b"", "chunks": b"1\r\n \r\n"}[name])
                if peer.closed_within(0.05):
                    ends[name] = time.monotonic() - began
        check(call(url + "/health").status == 200, "a healthy request was not served")
    check(len(ends) == len(slow), f"cut after {ends}")
    refused_and_closed(url, "17 KB of headers", head + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431, "head_too_large")
    refused_and_closed(url, "a long body", head + b"Content-Length: 4097\r\n\r\n" + b"a" * 4097, 413, "body_too_large")
    refused_and_closed(url, "long chunks", head + b"Transfer-Encoding: chunked\r\n\r\n" +
                       b"1000\r\n" + b"a" * 4096 + b"\r\n1\r\na\r\n0\r\n\r\n", 413, "body_too_large")
    refused_and_closed(url, "endless trailers", head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" +
                       b"X: y\r\n" * 3_000, 400, "bad_request", "chunk")


def hostile_completion_bodies_are_refused_by_the_router(world):
    url = router_of_its_own(world)
    cases = {
        "no JSON": b"x", "nothing": b"", "an array": b"[]", "no model": b"{}", "a number as model": b'{"model": 1}',
        "the model twice": b'{"model": "a", "model": "b"}',
        "an escaped second model": b'{"model": "a", "m\\u006fdel": "b"}',
        "depth 65": b'{"model": "a", "x": ' + b"[" * 65 + b"]" * 65 + b"}",
        "an endless array": b'{"model": "a", "x": ' + b"[" * 500_000,
        "invalid UTF-8": b'{"model": "\xff"}',
        "a byte-order mark": b'\xef\xbb\xbf{"model": "a"}',
        "NUL behind": b'{"model": "a"}\0', "NUL and more behind": b'{"model": "a"}\0{"model": "b"}',
        "NUL before": b'\0{"model": "a"}', "bytes behind": b'{"model": "a"}x', "two documents": b'{"model": "a"}' * 2,
    }
    for name, body in cases.items():
        answer = said(url, b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                      % len(body) + body)
        check(answer.status == 400 and answer.code == "bad_body", f"{name}: {answer.status} {answer.code}")
    check(call(url + "/v1/completions", "POST", {"model": "a"}).status == 404, "an unknown model")


TESTS = [
    smuggled_requests_are_refused_and_the_connection_closed,
    smuggled_requests_are_refused_by_the_router,
    a_request_behind_a_refused_body_is_not_read,
    slow_requests_are_cut_at_their_limit_and_nobody_waits_for_them,
    large_heads_and_bodies_are_refused_before_they_are_read,
    hostile_json_is_refused_by_name,
    hostile_yaml_is_refused_with_its_place,
    paths_that_escape_and_links_are_refused,
    checkpoints_that_are_links_or_pickles_are_refused,
    tokens_in_the_wrong_place_are_not_seen,
    each_token_has_a_rate_of_its_own,
    engines_are_only_asked_where_the_settings_allow,
    engines_on_public_hosts_may_not_resolve_to_internal_addresses,
    the_router_cuts_slow_clients_and_large_requests,
    hostile_completion_bodies_are_refused_by_the_router,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
