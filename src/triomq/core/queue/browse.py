"""Browsing: looking at the ready messages of a queue in their places, and removing those that were seen.

A browser takes nothing: messages stay ready for feeds. An id stays the same as long as its message is in the queue, so
a browser goes on behind the last id it saw, and can discard everything up to that id without touching what has arrived
since. An unsettled message is not seen; it stands in its old place again when it comes back.
"""

from collections.abc import Sequence
from itertools import takewhile

from triomq.actors import Request
from triomq.core.backlog import Entry
from triomq.core.message import Stretch
from triomq.core.queue.queue_state import QueueState


class Browse(Request[Sequence[Entry]], frozen=True):
    """To a queue: return ready messages in the order of their ids, which is the order in which they arrived.

    A queue with priorities hands messages out in another order; a client that pages through it, or discards what it
    saw, must not pass over the less urgent ones.

    The answer is shorter than asked for where the messages are large, or where more have to be read from the store; it
    is empty only if there are no more.

    Args:
        after: Only messages with an id above this one.
        limit: At most so many.

    Raises (in the asker):
        NotResident: They are being read from the store; ask again.
        QueueUnreadable: The store cannot give them back.
    """

    after: int = -1
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


def discard(state: QueueState, up_to: int) -> int:
    """Remove the resident messages of a queue up to an id; return how many they were."""
    backlog, on_removed = state.backlog, state.directory.on_removed
    if on_removed is None:
        return backlog.discard(up_to)
    entries = list(takewhile(lambda entry: entry.id <= up_to, backlog.entries()))
    messages = [entry.message for entry in entries]
    count = backlog.discard(up_to)
    if messages:
        heads = [message.head for message in messages]
        stretch = Stretch(heads[0], [message.content for message in messages], heads)
        on_removed(state, stretch, None, [entry.id for entry in entries])
    return count
