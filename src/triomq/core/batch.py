"""A batch: messages of one run, handed to one consumer together, until each of them is settled."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import msgspec

from triomq.actors import Ref
from triomq.core.message import Head, QueueMessage, Stretch

if TYPE_CHECKING:
    from triomq.core.dispatch.feed import Feed


class Batch(msgspec.Struct, eq=False):
    """Deliveries to one feed, out of one run: the unit of delivery, which holds what is unsettled.

    Created by a queue's backlog, owned by it until settled or requeued; the consumer's side refers to messages by their
    position in the batch. ``contents`` of settled positions are None.

    Args:
        head: The first one's; it has the traits of all, and is the head of all if ``heads`` is None.
        contents: Their bytes, None where settled.
        ids: The ids of the messages in their queue, ascending.
        redelivered: Whether they may have been seen by a consumer before.
        size: Total of the bytes of all contents.
        left: How many positions are not settled yet.
        feed: The feed they went to; None for a single get.
        queue: The queue they came from, which settles them.
        deadline: When the messages expire, should they come back; infinity if never.
        level: The priority that they were taken from.
        attempts: How often each of them was delivered before and came back.
        heads: The head of each message, settled or not; None if all have the same one.
    """

    head: Head
    contents: list[bytes | None]
    ids: Sequence[int]
    redelivered: bool
    size: int
    left: int
    feed: "Feed | None" = None
    queue: Ref | None = None
    deadline: float = inf
    level: int = 0
    attempts: int = 0
    heads: Sequence[Head] | None = None

    def head_at(self, position: int) -> Head:
        """Return the head of the message at a position, settled or not."""
        return self.head if self.heads is None else self.heads[position]

    def message(self, position: int) -> QueueMessage:
        """Return the message at a position that is not settled yet.

        Raises:
            LookupError: It is settled already.
        """
        content = self.contents[position]
        if content is None:
            raise LookupError(f"the message at position {position} of this batch is settled already")
        return QueueMessage(self.head_at(position), content)

    def stretch(self, positions: Sequence[int] | None = None) -> Stretch:
        """Return messages that are not settled yet: all of them, or those of them that are at some positions."""
        contents, heads = self.contents, self.heads
        going = range(len(contents)) if positions is None else dict.fromkeys(positions)
        found = [(position, content) for position in going if (content := contents[position]) is not None]
        left = [content for _, content in found]
        if heads is None:
            return Stretch(self.head, left)
        theirs = [heads[position] for position, _ in found]
        return Stretch(theirs[0] if theirs else self.head, left, theirs)

    def unsettled_ids(self, positions: Sequence[int] | None = None) -> Sequence[int]:
        """Return the ids of messages that are not settled yet: all of them, or those that are at some positions."""
        if positions is None and self.left == len(self.ids):
            return self.ids
        going = range(len(self.contents)) if positions is None else dict.fromkeys(positions)
        return [self.ids[position] for position in going if self.contents[position] is not None]

    def unsettled(self) -> list[int]:
        """List the positions that are not settled yet."""
        return [position for position, content in enumerate(self.contents) if content is not None]
