"""Requests byte by byte, for what no well-behaved client sends."""
import contextlib
import json
import re
import socket
import time

from harness import check


class Peer:
    """One connection; reads answers as they come."""

    def __init__(self, url, timeout=120):
        host, port = url.split("//", 1)[1].split("/", 1)[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.received = b""

    def send(self, data):
        """False when the other side does not listen any more."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def read_all(self):
        """Everything until the other side closes."""
        with contextlib.suppress(ConnectionResetError):
            while True:
                data = self.socket.recv(65536)
                if not data:
                    break
                self.received += data
        return self.received

    def closed_within(self, seconds):
        """Whether the other side ends the connection in that time; what it says is kept."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return False
            except OSError:
                return True
            if not data:
                return True
            self.received += data
        return False

    def close(self):
        self.socket.close()


STATUS_LINE = re.compile(rb"HTTP/1\.1 \d{3} ")


class Said:
    """The answers in the bytes of one connection."""

    def __init__(self, received):
        self.count = len(STATUS_LINE.findall(received))
        head, _, body = received.partition(b"\r\n\r\n")
        first = head.split(b"\r\n")[0].split(b" ")
        self.status = int(first[1]) if len(first) > 1 else 0
        self.head = head.decode("latin-1").lower()
        text = STATUS_LINE.split(body)[0].decode("utf-8", "replace")
        try:
            self.body = json.loads(text)
        except ValueError:
            self.body = {"detail": text}
        # The router answers as engines do: {"error": {"code", "message"}}.
        error = self.body.get("error") if isinstance(self.body, dict) else None
        self.code = (error or self.body).get("code")
        self.detail = (error or {}).get("message") or self.body.get("detail", "")


def said(url, data, timeout=120):
    peer = Peer(url, timeout)
    try:
        peer.send(data)
        return Said(peer.read_all())
    finally:
        peer.close()


def refused_and_closed(url, name, data, status, code, words=""):
    """The request is answered with `status` and `code`, and nothing that comes behind it is answered."""
    answer = said(url, data + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    check(answer.status == status and answer.code == code,
          f"{name}: {answer.status} {answer.code}, expected {status} {code}: {answer.detail}")
    check(answer.count == 1, f"{name}: {answer.count} answers: what came behind it was read as a request")
    check("connection: close" in answer.head, f"{name}: the answer does not say that the connection closes")
    check(words.lower() in answer.detail.lower(), f"{name}: {answer.detail!r} does not say {words!r}")


# What two parsers could read in two ways: name, request, and a word of the explanation.
def smuggled(path=b"/v1/tokens", chunked_is_known=False):
    line = b"POST " + path + b" HTTP/1.1\r\n"
    host = b"Host: a\r\n"
    tail = b"\r\n0\r\n\r\n"
    cases = {
        "two hosts": (line + host + b"Host: b\r\n\r\n", "host"),
        "no host": (line + b"Content-Length: 0\r\n\r\n", "host"),
        "two lengths": (line + host + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "content-length"),
        "the same length twice": (line + host + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
                                  "content-length"),
        "a list of lengths": (line + host + b"Content-Length: 5, 5\r\n\r\nhello", "content-length"),
        "a signed length": (line + host + b"Content-Length: +5\r\n\r\nhello", "content-length"),
        "a hexadecimal length": (line + host + b"Content-Length: 0x5\r\n\r\nhello", "content-length"),
        "an empty length": (line + host + b"Content-Length: \r\n\r\n", "content-length"),
        "a negative length": (line + host + b"Content-Length: -1\r\n\r\n", "content-length"),
        "a huge length": (line + host + b"Content-Length: 99999999999999999999\r\n\r\n", "content-length"),
        "chunked and a length": (line + host + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n" + tail,
                                 "transfer-encoding"),
        "chunked twice": (line + host + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + tail,
                          "transfer-encoding"),
        "an obscured coding": (line + host + b"Transfer-Encoding: xchunked\r\n" + tail, "transfer-encoding"),
        "two codings": (line + host + b"Transfer-Encoding: identity, chunked\r\n" + tail, "transfer-encoding"),
        "a blank before the colon": (line + host + b"Transfer-Encoding : chunked\r\n" + tail, ""),
        "a folded header": (line + host + b"X-A: b\r\n c\r\n\r\n", ""),
        "a folded first header": (line + b" Host: a\r\n\r\n", ""),
        "a tab that folds": (line + host + b"X-A: b\r\n\tTransfer-Encoding: chunked\r\n\r\n", ""),
        "the absolute form": (b"GET http://a/healthz HTTP/1.1\r\n" + host + b"\r\n", ""),
        "the authority form": (b"CONNECT a:80 HTTP/1.1\r\n" + host + b"\r\n", ""),
        "the asterisk form": (b"OPTIONS * HTTP/1.1\r\n" + host + b"\r\n", ""),
        "bare line feeds": (b"GET / HTTP/1.1\nHost: a\n\n", ""),
        "one bare line feed": (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", ""),
        "a bare carriage return": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", ""),
        "NUL in a value": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", ""),
        "NUL in a name": (b"GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n", ""),
        "NUL in the target": (b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        "a blank in the target": (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        "another version": (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", ""),
        "no version": (b"GET /\r\nHost: a\r\n\r\n", ""),
        "a coding with an underscore": (line + host + b"Transfer_Encoding: chunked\r\n" + tail, "transfer-encoding"),
        "a length with an underscore": (line + host + b"Content_Length: 5\r\n\r\nhello", "content-length"),
        "a host with an underscore": (line + host + b"Host_: b\r\n\r\n", "host"),
        "a coding with a dot": (line + host + b"Transfer.Encoding: chunked\r\n" + tail, "transfer-encoding"),
        "a header without a name": (line + host + b": b\r\n\r\n", ""),
        "a header without a colon": (line + host + b"chunked\r\n\r\n", ""),
    }
    if chunked_is_known:
        chunks = line + host + b"Transfer-Encoding: chunked\r\n\r\n"
        cases |= {
            "a chunk without a size": (chunks + b"\r\nhello\r\n0\r\n\r\n", "chunk"),
            "a chunk of a negative size": (chunks + b"-1\r\nhello\r\n0\r\n\r\n", "chunk"),
            "a chunk of a huge size": (chunks + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "chunk"),
            "a chunk with 0x": (chunks + b"0x5\r\nhello\r\n0\r\n\r\n", "chunk"),
            "a chunk longer than its size": (chunks + b"3\r\nhello\r\n0\r\n\r\n", "chunk"),
            "chunk sizes ended by bare line feeds": (chunks + b"5\nhello\n0\n\n", "chunk"),
        }
    else:
        cases["chunked"] = (line + host + b"Transfer-Encoding: chunked\r\n" + tail, "transfer-encoding")
    return cases
