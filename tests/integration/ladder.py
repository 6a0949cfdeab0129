"""The escalation ladder from end to end: a slice on the fallback engine, and webhooks."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import threading

from harness import TINYLM, Load, call, check, wait_for
from world import run

SECRET = b"0123456789abcdef0123456789abcdef"
MARK = "Wanderweg"  # in every German prompt of these tests, and in no other


class SlicedLoad(Load):
    """Real traffic of which a third is German and carries the mark."""

    def __init__(self, world, rate=90, seconds=1800):
        prompts = os.path.join(world.folder, "prompts.jsonl")
        with open(prompts, "w", encoding="utf-8") as handle:
            for i in range(90):
                german = i % 3 == 0
                handle.write(json.dumps({
                    "sequence": i, "id": f"p-{i}",
                    "slices": {"language": "de" if german else "en", "domain": "prose", "prompt_length": "short"},
                    "prompt": f"Der {MARK} {i} ist" if german else f"The file {i} is"}) + "\n")
        self.out = os.path.join(world.folder, "load.json")
        self.process = world.process("load", [
            TINYLM, "load", "--url", world.router, "--prompts", prompts, "--rate", str(rate),
            "--seconds", str(seconds), "--max-tokens", "4", "--key-prefix", "k", "--json", self.out])


def with_slice_rule(text):
    """The test's contract with a fallback kernel and a clause of its own for the critical slices."""
    for old, new in (
            ("\n\nassumptions:", "\n  fallback: {ref: tinylm-f32}\n\nassumptions:"),
            ("  - {id: errors, metric: error_rate, max: 0.05, max_ratio: 1.5}",
             "  - {id: errors, metric: error_rate, max: 0.6}\n"
             "  - {id: slice-errors, metric: error_rate, max: 0.2, slices: [critical], stages: [canary]}"),
            ("min_dwell: 5s", "min_dwell: 10m"),
            ('    - {match: "runtime.errors", stage: canary, action: rollback}',
             '    - {match: "runtime.slice-errors", slice: any, stage: canary, action: route_slice}\n'
             '    - {match: "runtime.slice-errors", slice: any, stage: canary, action: notify}')):
        check(old in text, f"the test's contract lost {old!r}")
        text = text.replace(old, new, 1)
    return text


