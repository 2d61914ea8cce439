"""What all doors look like: a way in, by which messages are published, and a way out, by which they are consumed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from doors.site import QUEUE, SINK, Site

T = TypeVar("T")

Said: TypeAlias = Mapping[str, object]
"""What is said of a message, by the names of ``docs/topics/doors.toml``; a header stands behind ``header: ``."""

HEADER = "header: "

Publish: TypeAlias = Callable[[Sequence[bytes], Said], Awaitable[None]]
"""Publishes messages of which the same is said, in their order; returns when the broker has them, if that is told."""


class Taken(NamedTuple):
    """A message as its consumer has it."""

    body: bytes
    read: Callable[[], Said]
    """Returns what is said of it."""
    accept: Callable[[], None]
    again: bool | None = None
    """Whether it may have been out with a consumer before; None if that is not told."""


class Consumed(Generic[T]):
    """Messages as they come: those of a client, each made into what all of them are here."""

    def __init__(self, source: AsyncIterator[T], make: Callable[[T], Taken]) -> None:
        self._source = source
        self._make = make

    async def take(self, count: int) -> list[Taken]:
        """Wait for so many messages."""
        return [self._make(await anext(self._source)) for _ in range(count)]


class WayIn:
    """A way to publish; made for each test."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def open(self) -> AbstractAsyncContextManager[Publish]:
        """Connect."""
        raise NotImplementedError


class WayOut:
    """A way to consume; made for each test."""

    settles: ClassVar[bool] = True
    """Whether a message is the queue's until its consumer has accepted it."""
    window: ClassVar[int] = 100
    """How many messages may be out with a consumer."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @asynccontextmanager
    async def open_queue(self) -> AsyncIterator[None]:
        """Have a queue for the messages, which is there until the block ends."""
        queue = await self.site.broker.declare_queue(QUEUE, durable=False)
        await self.site.broker.sink(SINK).bind(queue, "#")
        yield

    def open(self) -> AbstractAsyncContextManager[Consumed[Any]]:
        """Connect, and consume from that queue; the next one goes on where a consumer was killed."""
        raise NotImplementedError

    def kill(self) -> None:
        """Cut the consumer off: its sockets are gone, and nothing was said."""
        self.site.cut()
