"""A subscription: messages of one destination, in order.

    engine ──▶ take ──▶ _inbox ──▶ _ready ──▶ async for ──▶ MicroMsgDelivery ── accept() ──▶ Unaccepted ──▶ link
               reads     runs      one checkpoint each

Rules:

- Runs stay whole until a task takes from them: a hundred messages cost one wake-up and one checkpoint. ``_ready`` is
  stored backwards, since ``pop()`` at the end of a list costs nothing.
- Acks say "all up to this number", for all subscriptions of a connection together. So what one of them has not accepted
  holds back the acks of what came later for the others, until the window is full and nothing comes any more.
- When the connection is lost, the broker delivers again what was not accepted from a queue or for a kept subscription:
  that is dropped here. What waits of other topics nobody has any more, so it is kept here.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import trio

from triomq.clients.amqp.pending_reply import fresh
from triomq.clients.micromsg.delivery import MicroMsgDelivery
from triomq.errors import TriomqError
from triomq.protocols.micromsg import FilterCondition, MicroMessageRun

if TYPE_CHECKING:
    from triomq.clients.micromsg.link import MicroMsgLink

_TOPIC, _QUEUE = "topic/", "queue/"


def name_of(destination: str) -> str:
    """Return the one name of a destination: ``queue/jobs`` and ``jobs`` are the same."""
    return destination.removeprefix(_QUEUE)


class Unaccepted:
    """Numbers of messages that a subscription was given on one link, and that nobody has accepted; made for each link.

    Args:
        link: Where they came, and are acknowledged.
    """

    __slots__ = ("_numbers", "link")

    def __init__(self, link: "MicroMsgLink") -> None:
        self.link = link
        self._numbers: set[int] = set()

    def __len__(self) -> int:
        """Count them."""
        return len(self._numbers)

    def received(self, run: MicroMessageRun) -> None:
        """Add the messages of a run."""
        self._numbers.update(range(run.first, run.last + 1))

    def accept(self, number: int) -> None:
        """Accept a message, unless that is too late."""
        if number in self._numbers:
            self._numbers.remove(number)
            self.link.accept(number)

    def accept_all(self) -> None:
        """Accept all that is left: the broker has taken it back, and only its numbers are to be acknowledged."""
        numbers, self._numbers = self._numbers, set()
        for number in numbers:
            self.link.accept(number)

    def forget_all(self) -> None:
        """Accept nothing any more: the link has ended."""
        self._numbers.clear()


class MicroMsgSubscription:
    """Made by ``MicroMsgConnection.subscribe``, ends with its block. Several tasks may iterate; each gets other ones.

    Args:
        destination: A topic or a queue; empty for what the peer sends without being asked.
        conditions: What messages must be like.
        subscription_id: By what the broker knows it when we come back; may be empty.
    """

    def __init__(self, destination: str, conditions: Sequence[FilterCondition] = (), subscription_id: str = "") -> None:
        self.destination = destination
        """The topic or queue."""
        self.conditions = tuple(conditions)
        """Its filter, as it was read."""
        self.id = subscription_id
        """By what a broker keeps it for us; may be empty."""
        self._inbox: deque[tuple[MicroMessageRun, Unaccepted | None]] = deque()
        self._ready: list[MicroMsgDelivery] = []  # the last one first
        self._book: Unaccepted | None = None
        self._buffered = 0
        self._error: TriomqError | None = None
        self._is_over = False
        self._link: MicroMsgLink | None = None
        self._arrived = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        """Show where it comes from."""
        return f"<MicroMsgSubscription {self.destination!r}>"

    @property
    def comes_again(self) -> bool:
        """Whether a broker has what was not accepted when the connection is lost, and delivers it again."""
        return bool(self.destination) and (not self.destination.startswith(_TOPIC) or bool(self.id))

    @property
    def buffered(self) -> int:
        """How many messages are here and not taken yet."""
        return len(self._ready) + sum(len(run.contents) for run, _ in self._inbox)

    # Iterating

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> MicroMsgDelivery:
        """Wait for the next message.

        Raises:
            StopAsyncIteration: The block is left.
            ConsumerCancelled: The broker has ended it: its queue was deleted, or has failed.
            NotFound: Its destination is not there any more since the connection has come back.
            Disconnected: The broker is gone for good.
            TriomqError: It has ended the connection for another reason.
        """
        if self._ready:
            return self._ready.pop()
        while True:
            if self._inbox:
                self._unpack(*self._inbox.popleft())
                await trio.lowlevel.checkpoint()
            elif self._is_over:
                raise StopAsyncIteration
            elif self._error is not None:
                raise fresh(self._error)
            else:
                await self._arrived.park()
            if self._ready:
                return self._ready.pop()

    def _unpack(self, run: MicroMessageRun, book: Unaccepted | None) -> None:
        deliveries = [
            MicroMsgDelivery(book, number, shape, content)
            for number, (shape, content) in enumerate(run.messages(), run.first)
        ]
        deliveries.reverse()
        self._ready[:0] = deliveries
        self._buffered -= run.size
        if self._link is not None:
            self._link.taken(run.size)

    # What the connection calls

    def take(self, run: MicroMessageRun, link: "MicroMsgLink") -> None:
        """Add messages that have come."""
        self._link = link
        if not link.has_acks:
            self._book = None
        elif self._book is None or self._book.link is not link:
            self._book = Unaccepted(link)
        if self._book is not None:
            self._book.received(run)
            if self._is_over:  # the broker takes it back when it has read that we want no more
                self._book.accept_all()
                return
        if not self._is_over:
            self._inbox.append((run, self._book))
            self._buffered += run.size
            link.buffered += run.size
            self._arrived.unpark_all()

    def lost(self) -> None:
        """Note that the link has ended."""
        self._link = None
        if self._book is not None:
            self._book.forget_all()
            self._book = None
            if self.comes_again:
                self._drop()

    def _drop(self) -> None:
        if self._link is not None and self._buffered:
            self._link.taken(self._buffered)
        self._buffered = 0
        self._inbox.clear()
        self._ready.clear()

    def fail(self, error: TriomqError) -> None:
        """End with an error, once what has come is taken."""
        if self._error is None:
            self._error = error
            self._arrived.unpark_all()

    def end(self) -> None:
        """End the iteration; the broker is told by the connection."""
        self._is_over = True
        self._drop()
        self._arrived.unpark_all()

    def give_back(self) -> None:
        """Free the window of what was not accepted: the broker was told to take it back."""
        if self._book is not None:
            self._book.accept_all()
