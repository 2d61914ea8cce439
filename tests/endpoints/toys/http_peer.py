"""The other side of the HTTP toy: one connection, over any stream."""

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

import h11
import trio


class Reply(NamedTuple):
    """An answer; the status is 0 if the connection has ended without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes


ENDED = Reply(0, {}, b"")


class HTTPPeer:
    """One connection to the toy, as a user whose password is its name."""

    def __init__(self, stream: trio.abc.Stream, user: str = "guest") -> None:
        self.stream = stream
        self._basic = "Basic " + b64encode(f"{user}:{user}".encode()).decode()
        self._rest = b""

    def encode(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
        """Return a request's bytes."""
        fields = {"Host": "toy", "Authorization": self._basic, "Content-Length": str(len(body)), **(headers or {})}
        writer = h11.Connection(h11.CLIENT)
        head = writer.send(h11.Request(method=method, target=path, headers=list(fields.items())))
        assert head is not None
        return head + body

    async def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request, and return its answer."""
        try:
            await self.stream.send_all(self.encode(method, path, body, headers))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return ENDED
        return await self.reply()

    async def reply(self) -> Reply:
        """Return the answer to a request that was sent."""
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method="GET", target="/", headers=[("Host", "toy")]))
        reader.send(h11.EndOfMessage())
        if self._rest:
            reader.receive_data(self._rest)
        head, body = None, b""
        try:
            while not isinstance(event := reader.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
                if event is h11.NEED_DATA:
                    reader.receive_data(await self._receive())
                elif isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
        except h11.RemoteProtocolError:
            return ENDED
        self._rest = bytes(reader.trailing_data[0])
        if head is None:
            return ENDED
        return Reply(head.status_code, {name.decode(): value.decode() for name, value in head.headers}, body)

    async def _receive(self) -> bytes:
        try:
            return bytes(await self.stream.receive_some(65536))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""
