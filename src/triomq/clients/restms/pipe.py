"""A pipe: what comes to it is followed as server-sent events, and what was accepted is deleted behind it.

    events ──▶ _waiting ──▶ async for ──▶ RestMSDelivery ── accept() ──▶ _accepted ──▶ DELETE of the newest

One task follows the events and begins anew when the connection breaks, behind what was handed out last; one deletes.
A connection has broken too when neither an event nor a comment has come for the URL's ``silence``.
An ondemand pipe, and one of a server without events, is polled in their place, while a task waits for a message: so a
worker that is busy takes none. The broker sends what nobody has accepted up to a window of its own, so what waits here
is bounded by that; more than ``_MOST`` and the socket is not read.

A pipe that is gone, since the broker was restarted and has no store, is made again with its joins, if the connection
was opened with ``reconnect``.
"""

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Self

import trio

from triomq.clients.restms.delivery import RestMSDelivery
from triomq.clients.restms.feed import RestMSFeed, location_of
from triomq.clients.restms.http_line import HTTPLine, HTTPReply
from triomq.clients.restms.requests import checked, document_of, path_of
from triomq.errors import Disconnected, NotFound, RemoteProtocolError, TriomqError
from triomq.protocols import BasicProperties
from triomq.protocols.restms import (
    Document,
    EventReader,
    HeaderElement,
    JoinElement,
    Links,
    MessageElement,
    PipeElement,
    Problem,
    basic_properties,
    content_body,
)

if TYPE_CHECKING:
    from triomq.clients.restms.connection import RestMSConnection

_MOST: Final = 512
"""Messages that wait to be taken before no more are read: twice the window that a broker has by default."""


class _Joined(NamedTuple):
    """A join that was made."""

    feed: RestMSFeed
    address: str
    headers: tuple[HeaderElement, ...]


