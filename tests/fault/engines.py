"""Faults of engines under a living daemon and router, while streams and whole answers are asked for at a constant rate: a
candidate with half of the traffic hangs (SIGSTOP), dies (SIGKILL) or stops and goes on again and again, and an
incumbent hangs while there is no other engine. Counts are those of the CI column in docs/reliability.md, or of the
nightly one when DRIFTGATE_FAULT_COLUMN is "nightly"."""
import asyncio
import json
import os
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "fault"))

from processes import NIGHTLY, SEED, launch, ready, rounds, tell  # noqa: E402
from harness import PATIENCE_S, check, wait_for  # noqa: E402
from world import TERMINAL, run  # noqa: E402

RATE = 60
OUTSTANDING = 200  # each engine takes 256 connections
LEARNED_FROM = 400  # streams, before an engine is disturbed
ROLLED_BACK_WITHIN_S = 5.0
FINGERPRINT = re.compile(rb'"system_fingerprint":\s*"([^"]*)"')


class Request:
    def __init__(self, streamed):
        self.streamed, self.began = streamed, time.monotonic()
        self.first = self.ended = None  # the first byte of the answer, and its end
        self.status, self.arm, self.whole = 0, None, False

    def waited(self):
        return self.first - self.began


class Traffic(threading.Thread):
    """Requests at a constant rate with new keys, every other streamed, each on a connection of its own."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping, self.requests = port, threading.Event(), []

    def run(self):
        asyncio.run(self.all())

    async def all(self):
        tasks, began, count = set(), time.monotonic(), 0
        while not self.stopping.is_set():
            while len(tasks) >= OUTSTANDING:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            count += 1
            task = asyncio.create_task(self.one(count))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await asyncio.sleep(max(0.0, began + count / RATE - time.monotonic()))
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)
        check(not tasks, f"{len(tasks)} requests got neither an answer nor an end")

    async def one(self, number):
        request = Request(streamed=number % 2 == 0)
        self.requests.append(request)
        body = json.dumps({"model": "tinylm", "prompt": "The file", "max_tokens": 4 + number % 5,
                           "stream": request.streamed}).encode()
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\ndriftgate-key: e%d\r\nConnection: close\r\n" % number +
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            request.first, request.status = time.monotonic(), int(head.split(b" ", 2)[1])
            text = await reader.read()
            request.whole = text.endswith(b"0\r\n\r\n") and b"data: [DONE]" in text if request.streamed else b'"choices"' in text
            found = FINGERPRINT.search(text)
            request.arm = found[1].decode() if found else None
        except (OSError, EOFError):  # IncompleteReadError is one
            pass
        finally:
            request.ended = time.monotonic()
            if writer is not None:
                writer.close()

    def stop(self):
        self.stopping.set()
        self.join(timeout=2 * PATIENCE_S)
        check(not self.is_alive(), "the traffic does not end")

    def streams_since(self, moment):
        return [r for r in list(self.requests) if r.streamed and r.began >= moment and r.first is not None]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def at_half(text):
    """The test's contract with half of the traffic for as long as the test takes."""
    for old, new in (("steps: [{share: 0.25}, {share: 0.5, approval: true}, {share: 1.0}]", "steps: [{share: 0.5}, {share: 1.0}]"),
                     ("soak: 1s", "soak: 10m")):
        check(old in text, f"the test's contract lost {old!r}")
        text = text.replace(old, new, 1)
    return text


def begin(world):
    """A model that serves, and its traffic; the fingerprint of its first engine."""
    world.settings = {"http.requests_per_second": 100_000}
    launch(world)
    ready(world)
    world.install_incumbent()
    wait_for("the route", lambda: world.complete().status == 200)
    fingerprint = world.complete().json()["system_fingerprint"]
    traffic = Traffic(world.router_port)
    traffic.start()
    return traffic, fingerprint


def candidate_at_half(world, traffic):
    """A promotion whose candidate serves half of the users, with what the router has to learn of it."""
    engine = world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    promotion = world.promote("bf16", "bf16", at_half)
    world.reach(promotion, "running", "canary")
    wait_for("half of the traffic", lambda: world.observed_share() == 5_000)
    since = time.monotonic()
    wait_for("streams to learn from", lambda: len(traffic.streams_since(since)) >= LEARNED_FROM)
    return engine, promotion, percentile([r.waited() for r in traffic.streams_since(since)], 0.99)


def rolled_back(world, promotion, since):
    """When the route without the candidate was read back."""
    def back():
        seen = world.promotion(promotion)
        return seen["state"] in TERMINAL and not world.observed_share()
    wait_for("the rollback to be read back", back)
    return time.monotonic() - since


def breaker_entries(world, arm):
    return [e["body"]["state"] for e in world.entries(kind="breaker_changed") if e["body"]["arm"] == arm]


def disturbed(traffic, since, until):
    """Streams that had no answer yet when an engine was disturbed, or were sent before it was out of the route."""
    return [r for r in traffic.requests if r.streamed and r.began <= until and (r.first is None or r.first > since)]


def nobody_waits_long(traffic, since, until, p99):
    """The goal: 99% of these streams wait at most twice the 99th percentile of before and a second."""
    asked, limit = disturbed(traffic, since, until), 2 * p99 + 1
    check(asked, "no stream was disturbed")
    unanswered = [r for r in asked if r.first is None or r.status != 200]
    check(not unanswered, f"{len(unanswered)} of {len(asked)} streams got no answer")
    waits = [r.waited() for r in asked]
    check(percentile(waits, 0.99) <= limit, f"99% of {len(waits)} streams waited {percentile(waits, 0.99):.3f} s, the goal is "
          f"{limit:.3f} s; the longest {max(waits):.3f} s")
    return (f"{len(waits)} streams waited {percentile(waits, 0.5):.3f} s in the middle, 99% {percentile(waits, 0.99):.3f} s, "
            f"at most {max(waits):.3f} s (goal {limit:.3f} s)")


