"""A connection for RestMS in JSON, with no code of the broker's in it: neither hides what the other does wrong."""

import json
from typing import Any

import trio

from endpoints.toys.http_peer import HTTPPeer, Reply

DOMAIN = "/restms/domain/default"

_JSON = {"Content-Type": "application/restms+json", "Accept": "application/restms+json"}


class Ended(Exception):
    """The connection has ended, and the answer has not come."""


class Line:
    """A connection over a stream; one request at a time."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._peer = HTTPPeer(stream)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """Ask, and return the answer.

        Raises:
            Ended: None came.
        """
        fields = _JSON | {name.replace("_", "-"): value for name, value in headers.items()}
        reply = await self._peer.ask(method, path_of(path), body, fields)
        if not reply.status:
            raise Ended
        return reply

    def encode(self, method: str, path: str, **headers: str) -> bytes:
        """Return the bytes of a request without a body."""
        return self._peer.encode(method, path_of(path), b"", _JSON | headers)

    async def post(self, path: str, **children: object) -> Reply:
        """Post a document."""
        return await self.ask("POST", path, json.dumps({"restms": children}).encode())

    async def make(self, path: str, **children: object) -> str:
        """Post a document, and return where that is which it has made, or found."""
        reply = await self.post(path, **children)
        assert reply.status in (200, 201), reply
        return path_of(reply.headers["location"])

    async def look(self, path: str) -> dict[str, Any]:
        """Return a document that is there."""
        reply = await self.ask("GET", path)
        assert reply.status == 200, reply
        return read(reply)


def read(reply: Reply) -> dict[str, Any]:
    """Return the root of a document."""
    found: dict[str, Any] = json.loads(reply.body)["restms"]
    return found


def path_of(uri: str) -> str:
    """Return a URI without scheme and host, as this client names it."""
    return uri.removeprefix("http://toy")
