"""What people and pages see of all promotions at once: the stream of events, the status on one screen, orders on what
was shown, and repeated orders."""
import json

from harness import PATIENCE_S, call, check, wait_for
from wire import Peer
from world import TERMINAL, run


class Stream:
    """GET /v1/events over a socket: (id or None, event, data), read as far as a test asks."""

    def __init__(self, world, bearer, after=None):
        self.peer = Peer(world.url, PATIENCE_S)
        last = f"Last-Event-ID: {after}\r\n" if after is not None else ""
        self.peer.send(f"GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {bearer}\r\n{last}\r\n".encode())
        self.events, self.ended = [], False
        while b"\r\n\r\n" not in self.peer.received:
            self.more()
        head, self.rest = self.peer.received.split(b"\r\n\r\n", 1)
        check(head.startswith(b"HTTP/1.1 200 ") and b"text/event-stream" in head, f"the stream: {head}")

    def more(self):
        piece = self.peer.socket.recv(65536)
        check(piece, f"the stream ended: {self.peer.received[-300:]}")
        self.peer.received += piece
        return piece

    def take(self, piece):
        *blocks, self.rest = (self.rest + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            if fields:
                number = int(fields["id"]) if "id" in fields else None
                self.events.append((number, fields["event"], json.loads(fields["data"])))

    def until(self, what, found):
        """Reads until an event for which found(id, event, data); that event."""
        seen = 0
        self.take(b"")
        while True:
            for event in self.events[seen:]:
                if found(*event):
                    return event
            seen = len(self.events)
            try:
                self.take(self.more())
            except TimeoutError:
                check(False, f"waited in vain for {what}; the last events: {self.events[-3:]}")

    def entries(self):
        return [(number, kind, data) for number, kind, data in self.events if number is not None]

    def close(self):
        self.peer.close()


def a_model_and_a_candidate(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")


def promoted_again(world, promotion):
    """Whether an event is the end of this promotion as its item."""
    return lambda number, kind, data: kind == "progress" and data["id"] == promotion and data["state"] in TERMINAL


def one_stream_tells_of_a_whole_promotion_what_its_reader_may_know(world):
    a_model_and_a_candidate(world)
    before = len(world.entries())
    viewer, auditor = (Stream(world, world.tokens[who]) for who in ("viewer", "auditor"))
    for stream in (viewer, auditor):
        number, _, hello = stream.until("hello", lambda number, kind, data: kind == "hello")
        check(number is None and stream.events[0][1] == "hello" and hello["tree_size"] >= before, f"hello: {hello}")
        check(hello["server"]["version"] and hello["server"]["started_us"] > 0, f"hello: {hello}")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    for stream in (viewer, auditor):
        _, _, item = stream.until("the wait for an approval", lambda number, kind, data: kind == "progress"
                                  and data["id"] == promotion and data["state"] == "awaiting_approval")
        check("waits for the approval" in item["why"] and item["needs"][0]["action"] == "approve", f"{item['why']}")
        check(item["next"].startswith("It expires at "), item["next"])
    world.approve(promotion)
    for stream in (viewer, auditor):
        _, _, item = stream.until("the end", promoted_again(world, promotion))
        check(item["state"] == "succeeded" and item["share_bp"] == 10_000, f"{item['state']}: {item['why']}")
        stream.close()
    check(load.stop()["failed"] == 0, "users saw failures")
    for stream in (viewer, auditor):
        numbers = [number for number, _, _ in stream.entries()]
        check(numbers == sorted(set(numbers)), f"ids go back: {numbers}")
        states = [data["body"]["to"] for _, kind, data in stream.entries() if kind == "state_changed"]
        check(states[0] == "running" and states[-1] == "succeeded", f"states: {states}")
    for number, kind, data in viewer.entries():
        check(set(data) == {"v", "seq", "time_us", "kind", "subject", "body"} and data["seq"] == number, f"{data}")
        allowed = {"state_changed": {"from", "to", "stage", "attempt", "traffic"}, "route_desired": {"candidate_bp"},
                   "route_applied": {"candidate_bp"}}.get(kind, set())
        check(set(data["body"]) <= allowed, f"a viewer sees {data}")
        check(kind not in ("token_granted", "token_revoked", "evidence_read"), f"a viewer sees {kind}")
    whole = {entry["seq"]: entry for entry in world.entries()}
    first, last = auditor.entries()[0][0], auditor.entries()[-1][0]
    check([number for number, _, _ in auditor.entries()] == list(range(first, last + 1)), "an auditor misses entries")
    check(all(data == whole[number] for number, _, data in auditor.entries() if number in whole), "an entry differs")


def a_stream_goes_on_after_a_crash_of_the_daemon_without_a_gap(world):
    world.start_daemon()
    stream = Stream(world, world.tokens["auditor"])
    kernel = lambda name: world.api("POST", "/v1/kernels", {"name": name, "dtype": "f32"}, who="promoter", expect=201)
    kernel("first")
    last, _, _ = stream.until("an entry", lambda number, kind, data: kind == "kernel_registered")
    kernel("unread")
    world.daemon.kill()
    world.start_daemon()
    kernel("after")
    again = Stream(world, world.tokens["auditor"], after=last)
    again.until("the entry after the crash", lambda number, kind, data: kind == "kernel_registered"
                and data["body"]["name"] == "after")
    numbers = [number for number, _, _ in again.entries()]
    check(numbers == list(range(last + 1, last + 1 + len(numbers))), f"after {last}: {numbers}")
    names = [data["body"]["name"] for _, kind, data in again.entries() if kind == "kernel_registered"]
    check(names == ["unread", "after"], f"registered: {names}")
    check("reset" not in [kind for _, kind, _ in again.events], "the log was taken for another one")
    other = Stream(world, world.tokens["viewer"], after=10_000_000)
    _, _, reset = other.until("a reset", lambda number, kind, data: kind == "reset")
    kernel("later")
    number, _, _ = other.until("what comes", lambda number, kind, data: kind == "kernel_registered")
    check(number >= reset["tree_size"], f"{number} after {reset}")
    for open_one in (again, other):
        open_one.close()


def streams_end_when_their_token_is_revoked_and_when_the_daemon_stops(world):
    world.start_daemon()
    issued = world.api("POST", "/v1/tokens", {"name": "brief", "scopes": ["viewer"]}, who="admin", expect=201)
    revoked, kept = Stream(world, issued["bearer"]), Stream(world, world.tokens["viewer"])
    for stream in (revoked, kept):
        stream.until("hello", lambda number, kind, data: kind == "hello")
    world.api("DELETE", f"/v1/tokens/{issued['id']}", who="admin", expect=204)
    revoked.peer.read_all()
    check(b"token_revoked" not in revoked.peer.received, "a viewer is told of tokens")
    world.api("POST", "/v1/kernels", {"name": "k", "dtype": "f32"}, who="promoter", expect=201)
    kept.until("an entry", lambda number, kind, data: kind == "kernel_registered")
    world.daemon.stop()
    kept.peer.read_all()


def order(world, promotion, action, body, key=None, expect=200):
    headers = {"Authorization": f"Bearer {world.tokens['operator']}", **({"Idempotency-Key": key} if key else {})}
    answer = call(f"{world.url}/v1/promotions/{promotion}/{action}", "POST", body, headers)
    check(answer.status == expect, f"{action}: {answer.status}, expected {expect}: {answer.body[:400]}")
    return answer


def an_order_on_what_has_changed_is_refused_and_a_repeated_one_has_one_effect(world):
    a_model_and_a_candidate(world)
    promotion = world.promote("bf16", "bf16")
    shown = wait_for("a running promotion", lambda: world.promotion(promotion)["state"] == "running"
                     and world.promotion(promotion))["evidence_shown"]
    first = order(world, promotion, "pause", {"reason": "look"}, key="once")
    paused = world.promotion(promotion)
    check(paused["state"] == "paused" and paused["evidence_shown"] != shown, f"{paused['state']}")
    check(paused["needs"][0]["action"] == "resume" and paused["needs"][0]["scope"] == "operator", f"{paused['needs']}")
    for action in ("resume", "abort", "rollback", "pause"):
        stale = order(world, promotion, action, {"reason": "x", "evidence_digest": shown}, expect=409).json()
        check(stale["code"] == "conflict" and "it was running" in stale["detail"] and "now it is paused" in stale["detail"],
              f"{action}: {stale}")
    for crash in (False, True):
        if crash:
            world.daemon.kill()
            world.start_daemon()
        again = order(world, promotion, "pause", {"reason": "look"}, key="once")
        check(again.body == first.body and again.headers.get("Idempotency-Replayed") == "true", f"another answer: {again.body[:300]}")
    order(world, promotion, "pause", {"reason": "another"}, key="once", expect=422)
    pauses = [entry for entry in world.entries(promotion=promotion, kind="state_changed") if entry["body"]["to"] == "paused"]
    check(len(pauses) == 1, f"{len(pauses)} pauses")
    now = world.promotion(promotion)["evidence_shown"]
    check(now == paused["evidence_shown"], "a restart changed what is shown")
    done = order(world, promotion, "abort", {"reason": "enough", "evidence_digest": now}, key="end").json()
    check(done["state"] == "aborted", f"{done['state']}")
    check(order(world, promotion, "abort", {"reason": "enough", "evidence_digest": now}, key="end").json() == done, "another answer")


def the_status_of_everything_is_one_answer(world):
    a_model_and_a_candidate(world)
    status = lambda query="": world.api("GET", f"/v1/status{query}", expect=200)
    empty = status()
    check([item["model"] for item in empty["items"]] == ["tinylm"] and empty["next"] is None, f"{empty}")
    check(empty["items"][0]["promotion"] is None and empty["items"][0]["last"] is None, f"{empty}")
    check(empty["counts"] == {"models": 1, "open": 0, "need_people": 0, "holds": 0, "alarms": 0}, f"{empty['counts']}")
    promotion = world.promote("bf16", "bf16")
    world.api("POST", "/v1/schedules", {"name": "nightly", "cron": "0 2 * * *", "timezone": "UTC", "promotion": {
        "model": "tinylm", "engine": "bf16", "contract": "tinylm-test", "captures": world.captures("bf16")}},
        who="promoter", expect=201)
    order(world, promotion, "pause", {"reason": "look"})
    seen = status("?q=TINY")
    item = seen["items"][0]
    listed = world.api("GET", "/v1/promotions?needs=true&order=updated", expect=200)["items"]
    check(item["promotion"] == listed[0] and listed[0]["id"] == promotion, f"{item['promotion']}")
    check("look" in item["promotion"]["why"] and item["promotion"]["next"].startswith("It expires at "), f"{item['promotion']['why']}")
    check(item["schedules"][0]["name"] == "nightly" and item["schedules"][0]["next_us"] > 0, f"{item['schedules']}")
    check(seen["counts"]["open"] == 1 and seen["counts"]["need_people"] == 1, f"{seen['counts']}")
    check(seen["tree_size"] > empty["tree_size"], "the log has not grown")
    check(status("?q=other")["items"] == [], "a search that finds what it should not")
    order(world, promotion, "rollback", {"reason": "smells"})
    held = status()["items"][0]
    check(held["hold"]["promotion"] == promotion and held["promotion"] is None, f"{held['hold']}")
    check(held["last"]["id"] == promotion and "smells" in held["last"]["why"], f"{held['last']}")
    lift = lambda: call(f"{world.url}/v1/models/tinylm/lift-hold", "POST", {"reason": "mended"}, {
        "Authorization": f"Bearer {world.tokens['operator']}", "Idempotency-Key": "lift"})
    first, again = lift(), lift()
    check(first.status == 200 and again.body == first.body, f"{again.status} {again.body[:300]}")
    for query in ("?requester=promoter", "?contract=tinylm-test", f"?q={promotion.upper()}", "?model=tinylm&order=oldest"):
        found = world.api("GET", f"/v1/promotions{query}", expect=200)["items"]
        check([one["id"] for one in found] == [promotion], f"{query}: {[one['id'] for one in found]}")
    check(world.api("GET", "/v1/promotions?open=true", expect=200)["items"] == [], "it is open")


TESTS = [
    one_stream_tells_of_a_whole_promotion_what_its_reader_may_know,
    a_stream_goes_on_after_a_crash_of_the_daemon_without_a_gap,
    streams_end_when_their_token_is_revoked_and_when_the_daemon_stops,
    an_order_on_what_has_changed_is_refused_and_a_repeated_one_has_one_effect,
    the_status_of_everything_is_one_answer,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
