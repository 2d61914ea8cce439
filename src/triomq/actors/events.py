"""Events of actors, as a stream of small Structs: starts, exits, restarts, dead letters, full mailboxes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

import msgspec
import trio

if TYPE_CHECKING:
    from triomq.actors.deadletters import DeadLetter
    from triomq.actors.ref import Ref

T = TypeVar("T")

SUBSCRIPTION_LIMIT: Final = 1_000
"""Events buffered for a slow follower; older ones are dropped and counted, since no follower may slow actors down."""


class Event(msgspec.Struct, frozen=True):
    """Base of everything that the event stream carries."""

    ref: Ref


class Started(Event, frozen=True):
    """The first incarnation has finished its ``on_start``."""


class Exited(Event, frozen=True):
    """An incarnation has ended."""

    epoch: int
    error: BaseException | None
    """The error that it crashed with, or ``None`` when it ended as it should."""


class Restarted(Event, frozen=True):
    """A later incarnation has finished its ``on_start``."""

    epoch: int


class DeadLettered(Event, frozen=True):
    """A message went to the dead letters."""

    letter: DeadLetter


class MailboxOverflowed(Event, frozen=True):
    """A mailbox has reached its limit; published once until there is room again."""


class EventSubscription(Generic[T]):
    """One follower's view of a stream, from the moment it was asked for until it is closed.

    Follow it with ``async for``; leaving ``with stream.subscribe() as events:`` closes it.
    """

    def __init__(self, stream: EventStream[T], limit: int) -> None:
        self._stream = stream
        self._items: deque[T] = deque(maxlen=limit)
        self._news: trio.Event | None = None  # created by a follower that waits
        self._closed = False
        self.dropped = 0
        """How many were lost because this follower was slow."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop following; iterating ends after the items that are buffered."""
        self._closed = True
        self._stream._followers.pop(self, None)
        self._wake()

    def get_nowait(self) -> list[T]:
        """Take all buffered items, perhaps none."""
        taken = list(self._items)
        self._items.clear()
        return taken

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        await trio.lowlevel.checkpoint()
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._news = trio.Event()
            await self._news.wait()
        return self._items.popleft()

    def _offer(self, item: T) -> None:
        if len(self._items) == self._items.maxlen:
            self.dropped += 1
        self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()


class EventStream(Generic[T]):
    """A stream of items for any number of followers; costs nothing while there are none."""

    def __init__(self) -> None:
        self._followers: dict[EventSubscription[T], None] = {}

    @property
    def is_followed(self) -> bool:
        """Whether there is a follower, so that an item is worth creating."""
        return bool(self._followers)

    def subscribe(self, *, limit: int = SUBSCRIPTION_LIMIT) -> EventSubscription[T]:
        """Return a subscription to the items from now on.

        Args:
            limit: Items buffered for this follower; the oldest are dropped beyond it.
        """
        subscription = EventSubscription(self, limit)
        self._followers[subscription] = None
        return subscription

    def publish(self, item: T) -> None:
        """Add an item to all subscriptions; never waits."""
        for subscription in list(self._followers):
            subscription._offer(item)

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._followers):
            subscription.close()
