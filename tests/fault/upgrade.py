"""The program is replaced under a living service: a daemon with another program file follows the one before, again and
again, and the router is handed over on SIGUSR2, under 250 requests a second and streams that last longer than a
hand-over, while a promotion goes through its stages. The API's socket is handed over as systemd does it. Counts are those
of the CI column in docs/reliability.md, or of the nightly one when DRIFTGATE_FAULT_COLUMN is "nightly".
DRIFTGATE_TEST_SEED repeats a run."""
import asyncio
import contextlib
import glob
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "fault"))

from processes import SEED, answers, approve_what_waits, forget, ready, rounds, tell  # noqa: E402
from routers import Traffic, both_verify, replacements, router_pid  # noqa: E402
from harness import DRIFTGATE, PATIENCE_S, Process, call, check, wait_for  # noqa: E402
from world import TERMINAL, run  # noqa: E402

STREAMS = 8
STREAMED_TOKENS = 16
PIECE_BYTES, PAUSE_S = 256, 0.25  # of a slow stream, which so takes some seconds
SLOW_MODEL = "slowlm"  # which the engine behind knows as tinylm, a name of the same length
HELD_CONNECTIONS_S = 5  # longer than any connection of the traffic waits between two requests


class HandedDaemon(Process):
    """A daemon that is given its listening socket as descriptor 3, as systemd's socket units do."""

    def __init__(self, program, config, log, listener):
        self.name, self.log = "daemon", log
        self.handle = open(log, "ab")
        script = 'exec env LISTEN_PID=$$ LISTEN_FDS=1 "$0" serve --config "$1" 3<&"$2"'
        self.child = subprocess.Popen(["/bin/sh", "-c", script, program, config, str(listener.fileno())], stdout=self.handle,
                                      stderr=self.handle, stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()])


class SlowEngine(threading.Thread):
    """In front of an engine: passes everything on under its own model's name, and streams in small pieces with pauses."""

    def __init__(self, engine):
        super().__init__(daemon=True)
        self.host, port = engine.url.split("//")[1].split(":")
        self.port, self.listener = int(port), listening()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_server(self.one, sock=self.listener)
        async with server:
            await server.serve_forever()

    async def one(self, reader, writer):
        slow = asyncio.Event()
        try:
            engine_reader, engine_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.up(reader, engine_writer, slow), self.down(engine_reader, writer, slow),
                             return_exceptions=True)

    @staticmethod
    async def up(reader, writer, slow):
        try:
            while data := await reader.read(65_536):
                if data.startswith((b"POST ", b"GET ")):
                    slow.clear()
                if b'"stream": true' in data:
                    slow.set()
                writer.write(data.replace(SLOW_MODEL.encode(), b"tinylm"))
                await writer.drain()
        finally:
            writer.close()

    @staticmethod
    async def down(reader, writer, slow):
        try:
            while data := await reader.read(PIECE_BYTES if slow.is_set() else 65_536):
                writer.write(data)
                await writer.drain()
                if slow.is_set():
                    await asyncio.sleep(PAUSE_S)
        finally:
            writer.close()


def unchunked(body):
    """A whole chunked body without its framing, which may divide any word of it."""
    data = b""
    while (size := int(body.partition(b"\r\n")[0], 16)) > 0:
        body = body.partition(b"\r\n")[2]
        data, body = data + body[:size], body[size + 2:]
    return data


class Streams(threading.Thread):
    """Some streams at a time, each on a connection of its own, one after another without a pause."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping = port, threading.Event()
        self.whole, self.broken, self.longest = 0, [], 0.0

    def run(self):
        asyncio.run(self.all())

    async def all(self):
        await asyncio.gather(*(self.one_after_another(number) for number in range(STREAMS)))

    async def one_after_another(self, number):
        count = 0
        while not self.stopping.is_set():
            count += 1
            began = time.monotonic()
            try:
                ended = await asyncio.wait_for(self.one(f"s{number}-{count}"), PATIENCE_S)
            except (OSError, EOFError, asyncio.TimeoutError) as error:
                ended = repr(error)
            self.longest = max(self.longest, time.monotonic() - began)
            if ended is None:
                self.whole += 1
            else:
                self.broken.append((began, ended))

    async def one(self, key):
        """Nothing when the stream came to its end; else what came last."""
        body = json.dumps({"model": SLOW_MODEL, "prompt": "The file", "max_tokens": STREAMED_TOKENS, "stream": True}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: a\r\ndriftgate-key: {key}\r\nConnection: close\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            text = await reader.read()
        finally:
            writer.close()
        head, _, body = text.partition(b"\r\n\r\n")
        whole = head.startswith(b"HTTP/1.1 200") and body.endswith(b"0\r\n\r\n") and b"data: [DONE]" in unchunked(body)
        return None if whole else text[-200:]

    def stop(self):
        self.stopping.set()
        self.join(timeout=2 * PATIENCE_S)
        check(not self.is_alive(), "the streams do not end")


class Knocking(threading.Thread):
    """Asks the API on a new connection each time; while no daemon lives the question waits."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.stopping = url, threading.Event()
        self.asked, self.refused, self.slowest = 0, [], 0.0

    def run(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            self.asked += 1
            try:
                call(self.url + "/healthz", timeout=PATIENCE_S)
            except ConnectionRefusedError as error:
                self.refused.append((began, str(error)))
            except (OSError, http.client.HTTPException):
                pass  # it was answered by nobody: the daemon that had accepted it ended
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.01)

    def stop(self):
        self.stopping.set()
        self.join(timeout=2 * PATIENCE_S)
        check(not self.is_alive(), "the questions to the API do not end")


