"""One connection to a server, on which one request after the other is asked."""

import ssl
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import trio

from triomq.clients.amqp.connecting import open_stream, reason_of, shake_hands
from triomq.clients.restms.url import RestMSUrl
from triomq.errors import Disconnected
from triomq.process import refuse_in_forks
from triomq.protocols.http1 import ClientEvent, EndOfStream, Failed, HTTPClientEngine, ResponseBody, ResponseHead

_READ = 64 * 1024
"""Bytes of one read: as much as a socket holds by default."""


class HTTPReply(NamedTuple):
    """A whole answer.

    Args:
        status: Its status code.
        headers: Its fields, by lower-case names.
        body: All of its body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class HTTPLine:
    """Made by ``dial``, and used by one task at a time; whoever cancels a request closes it.

    Args:
        stream: Connected, and ours from now on.
        place: Where to, for texts.
    """

    def __init__(self, stream: trio.abc.Stream, place: str) -> None:
        refuse_in_forks(self, "the connection of a client")
        self._stream = stream
        self._place = place
        self._engine = HTTPClientEngine()
        self._events: deque[ClientEvent] = deque()
        self.idle_since = 0.0
        """When it was given back, on Trio's clock."""

    @property
    def is_usable(self) -> bool:
        """Whether the server takes a further request on it."""
        return not self._engine.outbox.finished and not self._engine.unanswered

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HTTPReply:
        """Send a request, and wait for all of its answer.

        Raises:
            Disconnected: The connection broke; whether the request was done is not known.
        """
        self._engine.send_request(method, target, headers, body)
        await self._send()
        head = await self._next()
        assert isinstance(head, ResponseHead)  # which precedes a body
        whole = await self._next()
        assert isinstance(whole, ResponseBody)  # since it was not asked for in pieces
        return HTTPReply(head.status, head.headers, whole.data)

    async def begin(self, target: str, headers: Mapping[str, str]) -> ResponseHead:
        """Send a GET whose answer is read piece by piece; raises as ``ask`` does."""
        self._engine.send_request("GET", target, headers, most=1 << 62, pieces=True)
        await self._send()
        head = await self._next()
        assert isinstance(head, ResponseHead)
        return head

    async def piece(self) -> ResponseBody:
        """Return the next piece of the answer's body; raises as ``ask`` does."""
        piece = await self._next()
        assert isinstance(piece, ResponseBody)
        return piece

    async def _send(self) -> None:
        try:
            for data in self._engine.data_to_send():
                await self._stream.send_all(data)
        except trio.BrokenResourceError:
            pass  # a server that refuses a large body may have answered, and closed

    async def _next(self) -> ResponseHead | ResponseBody:
        while not self._events:
            try:
                self._engine.receive_data(bytes(await self._stream.receive_some(_READ)))
            except trio.BrokenResourceError as error:
                raise self._broken(str(error.__cause__ or "it broke")) from None
            self._events += self._engine.events()
        event = self._events.popleft()
        if isinstance(event, EndOfStream):
            raise self._broken("it ended before its answer")
        if isinstance(event, Failed):
            raise self._broken(event.text)
        return event

    def _broken(self, reason: str) -> Disconnected:
        return Disconnected(f"the connection to {self._place} is lost: {reason}; what was asked for may be done or not")

    async def close(self) -> None:
        """Close it at once, whatever is on the way."""
        await trio.aclose_forcefully(self._stream)


async def dial(url: RestMSUrl, ssl_context: ssl.SSLContext | None) -> HTTPLine:
    """Connect.

    Raises:
        Disconnected: Nobody listens there, or their certificate is not to be trusted.
    """
    with trio.move_on_after(url.timeout):
        try:
            stream = await open_stream(url.path, url.host, url.port)
        except OSError as error:
            text = f"no broker can be reached at {url.place}: {reason_of(error)}; see whether it runs there"
            raise Disconnected(text) from None
        return HTTPLine(
            await shake_hands(stream, ssl_context, url.host, url.place) if url.tls else stream,
            url.place,
        )
    raise Disconnected(f"no connection to {url.place} within {url.timeout:g} s; see whether it is busy")