class RestMSPipe:
    """What messages are read from; made by ``RestMSConnection``.

    Args:
        connection: Whose it is.
        definition: What was asked for.
    """

    def __init__(self, connection: "RestMSConnection", definition: PipeElement) -> None:
        self._connection = connection
        self._requests = connection.requests
        self._definition = definition
        self.uri = ""
        self.name = ""
        """Where answers can be sent, as the address at the feed ``default`` or the key at AMQP's default exchange."""
        self._joined: dict[str, _Joined] = {}
        self._waiting: deque[RestMSDelivery] = deque()
        self._changed = trio.Event()
        self._error: TriomqError | None = None
        self._last = ""  # the hash of what was handed out last
        self._number = 0
        self._accepted: RestMSDelivery | None = None
        self._deleted = 0  # the number of what was deleted last
        self._settling = trio.Event()
        self._settled = trio.Event()
        self._scope = trio.CancelScope()
        self._is_ours = True
        self._polls = definition.type == "ondemand"  # which takes a message for a GET alone
        self._wanted = 0  # how many tasks wait for a message
        self._lost_at: float | None = None  # when the broker was lost, while it is

    def __repr__(self) -> str:
        return f"<RestMSPipe {self.name}>"

    # What it is

    async def make(self) -> None:
        """Have the broker make it."""
        target = self._connection.domain_path
        reply = await self._requests.ask("POST", target, Document(pipes=(self._definition,)), again=False)
        (pipe,) = document_of(reply).pipes
        self.uri, self.name = location_of(reply.headers), pipe.name or ""

    async def find(self, name: str) -> None:
        """Take one that is there."""
        self._is_ours = False
        self.uri = Links("").resource(name)
        (pipe,) = document_of(await self._requests.ask("GET", self.uri)).pipes
        self.name = pipe.name or ""
        self._polls = pipe.type == "ondemand"

    async def join(self, feed: RestMSFeed, address: str = "*", headers: Mapping[str, str] | None = None) -> None:
        """Have a feed route messages to it; one that is there already, alike, stays as it is.

        Args:
            feed: Which one.
            address: What addresses of messages are compared with, as the feed's type does; some types have none.
            headers: Which headers messages must have, at a feed of type ``headers``.

        Raises:
            NotFound: The feed is not there.
            AccessRefused: The user may not; or it is the default feed.
            Refused: The broker refuses it otherwise.
        """
        await self._join(_Joined(feed, address, tuple(HeaderElement(*each) for each in (headers or {}).items())))

    async def _join(self, joined: _Joined) -> None:
        element = JoinElement(feed=path_of(joined.feed.uri), address=joined.address, headers=joined.headers)
        reply = await self._requests.ask("POST", self.uri, Document(joins=(element,)))
        self._joined[location_of(reply.headers)] = joined

    async def leave(self, feed: RestMSFeed) -> None:
        """Have a feed route nothing more to it; what has come stays."""
        for uri, joined in list(self._joined.items()):
            if joined.feed is feed:
                del self._joined[uri]
                await self._requests.ask("DELETE", uri)

    async def delete(self) -> None:
        """Delete it with all that is in it."""
        await self._requests.ask("DELETE", self.uri)

    # Reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RestMSDelivery:
        """Return the next message; wait until there is one.

        Raises:
            NotFound: The pipe is gone.
            Disconnected: The connection broke, and is not to come back.
        """
        self._connection.follow(self)
        while not self._waiting:
            if self._error is not None:
                raise self._error
            changed = self._changed
            self._wanted += 1
            try:
                if self._polls:
                    self._wake()
                    changed = self._changed
                await changed.wait()
            finally:
                self._wanted -= 1
        delivery = self._waiting.popleft()
        self._last = hash_of(delivery.uri)
        if len(self._waiting) == _MOST - 1:
            self._wake()
        return delivery

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def run(self) -> None:
        """Follow what comes, and delete what is accepted, until it cannot go on; the connection's nursery calls it."""
        with self._scope:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._delete_accepted)
                    await self._follow()
            except* TriomqError as group:
                self._error = _first(group)
        self._wake()
        self._settled.set()

    async def _follow(self) -> None:
        failures = 0
        while True:
            begun = self._number
            try:
                while self._polls:
                    await self._poll()
                await self._read()
            except NotFound:
                if self._requests.policy is None or not self._is_ours:
                    raise
                await self._make_again()
            except Disconnected as error:
                if self._lost_at is None:
                    self._lost_at = trio.current_time()
                    self._requests.log(logging.WARNING, "pipe lost", pipe=self.name, reason=error)
                await self._requests.close_idle()  # which have ended with it
                failures = 0 if self._number > begun else failures
                if failures:
                    await self._requests.wait_again(failures - 1, error)
                failures += 1
                self._requests.count_retry()

    def _is_back(self) -> None:
        """Say that the broker is there again, if it was lost."""
        if self._lost_at is not None:
            seconds, self._lost_at = round(trio.current_time() - self._lost_at, 3), None
            self._requests.log(logging.INFO, "pipe is back", pipe=self.name, seconds=seconds)

    async def _poll(self) -> None:
        """Take one message as 2/RestMS has it, when it is wanted: the first that is new, or wait for it."""
        if self._waiting or not self._wanted:
            await self._changed.wait()
            return
        (pipe,) = document_of(await self._requests.ask("GET", self.uri)).pipes
        self._is_back()
        uris = [message.href or "" for message in pipe.messages]
        seen = [number for number, uri in enumerate(uris) if hash_of(uri) == self._last]
        uri = uris[seen[-1] + 1 if seen else 0]  # the asynclet, if there is no other
        try:
            reply = await self._requests.ask("GET", uri, waits=True)
        except NotFound:  # after a restart messages have other URIs; whether the pipe is there is asked next
            return
        if reply.status == 204:  # nothing has come; the broker is there
            return
        (message,) = document_of(reply).messages
        await self._take(message, uri)

    async def _read(self) -> None:
        """Follow the events of one connection until it ends; begin behind what was handed out last."""
        line = await self._requests.borrow()
        try:
            with self._requests.limit("no events"):
                head = await line.begin(path_of(self.uri), self._requests.follow_headers(self._last))
            if head.status == 200 and "event-stream" in head.headers.get("content-type", ""):
                await self._read_events(line)
            if head.status in (200, 501):  # another one's RestMS, which does not have our addition
                self._polls = True
            else:
                checked(HTTPReply(head.status, head.headers, (await line.piece()).data), of_get=True)
        finally:
            await self._requests.give_back(line)

    async def _read_events(self, line: HTTPLine) -> NoReturn:
        self._is_back()
        self._waiting.clear()
        reader = EventReader(self._last)
        while True:
            with self._requests.limit("neither an event nor a comment", waits=True):
                piece = await line.piece()
            messages = reader.receive(piece.data)
            if isinstance(messages, Problem):
                raise RemoteProtocolError(f"the broker's events cannot be read: {messages.text}")
            for message in messages:
                await self._take(message, message.href or "")
            if piece.ended:
                raise Disconnected(f"the broker has ended the events of pipe {self.name}")
            while len(self._waiting) >= _MOST:
                await self._changed.wait()

    async def _take(self, message: MessageElement, uri: str) -> None:
        content, properties = content_body(message), basic_properties(message)
        if isinstance(content, str):
            try:
                reply = await self._requests.ask("GET", content, headers={"Accept": "*/*"})
            except NotFound:  # it was deleted meanwhile, and its message with it
                return
            content = reply.body, None
        for found in (content, properties):
            if isinstance(found, Problem):
                raise RemoteProtocolError(f"a message of pipe {self.name} cannot be read: {found.text}")
        assert isinstance(properties, BasicProperties)
        self._number += 1
        self._waiting.append(
            RestMSDelivery(
                self._accept,
                number=self._number,
                uri=uri,
                address=message.address or "",
                properties=properties,
                body=content[0] if isinstance(content, tuple) else b"",
                redelivered=message.redelivered is not None,
            )
        )
        self._wake()

    async def _make_again(self) -> None:
        joined, self._joined = self._joined, {}
        self._last = ""
        await self.make()
        for each in joined.values():
            await self._connection.restore(each.feed)
            await self._join(each)

    # Accepting

    def _accept(self, delivery: RestMSDelivery) -> None:
        if self._accepted is None or delivery.number > self._accepted.number:
            self._accepted = delivery
            self._settling.set()

    async def flush(self) -> None:
        """Wait until the broker has deleted what was accepted so far.

        Raises:
            Disconnected: The connection broke, and is not to come back.
        """
        number = self._accepted.number if self._accepted is not None else 0
        while self._deleted < number:
            if self._error is not None:
                raise self._error
            await self._settled.wait()

    async def _delete_accepted(self) -> None:
        while True:
            await self._settling.wait()
            self._settling = trio.Event()
            newest = self._accepted
            assert newest is not None  # it was accepted
            # While one is on its way others are accepted: all of them go with the next.
            await self._requests.ask("DELETE", newest.uri)
            self._deleted = newest.number
            self._settled.set()
            self._settled = trio.Event()

    async def close(self) -> None:
        """Delete what was accepted."""
        if self._error is None:
            await self.flush()

    def stop(self) -> None:
        """Read no more."""
        self._scope.cancel()


def hash_of(uri: str) -> str:
    """Return the hash of a private resource."""
    return uri.rpartition("/")[2]


def _first(group: BaseExceptionGroup[TriomqError]) -> TriomqError:
    """Return what ended the pipe."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, TriomqError)  # the group was split by it
    return error