class Installed:
    """The program as a package installs it: each version is a file of its own, renamed into the same place."""

    def __init__(self, folder):
        self.path, self.version = os.path.join(folder, "driftgate"), 0
        self.next()

    def next(self):
        fresh = f"{self.path}.new"
        shutil.copy2(DRIFTGATE, fresh)
        os.rename(fresh, self.path)
        self.version += 1

    def is_run_by(self, pid):
        return os.path.samefile(f"/proc/{pid}/exe", self.path)


def start(world, installed, listener):
    config = f"{world.folder}/driftgate.yaml"
    with open(config, "w", encoding="utf-8") as handle:
        handle.write(world.settings_text())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{world.folder}/api.port")
    forget(world)
    world.daemon = HandedDaemon(installed.path, config, f"{world.folder}/daemon.log", listener)
    world.processes.append(world.daemon)


def epoch_of(world):
    return world.route()["desired"]["epoch"]


def retiring(world):
    return glob.glob(f"{glob.escape(world.folder)}/data/router.sock.old.*")


def upgrade(world, installed, listener, chance):
    """The daemon and then the router of another program file; the router that was there before."""
    pid, epoch = router_pid(world), epoch_of(world)
    installed.next()
    time.sleep(chance.random())
    world.daemon.stop()
    time.sleep(chance.random() * 0.3)  # nobody is there
    start(world, installed, listener)
    ready(world)
    check(router_pid(world) != pid, "the router before still has the control socket")
    check(installed.is_run_by(router_pid(world)), "the router does not run the program that was installed")
    wait_for("the route", lambda: epoch_of(world) > epoch and world.route()["agree"])
    return pid


def hand_over(world, chance):
    """Another process of the same program, without a restart of the daemon."""
    pid = router_pid(world)
    time.sleep(chance.random())
    os.kill(world.daemon.pid, signal.SIGUSR2)

    def another():
        with contextlib.suppress(OSError):  # while one follows the other nobody has the path
            return router_pid(world) != pid
    wait_for("another router", another)
    return pid


def listening():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    return listener


def handed_over_in_order(world, pid):
    bodies = [body for body in replacements(world) if body["pid"] == pid]
    check(len(bodies) <= 1, f"router {pid} was recorded {len(bodies)} times")
    if not bodies:
        return None
    body = bodies[0]
    check(body["why"] == "handed_over", f"router {pid} did not end in order: {body}")
    check(not body["broken"] and not body["lost"], f"something went with router {pid}: {body}")
    return body


def the_program_is_replaced_under_load(world):
    count, chance = rounds(6, 60), random.Random(SEED)
    world.settings = {"http.requests_per_second": 100_000, "router.idle_timeout_ms": HELD_CONNECTIONS_S * 1000,
                      "http.idle_timeout_ms": 1000}
    installed, listener = Installed(world.folder), listening()
    start(world, installed, listener)
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    slow = SlowEngine(world.engines["f32"])
    slow.start()
    world.engines["slow"] = slow
    world.register_engine("slow", "f32")
    world.api("POST", "/v1/models", {"name": SLOW_MODEL, "engine": "slow", "reason": "streams that take long"}, who="operator",
              expect=201)
    wait_for("the routes", lambda: all(world.complete(model=name).status == 200 for name in ("tinylm", SLOW_MODEL)))
    traffic, streams = Traffic(world.router_port), Streams(world.router_port)
    knocking = Knocking(f"http://127.0.0.1:{listener.getsockname()[1]}")
    for thread in (traffic, streams, knocking):
        thread.start()
    promotion = world.promote("bf16", "bf16")
    gone = []
    for i in range(count):
        if i == count // 2:  # the later ones fall into the canary, which cannot end without an approval
            world.reach(promotion, ("running", "awaiting_approval"), "canary")
        gone.append(hand_over(world, chance) if i % 3 == 2 else upgrade(world, installed, listener, chance))
        wait_for("a router that has ended", lambda: len(retiring(world)) < 4)  # so many may retire at a time
    wait_for("the promotion to end", lambda: approve_what_waits(world, promotion)
             or world.promotion(promotion)["state"] in TERMINAL)
    end = world.promotion(promotion)
    for thread in (traffic, streams, knocking):
        thread.stop()
    for pid in gone:
        wait_for(f"the end of router {pid} to be recorded", lambda pid=pid: handed_over_in_order(world, pid))
    check(answers(world), "the daemon does not serve")
    tell("the program replaced under load",
         f"{count} hand-overs, {installed.version - 1} of them with another program file and a restart of the daemon; "
         f"{traffic.sent} requests, {len(traffic.refused)} refused, {len(traffic.broken)} broken, the slowest "
         f"{traffic.slowest:.2f} s; {streams.whole} streams of at most {streams.longest:.2f} s, {len(streams.broken)} broken; "
         f"{knocking.asked} questions to the API, {len(knocking.refused)} refused, the slowest {knocking.slowest:.2f} s; "
         f"the promotion {end['state']}")
    check(not traffic.refused, f"refused: {traffic.refused[:5]}")
    check(not traffic.broken, f"broken: {traffic.broken[:5]}")
    check(not traffic.failed, f"answered badly: {traffic.failed[:5]}")
    check(not streams.broken, f"streams broken: {streams.broken[:3]}")
    check(streams.whole > count, f"only {streams.whole} streams came to their end")
    check(not knocking.refused, f"the API refused: {knocking.refused[:5]}")
    check(end["state"] == "succeeded", f"the promotion ended as {end['state']}: {end['reason']}")
    both_verify(world)


TESTS = [
    the_program_is_replaced_under_load,
]

if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    run({test.__name__: test for test in TESTS})
