"""Who may do what, against the running daemon: every operation of the OpenAPI document that it serves with every
scope and none, tokens that end while a request or a stream is on its way, and names that mislead."""
import json
import os
import re
import subprocess

from harness import DRIFTGATE, PATIENCE_S, ROOT, call, check, wait_for
from wire import Peer, Said
from world import run

PAGE = os.path.join(ROOT, "docs", "roles.md")
IMPLIED = {"admin": ("admin", "promoter", "operator", "auditor", "viewer")}  # every scope includes viewer
SCOPES = ("viewer", "promoter", "approver", "operator", "auditor", "admin")


def rules():
    """operationId -> scope (or "open"), from the table of operations in docs/roles.md."""
    text = open(PAGE, encoding="utf-8").read().split("## Operations", 1)[1].split("\n## ", 1)[0]
    found = {}
    for scope, names in re.findall(r"^\| (\w+) \| (.*) \|$", text, re.MULTILINE):
        if scope == "scope":
            continue
        for name in re.findall(r"`(\w+)`", names):
            check(name not in found, f"docs/roles.md names {name} twice")
            found[name] = scope
    return found


def operations(world):
    document = call(world.url + "/openapi.json").json()
    return [(method.upper(), path, operation) for path, methods in document["paths"].items()
            for method, operation in methods.items()]


def is_allowed(rule, scope):
    return rule == "open" or (scope is not None and rule in IMPLIED.get(scope, (scope, "viewer")))


def headers_of(bearer, method):
    return {**({"Authorization": f"Bearer {bearer}"} if bearer else {}),
            **({"Content-Type": "application/json"} if method in ("POST", "PUT") else {})}


def issue(world, name, scopes, **more):
    return world.api("POST", "/v1/tokens", {"name": name, "scopes": scopes, **more}, who="admin", expect=201)


def of_nothing(path):
    """The path with names and ids that exist nowhere."""
    return re.sub(r"\{(\w+)\}", lambda part: {"kind": "state_changed.json", "seq": "9999999"}.get(
        part[1], "none-such"), path)


def each_operation_lets_in_exactly_the_scopes_that_the_page_names(world):
    world.start_daemon()
    table, asked = rules(), operations(world)
    served = {operation["operationId"] for _, _, operation in asked}
    check(set(table) == served, f"docs/roles.md lacks {sorted(served - set(table))}, "
                                f"names {sorted(set(table) - served)} that are not served")
    revoked = issue(world, "rex", ["admin"])
    world.api("DELETE", f"/v1/tokens/{revoked['id']}", who="admin")
    expired = issue(world, "eve", ["admin"], expires_in_s=1)["bearer"]
    wait_for("a token to expire", lambda: call(world.url + "/v1/whoami", headers=headers_of(expired, "GET")).status == 401)
    nobody = {"no token": None, "a revoked token": revoked["bearer"], "an expired token": expired,
              "an unknown token": "dg_" + "0" * 64}
    pairs = 0
    for method, path, operation in asked:
        name = operation["operationId"]
        rule = table[name]
        said = "open" if not operation["security"] else operation["description"].removeprefix("Scope: ").rstrip(".")
        check(said == rule, f"{name}: the document says {said}, docs/roles.md {rule}")
        target = world.url + of_nothing(path)
        # What is let in meets a body that means nothing, so that it changes nothing.
        body = "[]" if method in ("POST", "PUT") else None
        for who, bearer in nobody.items():
            answer = call(target, method, body, headers_of(bearer, method))
            check((answer.status != 401) == (rule == "open"), f"{name} with {who}: {answer.status} {answer.body[:200]}")
            pairs += 1
        for scope in SCOPES:
            answer = call(target, method, body, headers_of(world.tokens[scope], method))
            allowed = is_allowed(rule, scope)
            check(answer.status != 401 and (answer.status != 403) == allowed,
                  f"{name} as {scope}, {'allowed' if allowed else 'refused'} by the page: "
                  f"{answer.status} {answer.body[:200]}")
            check(allowed or answer.json()["code"] == "forbidden", answer.body[:200])
            check(answer.status not in (200, 201, 204) or method == "GET" or name == "lintContract", f"{name} as {scope} did something: {answer.body[:200]}")
            check(answer.status < 500 or answer.status == 503 and name == "ready", f"{name}: {answer.status} {answer.body[:200]}")
            pairs += 1
    print(f"{len(asked)} operations, {pairs} pairs")


