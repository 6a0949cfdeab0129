"""Clients that would take a port from the others: thousands of idle connections, slow requests, slow readers and
bodies that do not end, against the API and the router at default settings but for shorter deadlines. Counts are
those of the CI column in docs/reliability.md, or of the nightly one when DRIFTGATE_FAULT_COLUMN is "nightly"."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "integration"))

from flood import (Healthy, ask, attackers, close_all, connect, ended, flood, memory_bytes,  # noqa: E402
                   raise_descriptor_limit, router_pid)
from harness import check  # noqa: E402
from world import run  # noqa: E402

NIGHTLY = os.environ.get("DRIFTGATE_FAULT_COLUMN") == "nightly"
MIB = 1 << 20
COMPLETION = {"model": "tinylm", "prompt": "The file", "max_tokens": 1}


def rounds(ci, nightly):
    wanted = int(os.environ.get("DRIFTGATE_FAULT_ROUNDS", nightly if NIGHTLY else ci))
    return min(wanted, raise_descriptor_limit())


def tell(name, result):
    print(f"fault: {name}: {result}", flush=True)


def ports(world):
    """Name, what a healthy request asks, and with which body."""
    return (("API", world.url + "/healthz", None), ("router", world.router + "/v1/completions", COMPLETION))


def serves(healthy, url, body, count):
    healthy.ask(url, count, body)
    check(healthy.p99() <= 100 or not NIGHTLY, f"p99 of healthy requests to {url}: {healthy.p99():.0f} ms")


def idle_connections_leave_the_ports_to_others(world):
    """More than any default allows: 1,024 in all and 256 of one address on the API, 4,096 and 1,024 on the router."""
    world.start_daemon()
    world.install_incumbent()
    result = []
    for name, url, body in ports(world):
        for addresses in (1, 100):
            count = rounds(1_300 if addresses == 1 else 4_500, 10_000)
            peers = flood(url, count, attackers(addresses))
            healthy = Healthy()
            serves(healthy, url, body, 200)
            result.append(f"{name}, {count} from {addresses}: 200 of 200 healthy requests, p99 {healthy.p99():.1f} ms")
            close_all(peers)
    tell("idle connections", "; ".join(result))


def connections_that_keep_coming_leave_the_ports_to_others(world):
    """An attacker who connects again whenever he is cut off, while healthy requests run."""
    world.start_daemon()
    world.install_incumbent()
    result = []
    for name, url, body in ports(world):
        stop, made = threading.Event(), []

        def attack(url=url, stop=stop, made=made):
            peers = []
            while not stop.is_set():
                peers.append(connect(url, f"127.0.1.{1 + len(made) % 100}"))
                made.append(1)
                if len(peers) > 2_000:
                    peers.pop(0).close()
                time.sleep(0.001)  # this process also asks the healthy requests
            close_all(peers)

        attacker = threading.Thread(target=attack)
        attacker.start()
        try:
            healthy = Healthy()
            serves(healthy, url, body, rounds(100, 2_000))
        finally:
            stop.set()
            attacker.join()
        result.append(f"{name}: {len(made)} connections beside {len(healthy.took)} healthy requests, "
                      f"p99 {healthy.p99():.1f} ms")
    tell("connections that keep coming", "; ".join(result))


def slow_clients_are_cut_off_and_hold_nobody_up(world):
    count = rounds(150, 5_000) * 10 // 21
    readers = min(count // 10, 20)
    deadline_s = 3
    world.settings = {f"{port}.{which}_timeout_ms": deadline_s * 1_000
                      for port in ("http", "router") for which in ("head", "body", "write", "idle")}
    world.start_daemon()
    world.install_incumbent()
    token = f"Authorization: Bearer {world.tokens['promoter']}\r\n"
    result = []
    for name, url, body in ports(world):
        path = "/v1/kernels" if body is None else "/v1/completions"
        answers = "/openapi.json" if body is None else "/health"
        asked = f"GET {answers} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * (200 if body is None else 20_000)
        line = f"POST {path} HTTP/1.1\r\nHost: a\r\n{token}"
        sources = attackers(100)
        slow = [*flood(url, count, sources, line.encode()),
                *flood(url, count, sources, f"{line}Content-Length: 1000000\r\n\r\n".encode() + b" " * 1_000),
                *flood(url, readers, sources, asked, 4_096)]
        healthy = Healthy()
        began = time.monotonic()
        while time.monotonic() - began < deadline_s + 1:
            healthy.ask(url, 1, body)
        serves(healthy, url, body, 1)
        check(all(ended(peer) for peer in slow), f"{name}: a slow client was not cut off")
        close_all(slow)
        result.append(f"{name}: {count} slow heads, {count} slow bodies, {readers} who do not read, all cut off; p99 of "
                      f"{len(healthy.took)} healthy requests {healthy.p99():.1f} ms")
    tell("slow clients", "; ".join(result))


def unfinished_bodies_stay_within_their_memory(world):
    count = rounds(100, 800)
    world.start_daemon()
    world.install_incumbent()
    token = f"Authorization: Bearer {world.tokens['promoter']}\r\n"
    result = []
    for name, url, body in ports(world):
        path, limit, pid = (("/v1/kernels", 64 * MIB, world.daemon.pid) if body is None else
                            ("/v1/completions", 256 * MIB, router_pid(world.folder)))
        start = f"POST {path} HTTP/1.1\r\nHost: a\r\n{token}Content-Length: {MIB}\r\n\r\n".encode()
        before, most = memory_bytes(pid), 0
        sources = attackers(100)
        peers = [connect(url, sources[i % len(sources)], timeout=5) for i in range(count)]
        for piece in [start, *[b" " * 65_535] * 16]:
            for peer in peers:
                try:
                    peer.sendall(piece)
                except OSError:
                    continue
            most = max(most, memory_bytes(pid) - before)
        Healthy().ask(url, 50, body)
        most = max(most, memory_bytes(pid) - before)
        check(most < 1.5 * limit + 32 * MIB, f"{name}: {count} unfinished bodies took {most // MIB} MiB")
        answer, _ = ask(url.rsplit("/v1", 1)[0].replace("/healthz", "") + path, "127.1.9.9", body or
                        {"name": "k", "engine": "e", "dtype": "f32"}, token.encode())
        check(answer.status in (200, 201), f"{name}: a body of another: {answer.status} {answer.detail}")
        close_all(peers)
        result.append(f"{name}: {count} of 1 MiB took {most // MIB} MiB at most (bound {limit // MIB})")
    tell("unfinished bodies", "; ".join(result))


TESTS = [
    idle_connections_leave_the_ports_to_others,
    connections_that_keep_coming_leave_the_ports_to_others,
    slow_clients_are_cut_off_and_hold_nobody_up,
    unfinished_bodies_stay_within_their_memory,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