def streams_of_the_incumbent_are_whole(traffic, incumbent):
    broken = [r for r in traffic.requests if r.arm == incumbent and not r.whole]
    check(not broken, f"{len(broken)} answers of the incumbent broke")


def lose_the_candidate(world, how):
    traffic, incumbent = begin(world)
    engine, promotion, p99 = candidate_at_half(world, traffic)
    since = time.monotonic()
    os.kill(engine.pid, how)
    try:
        took = rolled_back(world, promotion, since)
        traffic.stop()
    finally:
        if how == signal.SIGSTOP:
            os.kill(engine.pid, signal.SIGCONT)
    waited = nobody_waits_long(traffic, since, since + took, p99)
    streams_of_the_incumbent_are_whole(traffic, incumbent)
    # What had begun at the candidate is lost with it; everything else is whole.
    lost = [r for r in traffic.requests if not r.whole]
    check(all(r.first is not None and r.first <= since + 0.5 and r.streamed for r in lost),
          f"requests were lost that had not begun: {[(r.status, r.streamed, r.first and r.first - since) for r in lost[:5]]}")
    end = world.promotion(promotion)
    check(end["state"] == "rejected", f"the promotion ended as {end['state']}: {end['reason']}")
    check(breaker_entries(world, "candidate")[0] == "open", "the opening is not in the log")
    check(took <= ROLLED_BACK_WITHIN_S, f"the rollback was read back after {took:.2f} s")
    return f"rolled back after {took:.2f} s; p99 before {p99 * 1000:.0f} ms; {waited}; {len(lost)} streams that had begun were lost"


def a_candidate_that_hangs_is_left_at_once(world):
    tell("candidate hung at half of the traffic", lose_the_candidate(world, signal.SIGSTOP))


def a_candidate_that_dies_is_left_at_once(world):
    tell("candidate killed at half of the traffic", lose_the_candidate(world, signal.SIGKILL))


def a_candidate_that_flaps_is_convicted_and_nobody_loses_an_answer(world):
    """It stops for less than a second again and again: no breaker stays open for long enough to convict it, but what is
    withheld from it counts as its failures."""
    traffic, incumbent = begin(world)
    engine, promotion, p99 = candidate_at_half(world, traffic)
    since, cycles = time.monotonic(), 0
    try:
        while world.promotion(promotion)["state"] not in TERMINAL and cycles < rounds(40, 200):
            cycles += 1
            os.kill(engine.pid, signal.SIGSTOP)
            time.sleep(0.9)
            os.kill(engine.pid, signal.SIGCONT)
            time.sleep(1.5)
        took = rolled_back(world, promotion, since)
        traffic.stop()
    finally:
        os.kill(engine.pid, signal.SIGCONT)
    waited = nobody_waits_long(traffic, since, since + took, p99)
    lost = [r for r in traffic.requests if not r.whole]
    check(not lost, f"{len(lost)} requests were lost: {[(r.status, r.streamed) for r in lost[:5]]}")
    streams_of_the_incumbent_are_whole(traffic, incumbent)
    end, states = world.promotion(promotion), breaker_entries(world, "candidate")
    check(end["state"] == "rejected" and "runtime.errors" in end["reason"], f"it ended as {end['state']}: {end['reason']}")
    check(all(a != b for a, b in zip(states, states[1:])), f"openings and closings do not alternate: {states}")
    tell("candidate that stops and goes on", f"{cycles} times 0.9 s, {states.count('open')} openings and {states.count('closed')} "
         f"closings recorded, rolled back after {took:.1f} s; {waited}; no answer lost")


def a_hung_incumbent_keeps_its_requests(world):
    """There is no other engine: its breaker opens, and keeps nobody away."""
    traffic, incumbent = begin(world)
    wait_for("streams to learn from", lambda: len(traffic.streams_since(0)) >= LEARNED_FROM)
    engine, told = world.engines["f32"], []
    try:
        for seconds in (1, 3, 8) if NIGHTLY else (3,):
            os.kill(engine.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(engine.pid, signal.SIGCONT)
            began = time.monotonic()
            wait_for("answers again", lambda began=began: [r for r in traffic.streams_since(began) if r.whole])
            told.append(f"{seconds} s, the next answer {time.monotonic() - began:.2f} s after it went on")
    finally:
        os.kill(engine.pid, signal.SIGCONT)
    wait_for("the closing in the log", lambda: "closed" in breaker_entries(world, "incumbent"))
    traffic.stop()
    lost = [r for r in traffic.requests if not r.whole]
    check(not lost, f"{len(lost)} requests were lost: {[(r.status, r.streamed) for r in lost[:5]]}")
    streams_of_the_incumbent_are_whole(traffic, incumbent)
    check(breaker_entries(world, "incumbent")[0] == "open", "the opening is not in the log")
    tell("incumbent hung without another engine", f"{'; '.join(told)}; {len(traffic.requests)} requests, none lost")


TESTS = [
    a_candidate_that_hangs_is_left_at_once,
    a_candidate_that_dies_is_left_at_once,
    a_candidate_that_flaps_is_convicted_and_nobody_loses_an_answer,
    a_hung_incumbent_keeps_its_requests,
]

if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    run({test.__name__: test for test in TESTS})
