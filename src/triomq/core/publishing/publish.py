"""The messages that publishers send to queues."""

from collections.abc import Sequence

import trio

from triomq.actors import Message, Ref, Request
from triomq.chunks import MovableChunk
from triomq.core.message import Head, Stretch
from triomq.core.publishing.confirms import Receipt
from triomq.errors import ActorError


class Publish(Message, frozen=True):
    """To a queue: store the messages of a run.

    Args:
        head: The first one's; it has the traits of all, and is the head of all if ``heads`` is None.
        contents: Their bytes.
        size: Total of the bytes.
        receipt: Where to report that they are placed; None without a confirm.
        positions: Where in the receipt's run each message is; None if these are the first ones, or all of it.
        delay: Seconds until they become ready.
        heads: The head of each, all with the same traits; None if they have the same head.
    """

    head: Head
    contents: Sequence[bytes]
    size: int
    receipt: Receipt | None = None
    positions: Sequence[int] | None = None
    delay: float = 0.0
    heads: Sequence[Head] | None = None

    @property
    def count(self) -> int:
        """How many messages it has."""
        return len(self.contents)

    @property
    def stretch(self) -> Stretch:
        """The messages."""
        return Stretch(self.head, self.contents, self.heads)

    def part(self, start: int, stop: int) -> Stretch:
        """Return some of the messages, at least one: from a position up to another."""
        if self.heads is None:
            return Stretch(self.head, self.contents[start:stop])
        return Stretch(self.heads[start], self.contents[start:stop], self.heads[start:stop])

    def split(self) -> Sequence["Publish"]:
        """Return each message alone, so that the one that crashes a queue takes no other with it."""
        positions = self.positions or range(len(self.contents))
        return [
            Publish(message.head, [message.content], len(message.content), self.receipt, (position,), self.delay)
            for position, message in zip(positions, self.stretch.messages(), strict=True)
        ]

    def abandoned(self, error: BaseException) -> None:
        """Refuse what no queue will ever store."""
        self.refuse(0)

    def refuse(self, start: int) -> None:
        """Report that a queue will not have the messages from one on."""
        if self.receipt is not None:
            self.receipt.refused((self.positions or range(len(self.contents)))[start:])


class PublishChunk(Message, frozen=True):
    """To a stream: append the records of a chunk, which was checked, as they are.

    Args:
        chunk: The chunk; its offsets count for nothing, and its records have one time.
    """

    chunk: MovableChunk

    @property
    def count(self) -> int:
        """How many records it has."""
        return self.chunk.head.count

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.chunk.size


class Offer(Request[bool], frozen=True):
    """To a queue: take this message only if a consumer gets it at once; answers whether.

    AMQP 0-9-1 section 1.8.3.7, the flag immediate.
    """

    head: Head
    content: bytes


def take_now(queue: Ref, offer: Offer) -> bool:
    """Offer a message to a queue, and return whether a consumer gets it."""
    try:
        return queue.ask_nowait(offer)
    except (trio.WouldBlock, ActorError):
        return False  # it is being restarted, or was stopped: no consumer gets anything from it now


class Fits(Request[bool], frozen=True):
    """To a queue: return whether none of these runs would be refused, if no message were consumed meanwhile."""

    runs: Sequence[Publish]
