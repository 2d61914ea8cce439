"""The messages that publishers send to queues."""

from collections.abc import Sequence

import trio

from triomq.actors import Message, Ref, Request
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
        position: Where in the receipt's run these messages begin.
        delay: Seconds until they become ready.
        heads: The head of each, all with the same traits; None if they have the same head.
    """

    head: Head
    contents: Sequence[bytes]
    size: int
    receipt: Receipt | None = None
    position: int = 0
    delay: float = 0.0
    heads: Sequence[Head] | None = None

    def part(self, start: int, stop: int) -> Stretch:
        """Return some of the messages, at least one: from a position up to another."""
        if self.heads is None:
            return Stretch(self.head, self.contents[start:stop])
        return Stretch(self.heads[start], self.contents[start:stop], self.heads[start:stop])

    def split(self) -> Sequence["Publish"]:
        """Return each message alone, so that the one that crashes a queue takes no other with it."""
        return [
            Publish(
                message.head, [message.content], len(message.content), self.receipt, self.position + offset, self.delay
            )
            for offset, message in enumerate(Stretch(self.head, self.contents, self.heads).messages())
        ]

    def abandoned(self, error: BaseException) -> None:
        """Refuse what no queue will ever store."""
        if self.receipt is not None:
            self.receipt.refused(self.position, len(self.contents))


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