class Halves:
    """A request whose head is let in before its body is sent."""

    def __init__(self, world, method, path, bearer, body, more=""):
        self.peer, self.body = Peer(world.url, PATIENCE_S), body.encode()
        self.peer.send((f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {bearer}\r\n{more}"
                        f"Content-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\n"
                        f"Content-Length: {len(self.body)}\r\n\r\n").encode())
        interim = b""
        while not interim.endswith(b"\r\n\r\n"):
            piece = self.peer.socket.recv(1)
            check(piece, f"{method} {path} was closed before its body")
            interim += piece
        check(interim.startswith(b"HTTP/1.1 100 "), f"{method} {path}: its head was refused: {interim[:200]}")

    def finish(self):
        self.peer.send(self.body)
        answer = Said(self.peer.read_all())
        self.peer.close()
        return answer


def acceptable_request(world):
    """A promotion that a schedule may ask for: it is tried when the schedule is made."""
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    return {"model": "tinylm", "engine": "bf16", "contract": world.contract("bf16"), "captures": world.captures("bf16")}


def a_token_that_ends_between_head_and_body_has_no_effect(world):
    world.start_daemon()
    world.install_incumbent()
    world.api("POST", "/v1/schedules", {"name": "nightly", "cron": "0 2 * * *", "timezone": "UTC",
                                        "promotion": acceptable_request(world)}, who="promoter", expect=201)
    table = rules()
    bodies = {"registerKernel": {"name": "late", "dtype": "f32"},
              "createModel": {"name": "late", "engine": "f32", "reason": "late"},
              "issueToken": {"name": "late", "scopes": ["admin"]},
              "createSchedule": {"name": "late", "cron": "0 2 * * *", "timezone": "UTC", "promotion": {
                  "model": "tinylm", "engine": "f32", "contract": "tinylm-test"}},
              "makeBackup": {"name": "late"}}
    changing = [(method, path, operation["operationId"]) for method, path, operation in operations(world)
                if method != "GET" and table[operation["operationId"]] != "open"]
    waiting = []
    for method, path, name in changing:
        token = issue(world, f"w-{name}", [table[name]])
        target = path.replace("/schedules/{name}", "/schedules/nightly")
        body = json.dumps(bodies.get(name, {"reason": "late"}))
        waiting.append((name, token, Halves(world, method, of_nothing(target), token["bearer"], body, "If-Match: *\r\n")))
    expiring = issue(world, "expiring", ["promoter"], expires_in_s=2)
    late = Halves(world, "POST", "/v1/kernels", expiring["bearer"], json.dumps({"name": "expired", "dtype": "f32"}))
    for name, token, _ in waiting:
        world.api("DELETE", f"/v1/tokens/{token['id']}", who="admin")
    before = [entry["seq"] for entry in world.entries(order="newest")][0]
    for name, token, halves in waiting:
        answer = halves.finish()
        check(answer.status == 401 and answer.code == "unauthenticated", f"{name}: {answer.status} {answer.detail}")
    wait_for("a token to expire", lambda: call(world.url + "/v1/whoami", headers=headers_of(
        expiring["bearer"], "GET")).status == 401)
    answer = late.finish()
    check(answer.status == 401, f"an expired token: {answer.status} {answer.detail}")
    after = [entry for entry in world.entries(order="newest") if entry["seq"] > before]
    daemons = ("route_applied", "clock_stepped", "evidence_read")
    check(all(entry["kind"] in daemons for entry in after), f"written: {[e['kind'] for e in after]}")
    check(world.api("GET", "/v1/schedules/nightly", expect=200)["revision"] == 1, "the schedule was changed")
    check(not os.path.exists(f"{world.folder}/data/backups/late"), "a backup was made")
    print(f"{len(waiting)} operations")


class Stream:
    """An event stream over a socket; reads until the daemon ends it."""

    def __init__(self, world, promotion, bearer):
        self.peer = Peer(world.url, PATIENCE_S)
        self.peer.send(f"GET /v1/promotions/{promotion}/events HTTP/1.1\r\nHost: a\r\n"
                       f"Authorization: Bearer {bearer}\r\n\r\n".encode())

    def until(self, text):
        while text not in self.peer.received:
            piece = self.peer.socket.recv(65536)
            check(piece, f"the stream ended before {text}: {self.peer.received[-300:]}")
            self.peer.received += piece

    def rest(self):
        self.peer.read_all()
        self.peer.close()
        text = self.peer.received.decode().split("\r\n\r\n", 1)[1]
        events = [dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
                  for block in text.split("\n\n") if block.strip() and not block.startswith(":")]
        return [(event["event"], json.loads(event["data"])) for event in events]


