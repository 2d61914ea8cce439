"""Browsing: looking at ready messages in their places, and forgetting what one has seen.

A browser takes nothing: messages stay ready for feeds. Their ids stay the same as long as they are in the queue, so
that a browser goes on behind the last id it saw, and can discard everything up to it, which never touches what has
arrived since. A message that is out with a consumer is not seen, and stands in its old place again when it comes back.
"""

from collections.abc import Sequence

from triomq.actors import Request
from triomq.core.backlog import Entry


class Browse(Request[Sequence[Entry]], frozen=True):
    """To a queue: show ready messages in the order of their ids, which is the order in which they arrived.

    A queue with priorities hands them out in another order; but whoever goes through it page by page, or discards what
    was seen, must not pass over the less urgent ones.

    The answer is shorter than asked for where the messages are large, or where more have to be read from the store; it
    is empty only if there are no more.

    Args:
        after: Only messages with an id above this one.
        limit: At most so many.

    Raises (in the asker):
        NotResident: They are being read from the store; ask again.
        QueueUnreadable: The store cannot give them back.
    """

    after: int = 0
    limit: int = 100


class Discard(Request[int], frozen=True):
    """To a queue: forget the ready messages up to this id; answers how many they were.

    Raises (in the asker):
        NotResident: Some are forgotten, the others are being read from the store; ask again for these.
        QueueUnreadable: The store cannot give the others back.
    """

    up_to: int


class Purge(Request[int], frozen=True):
    """To a queue: forget all messages that no consumer has; answers how many they were."""