class Receiver:
    """A webhook endpoint that keeps what it was sent."""

    def __init__(self):
        self.messages = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.messages.append((dict(self.headers), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def of_type(self, kind):
        return [(headers, json.loads(body)) for headers, body in list(self.messages)
                if json.loads(body)["type"] == kind]

    def check_signatures(self):
        for headers, body in list(self.messages):
            headers = {name.lower(): value for name, value in headers.items()}
            content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            expected = "v1," + base64.b64encode(hmac.new(SECRET, content, hashlib.sha256).digest()).decode()
            check(headers["webhook-signature"] == expected, "a message carries a wrong signature")


def tell(world, receiver, **more):
    path = os.path.join(world.folder, "ops.whsec")
    with open(path, "w", encoding="ascii") as handle:
        handle.write("whsec_" + base64.b64encode(SECRET).decode() + "\n")
    world.settings["webhooks.endpoints"] = {"ops": {"url": receiver.url, "secret_file": path, **more}}
    world.settings["webhooks.allowed_hosts"] = ["127.0.0.1"]


def decided(world, promotion, action):
    return [entry for entry in world.entries(promotion=promotion, kind="escalation_decided")
            if entry["body"]["action"] == action]


def a_failing_slice_goes_to_the_fallback_engine(world):
    receiver = Receiver()
    tell(world, receiver)
    world.start_daemon()
    world.install_incumbent()
    later = os.path.join(world.folder, "fail")
    world.start_engine("bf16", "bf16", "--fail-share", "1", "--fail-text", MARK, "--fail-file", later)
    world.register_engine("bf16", "bf16")
    world.start_engine("safe", "f32")
    refused = world.api("POST", "/v1/promotions", {
        "model": "tinylm", "engine": "bf16", "contract": world.contract("bf16", with_slice_rule),
        "captures": world.captures("bf16"), "fallback_engine": "safe"}, who="promoter")
    check(refused.get("code") == "not_found", f"an engine that is not registered was taken: {refused}")
    world.register_engine("safe", "f32")
    load = SlicedLoad(world)
    body = {"model": "tinylm", "engine": "bf16", "contract": world.contract("bf16", with_slice_rule),
            "captures": world.captures("bf16"), "fallback_engine": "safe"}
    promotion = world.api("POST", "/v1/promotions", body, who="promoter", expect=201)["id"]

    def routed():
        seen = world.promotion(promotion)
        if seen["stage"] == "canary":
            open(later, "w", encoding="ascii").close()
        if seen["state"] == "awaiting_approval":
            world.approve(promotion)
        check(seen["state"] in ("running", "awaiting_approval"), f"ended as {seen['state']}: {seen['reason']}")
        return world.route()["desired"]["slices"]

    slices = wait_for("the German slice to go to the fallback engine", routed)
    check([weight["where"] for weight in slices] == [{"language": "de"}], f"other slices went: {slices}")
    check(all(weight["to_fallback"] for weight in slices), f"not to the fallback: {slices}")
    wait_for("the route to be read back", lambda: world.route()["agree"] or not world.route()["desired"]["slices"])
    check(world.route()["desired"]["fallback"]["url"] == world.engines["safe"].url, "another engine is the fallback")
    check(world.route()["desired"]["candidate_bp"] > 0, "the candidate lost the other slices too")
    capacity = decided(world, promotion, "check_capacity")
    check(capacity and capacity[0]["body"]["enough"] is True, f"the capacity was not checked: {capacity}")
    check(decided(world, promotion, "route_slice"), "the action is not in the evidence")
    wait_for("the webhook to be told", lambda: receiver.of_type("escalation.notify"))
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen enough"}, who="operator", expect=200)
    check(not world.route()["desired"]["slices"], "the slice stays on the fallback after the abort")
    wait_for("the webhook to be told of the end", lambda: receiver.of_type("promotion.aborted"))
    receiver.check_signatures()
    check(load.stop()["failed"] == 0, "users saw the slice's failures in spite of the retry")


def webhooks_survive_a_kill_and_can_be_tested(world):
    receiver = Receiver()
    tell(world, receiver, events=["promotion.*"])
    world.start_daemon()
    asked = world.api("POST", "/v1/webhooks/ops/test", who="operator", expect=200)
    check(asked["name"] == "ops", f"another endpoint: {asked}")
    wait_for("the test message", lambda: receiver.of_type("driftgate.test"))
    receiver.server.shutdown()
    receiver.server.server_close()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    promotion = world.promote("bf16", "bf16")
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "enough"}, who="operator", expect=200)
    wait_for("a first attempt to fail",
             lambda: world.api("GET", "/v1/webhooks", who="operator", expect=200)["items"][0]["last_error"])
    world.daemon.kill()
    again = Receiver()
    tell(world, again, events=["promotion.*"])
    world.start_daemon()
    told = wait_for("what the killed daemon left", lambda: again.of_type("promotion.aborted"))
    check(told[0][1]["data"]["subject"]["promotion"] == promotion, f"of another promotion: {told}")
    again.check_signatures()
    check(call(world.url + "/v1/webhooks").status == 401, "endpoints are shown without a token")


def a_dead_router_is_started_again(world):
    world.start_daemon()
    world.install_incumbent()
    check(world.complete().status == 200, "the model does not serve")
    pid = next(line for line in world.daemon.tail(100_000).splitlines() if "router started" in line)
    os.kill(int(pid.split("pid=")[1].split()[0]), 9)

    def serves():
        try:
            return world.complete().status == 200
        except OSError:
            return False

    wait_for("the router to serve again", serves)
    wait_for("the route to agree again", lambda: world.route()["agree"])


TESTS = [
    a_failing_slice_goes_to_the_fallback_engine,
    webhooks_survive_a_kill_and_can_be_tested,
    a_dead_router_is_started_again,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
