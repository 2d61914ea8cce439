"""A client of an eMQP broker: requests with and without an answer, publications, subscriptions, schedules."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec
import trio

from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.link import EMQPLink
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, LocalProtocolError, NotFound, Refused
from triomq.protocols.emqp import (
    NO_EXTENSION,
    Acknowledged,
    Dispatched,
    Event,
    Extension,
    Headers,
    Opened,
    PeerLeaving,
    RefusalReceived,
    Replied,
    TopicPublished,
    Unknown,
    make_headers,
)

_INBOX: Final = 1000
"""Publications that wait in a subscription; a reader that is slower loses the oldest."""

_ERRORS: Final[Mapping[str, type[Refused]]] = {
    "forbidden": AccessRefused,
    "full": LimitExceeded,
    "alarm": LimitExceeded,
    "disk": LimitExceeded,
    "unknown": NotFound,
}


class NotAnswered(Refused):
    """A broker of the released software has handed the job to a worker, and brings no answer to anybody."""


class EMQPReply(msgspec.Struct, frozen=True):
    """The answer to a request.

    Args:
        message: As the worker wrote it, mostly ``{"value": …}``.
        extension: What a worker with our extensions says beside it, such as ``state``.
    """

    message: bytes
    extension: Extension


class _Pending:
    """A command that waits for ACK, and perhaps for an answer."""

    __slots__ = ("_done", "acked", "again", "error", "guarantee", "msgid", "reply", "wants_reply")

    def __init__(self, again: Callable[[], bytes], *, wants_reply: bool, guarantee: bool) -> None:
        self.again = again
        self.msgid = b""  # under which it was given last
        self.wants_reply = wants_reply
        self.guarantee = guarantee
        self.acked = False
        self.reply: EMQPReply | None = None
        self.error: Exception | None = None
        self._done = trio.Event()

    def finish(self, error: Exception | None = None) -> None:
        self.error = error
        self._done.set()

    async def wait(self) -> None:
        await self._done.wait()
        if self.error is not None:
            raise self.error


class EMQPSubscription:
    """What is published to a topic; made by ``EMQPConnection.subscribe``, ends with its block.

    Several tasks may iterate over it; each gets other publications.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.lost = 0
        """Publications that were dropped here, since nobody took them in time."""
        self._sender, self._receiver = trio.open_memory_channel[TopicPublished](_INBOX)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TopicPublished:
        return await self._receiver.receive()

    def put(self, event: TopicPublished) -> None:
        """Add a publication, in place of the oldest if there is no room."""
        while True:
            try:
                self._sender.send_nowait(event)
                return
            except trio.WouldBlock:
                self._receiver.receive_nowait()
                self.lost += 1


