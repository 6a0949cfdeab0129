"""Many connections at once, from any loopback address, and healthy requests beside them."""
import contextlib
import json
import os
import resource
import socket
import time

from harness import check
from wire import Said

RESERVED = 300  # descriptors of this process for all else


def raise_descriptor_limit():
    """How many connections this process can hold."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - RESERVED


def attackers(count):
    """Loopback addresses that no healthy client of these tests uses."""
    return [f"127.0.{1 + i // 250}.{1 + i % 250}" for i in range(count)]


def connect(url, source="127.0.0.1", timeout=120, receive_buffer=0):
    host, port = url.split("//", 1)[1].split("/", 1)[0].rsplit(":", 1)
    peer = socket.socket()
    if receive_buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.settimeout(timeout)
    peer.bind((source, 0))
    peer.connect((host, int(port)))
    return peer


def flood(url, count, sources, first=b"", receive_buffer=0):
    """`count` connections spread over `sources`, each with the bytes `first` sent on it as far as they go."""
    peers = []
    for i in range(count):
        peer = connect(url, sources[i % len(sources)], receive_buffer=receive_buffer)
        with contextlib.suppress(OSError):
            peer.setblocking(False)
            peer.send(first)
        peers.append(peer)
    return peers


def close_all(peers):
    for peer in peers:
        peer.close()


def ended(peer, seconds=120):
    """Whether the other side ends the connection in that time."""
    peer.settimeout(seconds)
    try:
        while peer.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def ask(url, source, body=None, headers=b""):
    """One request on a connection of its own; the answer, and milliseconds from connecting to its end."""
    path = "/" + url.split("//", 1)[1].partition("/")[2]
    text = json.dumps(body).encode() if body is not None else b""
    began = time.monotonic()
    peer = connect(url, source)
    try:
        peer.sendall(b"%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s"
                     % (b"POST" if body is not None else b"GET", path.encode(), headers, len(text), text))
        received = b""
        while data := peer.recv(65536):
            received += data
    finally:
        peer.close()
    return Said(received), (time.monotonic() - began) * 1000


class Healthy:
    """Requests of users who have nothing to do with a flood, each from an address and on a connection of its own."""

    def __init__(self):
        self.took = []

    def ask(self, url, count, body=None):
        for _ in range(count):
            source = f"127.1.{len(self.took) // 250 % 250}.{1 + len(self.took) % 250}"
            answer, took = ask(url, source, body)
            self.took.append(took)
            check(answer.status == 200, f"healthy request {len(self.took)} to {url}: {answer.status} {answer.detail}")

    def p99(self):
        return sorted(self.took)[int(len(self.took) * 0.99)]


def router_pid(folder):
    """The router process of a daemon whose data lie in `folder`."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            if len(words) > 1 and words[1] == b"router" and any(w.startswith(folder.encode()) for w in words):
                return int(pid)
    raise AssertionError(f"no router of {folder} is running")


def memory_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as handle:
        return int(handle.read().split()[1]) * resource.getpagesize()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))
