"""No client takes a port from the others: connections, memory of bodies, descriptors, and requests that go in a
circle; each on the API's port and on the router's."""
import contextlib
import resource
import socket
import threading

from flood import (ask, attackers, close_all, connect, descriptors, ended, flood, memory_bytes, raise_descriptor_limit,
                   router_pid, Healthy)
from harness import call, check, wait_for
from wire import Peer, Said
from world import MODEL_DIR, run

MIB = 1 << 20


def both_ports(world):
    return {"the API": (world.url + "/healthz", world.daemon.pid),
            "the router": (world.router + "/health", router_pid(world.folder))}


def the_oldest_idle_connection_of_an_address_gives_way(world):
    world.settings = {"http.max_connections_per_address": 12, "router.max_connections_per_address": 12}
    world.start_daemon()
    for name, (url, _) in both_ports(world).items():
        peers = flood(url, 12, ["127.0.1.1"])
        other = connect(url, "127.0.1.2")
        check(ask(url, "127.0.1.1")[0].status == 200, f"{name}: a thirteenth connection was not served")
        check(ended(peers[0]), f"{name}: the oldest idle connection was not closed")
        for peer in [*peers[1:], other]:
            peer.settimeout(60)
            peer.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % ("/" + url.rsplit("/", 1)[1]).encode())
            check(peer.recv(4096).startswith(b"HTTP/1.1 200"), f"{name}: more than one connection was closed")
        close_all([*peers, other])


def a_process_without_descriptors_closes_idle_connections_and_goes_on(world):
    raise_descriptor_limit()
    world.start_daemon()
    for name, (url, pid) in both_ports(world).items():
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(pid) + 30, hard))
        peers = flood(url, 200, attackers(10))
        Healthy().ask(url, 50)
        close_all(peers)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        check(call(url).status == 200, f"{name} does not serve any more")


def unfinished_bodies_share_one_bound_of_memory(world):
    limit = 8 * MIB
    world.settings = {"http.body_memory_bytes": limit, "router.body_memory_bytes": limit}
    world.start_daemon()
    token = b"Authorization: Bearer %s\r\n" % world.tokens["promoter"].encode()
    start = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n"
    kernel = {"name": "k", "engine": "e", "dtype": "f32"}
    ports = {"the API": (world.url, world.daemon.pid, "/v1/kernels", kernel, (200, 201)),
             "the router": (world.router, router_pid(world.folder), "/v1/completions", {"model": "none"}, (404,))}
    for name, (url, pid, path, body, status) in ports.items():
        for sources in (attackers(1), attackers(20)):
            before = memory_bytes(pid)
            peers = [connect(url, sources[i % len(sources)]) for i in range(60)]
            senders = [threading.Thread(target=send_quietly, args=(
                peer, start % (path.encode(), MIB, token) + b" " * (MIB - 1))) for peer in peers]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join()
            grown = memory_bytes(pid) - before
            check(grown < 4 * limit, f"{name}: 60 unfinished bodies took {grown // MIB} MiB")
            answer, _ = ask(url + path, "127.1.0.1", body, token)
            check(answer.status in status, f"{name}: a whole body of another: {answer.status} {answer.detail}")
            refused = [said for said in map(answer_of, peers) if said.status == 503]
            check(refused, f"{name}: nobody was told that there is no memory")
            check(all("retry-after: 1" in said.head for said in refused), f"{name}: not told when to try again")
            close_all(peers)


def send_quietly(peer, data):
    with contextlib.suppress(OSError):
        peer.sendall(data)


def answer_of(peer):
    """What has come so far."""
    peer.setblocking(False)
    try:
        return Said(peer.recv(65536))
    except OSError:
        return Said(b"")


def slow_readers_are_cut_off(world):
    world.settings = {"http.write_timeout_ms": 500, "router.write_timeout_ms": 500}
    world.start_daemon()
    for name, (url, _) in both_ports(world).items():
        request = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % ("/" + url.rsplit("/", 1)[1]).encode()
        peer = connect(url, receive_buffer=4096)
        peer.settimeout(120)
        try:
            while True:  # until it is cut off for taking none of the answers
                peer.sendall(request * 1_000)
        except ConnectionError:
            pass
        except TimeoutError:
            check(False, f"{name}: a client that does not read was not cut off")
        check(call(url).status == 200, f"{name} does not serve any more")
        peer.close()


def answers_to_head_have_no_body(world):
    world.start_daemon()
    for name, (url, _) in both_ports(world).items():
        path = ("/" + url.rsplit("/", 1)[1]).encode()
        peer = Peer(url)
        peer.send(b"HEAD %s HTTP/1.1\r\nHost: a\r\n\r\nHEAD /none HTTP/1.1\r\nHost: a\r\n\r\n"
                  b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (path, path))
        parts = peer.read_all().split(b"\r\n\r\n")
        check(len(parts) == 4 and all(part.startswith(b"HTTP/1.1 ") for part in parts[:3]) and parts[3],
              f"{name}: {parts}")
        peer.close()


class Detour(threading.Thread):
    """Passes connections on to a port that can be changed; counts them."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.count, self.held = port, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def lead_to(self, port):
        """From here on, and nobody keeps a connection to where it led before."""
        self.port = port
        for held in self.held:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def run(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            self.count += 1
            far = socket.create_connection(("127.0.0.1", self.port))
            self.held += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=pass_on, args=(source, target), daemon=True).start()


def pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def a_router_never_becomes_its_own_engine(world):
    world.start_daemon()
    engine = world.start_engine("f32", "f32")
    world.api("POST", "/v1/kernels", {"name": "tinylm-f32", "engine": "tinylm", "dtype": "f32"}, who="promoter",
              expect=201)
    detour = Detour(world.router_port)
    register = lambda url: world.api("POST", "/v1/engines", {"name": "circle", "url": url, "kernel": "tinylm-f32",
                                     "checkpoint": {"uri": MODEL_DIR}}, who="promoter")
    port = world.router_port
    for url in (world.router, f"http://localhost:{port}", f"http://LOCALHOST:{port}", detour.url):
        answer = register(url)
        check(answer.get("code") == "invalid_argument" and "router" in answer["detail"], f"{url}: {str(answer)[:300]}")
    # An engine that leads to the router later: the second pass is answered, and there is no third.
    detour.lead_to(int(engine.url.rsplit(":", 1)[1]))
    register(detour.url)
    world.api("POST", "/v1/models", {"name": "tinylm", "engine": "circle", "reason": "first version"}, who="operator",
              expect=201)
    wait_for("the route to the engine", lambda: world.complete().status == 200)
    pid = router_pid(world.folder)
    before, held = detour.count, descriptors(pid)
    detour.lead_to(port)
    answer = world.complete()
    check(answer.status == 508 and answer.json()["error"]["code"] == "loop", f"{answer.status} {answer.body[:300]}")
    check(detour.count - before < 5, f"{detour.count - before} connections for one request")
    check(descriptors(pid) < held + 20, f"{descriptors(pid)} descriptors, {held} before")
    check(call(world.router + "/health").status == 200, "the router does not serve any more")
    detour.listener.close()


TESTS = [
    the_oldest_idle_connection_of_an_address_gives_way,
    a_process_without_descriptors_closes_idle_connections_and_goes_on,
    unfinished_bodies_share_one_bound_of_memory,
    slow_readers_are_cut_off,
    answers_to_head_have_no_body,
    a_router_never_becomes_its_own_engine,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