class EMQPConnection:
    """A client's conversation with a broker; made by ``open_emqp``, ends with its block.

    When the network or the broker was away it goes on by itself: what was not acknowledged is sent again, under its
    old id where the broker is the same, and subscriptions are made again.

    Args:
        connector: Where to, and as whom.
    """

    def __init__(self, connector: EMQPConnector) -> None:
        self._pending: dict[bytes, _Pending] = {}
        self._topics: dict[str, list[EMQPSubscription]] = {}
        self._broker_left = False  # and no other one has come
        self._link = EMQPLink(connector, "client", self._heard, outstanding=self._pending)

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect; raises as ``EMQPLink.start`` does."""
        await self._link.start(nursery)

    async def close(self) -> None:
        """Say goodbye; what still waits fails."""
        await self._link.close()
        self._fail_all(Disconnected("the connection is closed"))

    @property
    def has_extensions(self) -> bool:
        """Whether the broker knows our extensions, so that it acknowledges, refuses, and brings answers."""
        return self._link.engine.is_extended

    # Commands

    async def send(
        self,
        queue: str,
        message: bytes,
        *,
        guarantee: bool = False,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        """Send a job, and wait until the broker has it; with a broker without extensions it is only sent.

        Args:
            queue: The queue's name; one that nobody has declared is ``default``.
            message: What the worker gets; released ones want a call in JSON.
            guarantee: Whether it survives the loss of its worker and, in a durable queue, a restart of the broker.
            retry_count: How often it is tried again when it fails.
            job_timeout: Seconds that it may run; 0 is without limit.
            extension: What else a broker with extensions is told.

        Raises:
            AccessRefused: The user may not.
            LimitExceeded: A queue is full, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            LocalProtocolError: It cannot be sent.
        """
        headers = make_headers(guarantee=guarantee, retry_count=retry_count, timeout=job_timeout)
        await self._request(queue, message, headers, extension)

    async def request(
        self,
        queue: str,
        message: bytes,
        *,
        guarantee: bool = False,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> EMQPReply:
        """Send a job, and wait for its answer; arguments as for ``send``, and how long to wait is up to the caller.

        Raises:
            NotAnswered: The broker is a released one, which brings no answers.
            Disconnected: The broker was restarted, and a job without a guarantee is lost with it.
            Refused: As ``send`` does.
            LocalProtocolError: It cannot be sent.
        """
        headers = make_headers(reply_requested=True, guarantee=guarantee, retry_count=retry_count, timeout=job_timeout)
        reply = await self._request(queue, message, headers, extension)
        assert reply is not None
        return reply

    async def _request(self, queue: str, message: bytes, headers: Headers, extension: Extension) -> EMQPReply | None:
        def command() -> bytes:
            return self._link.engine.request(queue, message, headers, extension)

        return await self._do(command, wants_reply=headers.reply_requested, guarantee=headers.guarantee)

    async def publish(self, topic: str, message: bytes) -> None:
        """Publish a message to all who want its topic; raises as ``send`` does."""
        await self._do(lambda: self._link.engine.publish(topic, message))

    async def schedule(
        self,
        queue: str,
        message: bytes,
        *,
        interval: float = 0.0,
        cron: str = "",
        haste: bool = True,
        run_count: int = 0,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        """Have a job run again and again; a second schedule of the same call replaces the first.

        Args:
            queue: Where the jobs go.
            message: The call.
            interval: Whole seconds between two of them; or
            cron: five fields.
            haste: Whether the first one runs at once, and not when the interval has passed.
            run_count: How often it runs; 0 is without end.
            extension: As for ``send``; with ``timezone`` for ``cron``.

        Raises:
            Refused: As ``send`` does.
            LocalProtocolError: It has no times.
        """
        headers = make_headers(guarantee=True, nohaste=not haste, run_count=run_count)
        await self._do(
            lambda: self._link.engine.schedule(
                queue, message, headers, interval=interval, cron=cron, extension=extension
            )
        )

    async def unschedule(self, message: bytes) -> None:
        """End the schedule of a call; raises as ``schedule`` does."""
        await self._do(lambda: self._link.engine.schedule("", message, ends=True))

    @asynccontextmanager
    async def subscribe(self, topic: str) -> AsyncIterator[EMQPSubscription]:
        """Take what is published to a topic; ``*`` stands for one word between dots, ``#`` for any number of them.

        Raises:
            LocalProtocolError: The broker has no extensions: subscribe with a SUB socket there.
            Refused: As ``send`` does.
        """
        subscription = EMQPSubscription(topic)
        await self._do(lambda: self._link.engine.subscribe(topic))
        self._topics.setdefault(topic, []).append(subscription)
        try:
            yield subscription
        finally:
            self._topics[topic].remove(subscription)
            if not self._topics[topic]:
                del self._topics[topic]
                if self._link.engine.state == "open":
                    self._link.engine.unsubscribe(topic)
                    self._link.flush()

    async def _do(
        self, command: Callable[[], bytes], *, wants_reply: bool = False, guarantee: bool = False
    ) -> EMQPReply | None:
        """Give a command, and wait for what the broker makes of it."""
        await self._link.wait_room()
        pending = _Pending(command, wants_reply=wants_reply, guarantee=guarantee)
        self._give(pending)
        self._link.flush()
        if not self.has_extensions and not wants_reply:
            await self._link.wait_room()
            self._forget(pending)
            return None
        try:
            await pending.wait()
        finally:
            self._forget(pending)
        return pending.reply

    def _give(self, pending: _Pending) -> None:
        pending.msgid = pending.again()
        self._pending[pending.msgid] = pending

    def _forget(self, pending: _Pending) -> None:
        self._pending.pop(pending.msgid, None)

    # What comes

    def _heard(self, event: Event) -> None:
        match event:
            case Replied(request=request):
                self._finish(request, reply=EMQPReply(event.message, event.extension))
            case Acknowledged(request=request):
                self._acknowledged(request)
            case RefusalReceived(request=request, code=code, text=text):
                self._finish(request, error=_ERRORS.get(code, Refused)(text))
            case Dispatched(request=request):
                self._finish(request, error=NotAnswered("a worker has the job; this broker brings no answers"))
            case TopicPublished():
                self._published(event)
            case Opened():
                self._opened()
            case Unknown():
                self._forgotten()
            case PeerLeaving():
                self._broker_left = True
            case _:
                pass

    def _finish(self, request: bytes, *, reply: EMQPReply | None = None, error: Exception | None = None) -> None:
        pending = self._pending.get(request)
        if pending is not None:
            pending.reply = reply
            pending.finish(error)

    def _acknowledged(self, request: bytes) -> None:
        pending = self._pending.get(request)
        if pending is not None:
            pending.acked = True
            if not pending.wants_reply:
                pending.finish()

    def _published(self, event: TopicPublished) -> None:
        for topic, subscriptions in self._topics.items():
            if _matches(topic, event.topic):
                for subscription in subscriptions:
                    subscription.put(event)

    def _opened(self) -> None:
        """Do again what the broker may not have heard, or has forgotten."""
        if self._broker_left:
            self._broker_left = False
            self._forgotten()
        if self.has_extensions:
            for topic in self._topics:
                self._link.engine.subscribe(topic)
        again = [pending for pending in self._pending.values() if not pending.acked]
        for pending in again:
            self._forget(pending)
        for pending in again:
            try:
                self._give(pending)
            except LocalProtocolError as error:
                pending.finish(error)

    def _forgotten(self) -> None:
        """Fail what only the memory of the last broker had."""
        for pending in list(self._pending.values()):
            if pending.acked and not pending.guarantee:
                pending.finish(Disconnected("the broker was restarted, and the job had no guarantee"))

    def _fail_all(self, error: Exception) -> None:
        for pending in list(self._pending.values()):
            pending.finish(error)


def _matches(pattern: str, topic: str) -> bool:
    """Return whether a topic is one that a subscription is about; several may share what comes."""
    return _match(pattern.split("."), topic.split("."))


def _match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_match(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _match(pattern[1:], words[1:])
