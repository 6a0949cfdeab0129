"""Faults of the router under a living daemon: it is killed, or stopped so that it hangs, at random instants under 250
requests a second, while a promotion goes through its stages. Counts are those of the CI column in docs/reliability.md,
or of the nightly one when DRIFTGATE_FAULT_COLUMN is "nightly". DRIFTGATE_TEST_SEED repeats a run."""
import asyncio
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "fault"))

from processes import NIGHTLY, SEED, approve_what_waits, launch, ready, rounds, tell  # noqa: E402
from harness import DRIFTGATE, PATIENCE_S, ROOT, check, wait_for  # noqa: E402
from world import TERMINAL, run  # noqa: E402

RATE = 250
OUTSTANDING = 80  # the engine takes 256 connections, those of routers that were just killed among them
REPLACED_WITHIN_S = 3.0


class Traffic(threading.Thread):
    """Requests at a constant rate, every other on a connection of its own, the rest on kept ones. Whatever happens to
    one, the next is sent in time, as long as fewer than OUTSTANDING wait for their answers."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping = port, threading.Event()
        self.idle, self.open = [], 0
        self.sent = self.answered = 0
        self.refused, self.broken, self.failed = [], [], []
        self.slowest = 0.0

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

    async def connection(self, kept):
        while kept and self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof() and reader.exception() is None and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def one(self, number):
        kept, began = number % 2 == 0, time.monotonic()
        body = json.dumps({"model": "tinylm", "prompt": "The file", "max_tokens": 2 + number % 7}).encode()
        self.sent += 1
        try:
            reader, writer = await self.connection(kept)
        except ConnectionError as error:
            self.refused.append((began, str(error)))
            return
        try:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\ndriftgate-key: r%d\r\n" % number +
                         b"Connection: %s\r\nContent-Length: %d\r\n\r\n" % (b"keep-alive" if kept else b"close", len(body)) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            text = await reader.readexactly(length)
        except (OSError, EOFError):  # IncompleteReadError is one
            self.broken.append(began)
            writer.close()
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.failed.append((began, head[:40] + text[:200]))
        self.answered += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        if kept and b"connection: close" not in head.lower():
            self.idle.append((reader, writer))
        else:
            writer.close()

    def stop(self):
        self.stopping.set()
        self.join(timeout=2 * PATIENCE_S)
        check(not self.is_alive(), "the traffic does not end")


def router_pid(world):
    """Of the process that listens on the control socket."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_S)
        peer.connect(f"{world.folder}/data/router.sock")
        return struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]


def replacements(world):
    return [entry["body"] for entry in world.entries(kind="router_replaced")]


def counted(bodies):
    return sum(item["requests"] for body in bodies for item in body["broken"]) + sum(b.get("unread", 0) for b in bodies)


def both_verify(world):
    """The whole log, in both verifiers."""
    bundle, trust, token = (os.path.join(world.folder, name) for name in ("all.bundle", "trust.json", "auditor.token"))
    with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(world.tokens["auditor"])
    with open(trust, "wb") as file:
        file.write(subprocess.run([DRIFTGATE, "key", "trust", "--data-dir", f"{world.folder}/data"], check=True,
                                  capture_output=True, timeout=PATIENCE_S).stdout)
    exported = subprocess.run([DRIFTGATE, "audit", "export", "--from", "2020-01-01", "--to", "2100-01-01", "--out", bundle, "--url",
                               world.url, "--token-file", token], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(exported.returncode == 0, f"audit export: {exported.stderr}")
    for verifier in ([DRIFTGATE, "audit", "verify"], [sys.executable, os.path.join(ROOT, "scripts", "verify_bundle.py")]):
        done = subprocess.run([*verifier, "--trust", trust, bundle], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        check(done.returncode == 0, f"{verifier[0]}: {done.returncode}\n{done.stdout}{done.stderr}")


def disturb(world, promotion, number, how, chance):
    """One router killed or stopped at a random instant; how long until another is known to serve."""
    end = time.monotonic() + chance.random() * 2
    while time.monotonic() < end:
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
    pid, began = router_pid(world), time.monotonic()
    os.kill(pid, how)
    wait_for(f"replacement {number}", lambda: len(replacements(world)) >= number)
    took = time.monotonic() - began
    body = next(body for body in replacements(world) if body["pid"] == pid)
    check(body["why"] == ("hung" if how == signal.SIGSTOP else "killed"), f"{pid} was {how.name}: {body}")
    check(router_pid(world) == body["replacement_pid"], f"another router serves than {body}")
    check(took <= REPLACED_WITHIN_S or not NIGHTLY, f"replaced after {took:.2f} s: {body}")
    return took


def routers_that_are_killed_or_stopped_are_replaced(world):
    count, chance = rounds(8, 10), random.Random(SEED)
    world.settings = {"http.requests_per_second": 100_000}
    launch(world)
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    wait_for("the route", lambda: world.complete().status == 200)
    traffic = Traffic(world.router_port)
    traffic.start()
    promotion = world.promote("bf16", "bf16")
    took = {signal.SIGKILL: [], signal.SIGSTOP: []}
    for i in range(count):
        if i == count // 3:  # the later ones fall into the canary, which cannot end without an approval
            world.reach(promotion, ("running", "awaiting_approval"), "canary")
        how = (signal.SIGKILL, signal.SIGSTOP)[i % 2]
        took[how].append(disturb(world, promotion, i + 1, how, chance))
    wait_for("the promotion to end", lambda: approve_what_waits(world, promotion)
             or world.promotion(promotion)["state"] in TERMINAL)
    end = world.promotion(promotion)
    traffic.stop()
    bodies = replacements(world)
    broken, known = len(traffic.broken), counted(bodies)
    told = [f"{how.name} {len(times)}, replaced after at most {max(times):.2f} s" for how, times in took.items()]
    tell("routers killed and stopped", f"{'; '.join(told)}; {traffic.sent} requests at {RATE}/s, {len(traffic.refused)} refused, "
         f"{broken} broken, {known} counted as broken; the slowest answer {traffic.slowest:.2f} s; without service "
         f"{sorted(b['down_ms'] for b in bodies)} ms; the promotion {end['state']}")
    check(not traffic.refused, f"refused: {traffic.refused[:5]}")
    # What the sockets of a killed router held unread is in no count, and is at most one request a connection; of a
    # stopped one everything is counted, but for requests that came while it was being killed.
    unread = sum(b["connections"] if b["why"] == "killed" else 3 for b in bodies)
    check(known - count <= broken <= known + unread, f"{broken} requests broke, {known} were counted")
    check(not traffic.failed, f"answered badly: {traffic.failed[:5]}")
    check(end["state"] == "succeeded", f"the promotion ended as {end['state']}: {end['reason']}")
    both_verify(world)


TESTS = [
    routers_that_are_killed_or_stopped_are_replaced,
]

if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    run({test.__name__: test for test in TESTS})
