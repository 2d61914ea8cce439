"""An entry: what one sees of a message in its place in a queue."""

import msgspec

from triomq.core.message import QueueMessage


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A ready message as one looks at it in its place.

    Args:
        id: Its id, which stays the same as long as it is in the queue.
        attempts: How often it was delivered and came back.
        deadline: When it expires, in seconds of the domain's clock; infinity if never.
        message: Head and octets.
    """

    id: int
    attempts: int
    deadline: float
    message: QueueMessage
