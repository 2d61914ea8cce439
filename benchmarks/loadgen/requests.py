"""A client of HTTP that costs little beside what it asks: requests are encoded beforehand, answers hardly looked at.

``http.client`` takes as long for a request as a broker does. Here it is one write, and reads until the answer is whole.
"""

import re
import socket
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple, Self

LOGIN = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
"""As whom all requests come."""

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"


class Answer(NamedTuple):
    """What came back."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """A header field; empty if there is none."""
        found = re.search(rf"\r\n{name}: *([^\r]*)".encode(), self.head, re.IGNORECASE)
        return found[1].decode() if found else ""


def encode_request(method: str, path: str, body: str = "", headers: Mapping[str, str] = LOGIN) -> bytes:
    """A request as it is sent."""
    octets = body.encode()
    fields = {"Host": "127.0.0.1", **headers, "Content-Length": str(len(octets))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + octets


class Requester:
    """One connection to a server on loopback, which is kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.socket()
        self.connect()

    def connect(self) -> None:
        """Connect, or connect anew."""
        self._socket.close()
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def receive(self) -> Answer:
        """Wait for an answer; one with neither a length nor a body is taken for whole with its head."""
        data = b""
        while _HEAD_END not in data:
            data += self._read()
        head, _, body = data.partition(_HEAD_END)
        found = _LENGTH.search(head)
        while found is not None and len(body) < int(found[1]):
            body += self._read()
        return Answer(int(head[9:12]), head, body)

    def _read(self) -> bytes:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has closed the connection in the middle of an answer")
        return data

    def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            RuntimeError: it is no success.
        """
        self.send(request)
        answer = self.receive()
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{request[:80]!r} was answered by {answer.status}: {answer.body[:200]!r}")
        if answer.header("connection").lower() == "close":  # as RabbitMQ does after a thousand requests
            self.connect()
        return answer

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