def streams_end_with_their_token_and_show_what_it_may_read(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    promotion = world.promote("bf16", "bf16")
    world.api("POST", f"/v1/promotions/{promotion}/pause", {"reason": "look"}, who="operator", expect=200)
    tokens = {scope: issue(world, f"s-{scope}", [scope]) for scope in SCOPES}
    streams = {scope: Stream(world, promotion, token["bearer"]) for scope, token in tokens.items()}
    for stream in streams.values():
        stream.until(b'"paused"')
        stream.until(b"event: progress")
    waits = {}
    for scope in ("viewer", "auditor"):
        peer = Peer(world.url, PATIENCE_S)
        peer.send(f"GET /v1/promotions/{promotion} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nPrefer: wait=60\r\n"
                  f"Authorization: Bearer {tokens[scope]['bearer']}\r\n\r\n".encode())
        waits[scope] = peer
    expiring = Stream(world, promotion, issue(world, "brief", ["auditor"], expires_in_s=2)["bearer"])
    for token in tokens.values():
        world.api("DELETE", f"/v1/tokens/{token['id']}", who="admin")
    for scope, stream in streams.items():
        events = stream.rest()
        kinds = {kind for kind, _ in events} - {"progress"}
        if is_allowed("auditor", scope):
            check("promotion_requested" in kinds and any("actor" in data for _, data in events), f"{scope}: {kinds}")
            continue
        check(kinds <= {"state_changed", "route_desired", "route_applied"} and "state_changed" in kinds, f"{scope}: {kinds}")
        for kind, data in events:
            if kind != "progress":
                check(set(data) == {"v", "seq", "time_us", "kind", "subject", "body"}, f"{scope}: {data}")
                check(set(data["body"]) <= {"from", "to", "stage", "attempt", "traffic", "candidate_bp"}, f"{scope}: {data}")
    for scope, peer in waits.items():
        answer = Said(peer.read_all())
        check(answer.status == 401, f"a wait of {scope}: {answer.status}")
    expiring.rest()
    check(world.promotion(promotion)["state"] == "paused", "the promotion is not paused any more")


def recover(world, name, reason, *more):
    return subprocess.run([DRIFTGATE, "token", "recover", "--config", f"{world.folder}/driftgate.yaml", "--name", name,
                           "--reason", reason, *more], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def the_last_admin_stays_and_the_owner_of_the_folder_gets_in_again(world):
    world.start_daemon()
    own = world.api("GET", "/v1/whoami", who="admin", expect=200)["token"]
    refused = world.api("DELETE", f"/v1/tokens/{own}", who="admin", expect=409)
    check("token issue" in refused["detail"], refused["detail"])
    issue(world, "brief", ["admin"], expires_in_s=3600)
    world.api("DELETE", f"/v1/tokens/{own}", who="admin", expect=409)  # the other one would end by itself
    second = issue(world, "ada", ["admin"])
    world.api("DELETE", f"/v1/tokens/{own}", who="admin", expect=204)
    check(call(world.url + "/v1/whoami", headers=headers_of(world.tokens["admin"], "GET")).status == 401, "it still works")
    world.tokens["admin"] = second["bearer"]
    world.api("DELETE", f"/v1/tokens/{second['id']}", who="admin", expect=409)

    running = recover(world, "olga", "the laptop is gone")
    check(running.returncode != 0 and str(world.daemon.pid) in running.stderr, f"beside the daemon: {running}")
    world.daemon.stop()
    for name in ("console", "C0nsole", "Ada", "a b", "approver"):
        check(recover(world, name, "x").returncode != 0, f"recovered as {name}")
    check(not os.path.exists(f"{world.folder}/data/recovered.token"), "a refused recovery left a file")
    done = recover(world, "olga", "the laptop is gone")
    check(done.returncode == 0, done.stderr)
    path = f"{world.folder}/data/recovered.token"
    check(os.stat(path).st_mode & 0o777 == 0o600, "others may read the token")
    check(recover(world, "olga", "again").returncode != 0, "it wrote over a token")
    world.tokens["admin"] = open(path, encoding="ascii").read().strip()
    check(world.tokens["admin"] not in done.stdout, "the token was printed")
    world.start_daemon()
    check(world.api("GET", "/v1/whoami", who="admin", expect=200)["name"] == "olga", "another name")
    world.api("DELETE", f"/v1/tokens/{second['id']}", who="admin", expect=204)
    granted = [entry for entry in world.entries(kind="token_granted") if "recovery" in entry["body"]]
    check(len(granted) == 1 and granted[0]["actor"] == "olga" and granted[0]["body"]["recovery"] == "the laptop is gone",
          f"{granted}")


MISLEADING = ("--exec=sh", "../../x", "a/../b", "/etc", "a//b", "a/", ".hidden", "a b", "a\nb", "a\0b", "a\x1b[2J",
              "kernel\u202e", "k\u0435rnel", "", "x" * 129, "a=b", "{model}")


def names_that_mislead_are_refused(world):
    world.start_daemon()
    world.install_incumbent()
    schedule = {"cron": "0 2 * * *", "timezone": "UTC", "promotion": acceptable_request(world)}
    things = {"/v1/kernels": ("promoter", {"dtype": "f32"}),
              "/v1/engines": ("promoter", {"url": world.engines["f32"].url, "kernel": "tinylm-f32",
                                           "checkpoint": {"uri": os.path.join(ROOT, "examples", "tinylm", "model")}}),
              "/v1/models": ("operator", {"engine": "f32", "reason": "x"}),
              "/v1/schedules": ("promoter", schedule), "/v1/tokens": ("admin", {"scopes": ["viewer"]})}
    before = len(world.entries())
    for path, (who, body) in things.items():
        for name in MISLEADING:
            answer = world.api("POST", path, {**body, "name": name}, who=who)
            check(answer["status"] in (400, 422), f"{path} took {name!r}: {str(answer)[:200]}")
    for name in ("driftgate", "console", "Console", "c0nso1e", "schedule", "schedule/nightly", "SCHEDULE/x"):
        answer = issue_refused(world, name)
        check(answer["status"] == 400 and "driftgate itself" in answer["detail"], f"{name}: {str(answer)[:200]}")
    for name in ("Viewer", "v1ewer", "VIEWER", "prornoter", "appr0ver"):
        answer = issue_refused(world, name)
        check(answer["status"] == 409 and "look" in answer["detail"], f"{name}: {str(answer)[:200]}")
    changed = [entry["kind"] for entry in world.entries()[before:] if entry["kind"] != "evidence_read"]
    check(not changed, f"written: {changed}")
    for path, (who, body) in things.items():
        if path != "/v1/engines":
            answer = world.api("POST", path, {**body, "name": "_vllm/0.6.1+cu124:a@b-c"}, who=who)
            check("status" not in answer, f"{path}: {str(answer)[:200]}")


def issue_refused(world, name):
    return world.api("POST", "/v1/tokens", {"name": name, "scopes": ["viewer"]}, who="admin")


def a_repeated_key_gives_the_answer_of_the_first_request(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    contract = world.contract("bf16")
    promotion = {"model": "tinylm", "engine": "bf16", "contract": contract, "captures": world.captures("bf16")}
    text = world.contract_text.replace("@KERNEL@", "tinylm-bf16").replace("tinylm-test", "again")
    creating = {
        "/v1/contracts": ("promoter", text),
        "/v1/kernels": ("promoter", {"name": "again", "dtype": "f32"}),
        "/v1/engines": ("promoter", {"name": "again", "url": world.engines["f32"].url, "kernel": "tinylm-f32",
                                     "checkpoint": {"uri": os.path.join(ROOT, "examples", "tinylm", "model")}}),
        "/v1/models": ("operator", {"name": "again", "engine": "f32", "reason": "x"}),
        "/v1/promotions": ("promoter", promotion),
        "/v1/schedules": ("promoter", {"name": "again", "cron": "0 2 * * *", "timezone": "UTC", "promotion": promotion})}
    # Those that change what is there are tried in events.py.
    for path, operation in ((p, o) for m, p, o in operations(world) if m == "POST" and "201" in o["responses"] and any(
            parameter["name"] == "Idempotency-Key" for parameter in o.get("parameters", []))):
        check(path in creating, f"{operation['operationId']} takes a key and is not tried here")
    first = {}
    for tries in range(3):
        for path, (who, body) in creating.items():
            answer = call(world.url + path, "POST", body, {"Authorization": f"Bearer {world.tokens[who]}",
                          "Idempotency-Key": "k" + path, "Content-Type": "application/yaml" if path.endswith(
                              "contracts") else "application/json"})
            check(answer.status == 201, f"{path}, try {tries}: {answer.status} {answer.body[:300]}")
            kept = first.setdefault(path, answer)
            check(answer.body == kept.body and answer.headers["Location"] == kept.headers["Location"], f"{path}: another answer")
            check(("Idempotency-Replayed" in answer.headers) == (tries > 0), f"{path}, try {tries}: {answer.headers}")
        if tries == 1:
            world.daemon.kill()
            world.start_daemon()
    check(first["/v1/schedules"].headers["ETag"] == '"1"', "the schedule's ETag was not kept")
    check(len(world.api("GET", "/v1/promotions", expect=200)["items"]) == 1, "two promotions")
    change = lambda tag: call(world.url + "/v1/schedules/again/pause", "POST", None, {
        "Authorization": f"Bearer {world.tokens['operator']}", "If-Match": tag}).status
    tags = ('"7", "8"', 'W/"1"', "1", '"8", "1"', "*", '"1"')
    check([change(tag) for tag in tags] == [412, 412, 400, 200, 200, 412], "If-Match")


TESTS = [
    each_operation_lets_in_exactly_the_scopes_that_the_page_names,
    a_token_that_ends_between_head_and_body_has_no_effect,
    streams_end_with_their_token_and_show_what_it_may_read,
    the_last_admin_stays_and_the_owner_of_the_folder_gets_in_again,
    names_that_mislead_are_refused,
    a_repeated_key_gives_the_answer_of_the_first_request,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
