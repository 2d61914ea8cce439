"""What came back to a backlog: messages in their old order, whatever the order in which they come back."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

import msgspec

from triomq.core.batch import Batch
from triomq.core.message import Head


class ReturnedMessage(msgspec.Struct, eq=False, gc=False):
    """A message that came back; ``deadline`` is when it expires, in seconds of the domain's clock."""

    head: Head
    content: bytes
    deadline: float


class Returned:
    """Messages by id, the lowest first; made by a backlog when one comes back, ends when the last one goes again."""

    __slots__ = ("_heap", "_messages")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[int] = []
        self._messages: dict[int, ReturnedMessage] = {}

    def __len__(self) -> int:
        """Count the messages."""
        return len(self._heap)

    def put(self, number: int, message: ReturnedMessage) -> None:
        """Put a message in its place."""
        heappush(self._heap, number)
        self._messages[number] = message

    @property
    def first_id(self) -> int:
        """The id of the first message."""
        return self._heap[0]

    @property
    def first(self) -> ReturnedMessage:
        """The first message."""
        return self._messages[self._heap[0]]

    def pop(self) -> tuple[int, ReturnedMessage]:
        """Take the first message out, with its id."""
        number = heappop(self._heap)
        return number, self._messages.pop(number)

    def take(self, most: int, most_bytes: int, attempts: Mapping[int, int]) -> Batch:
        """Take the first messages out as long as they share head, deadline and mark, and the limits hold.

        Args:
            most: At most so many messages.
            most_bytes: At most so many octets, except that one message may always go.
            attempts: How often messages came back, by id; those that did at all are marked.
        """
        heap, messages = self._heap, self._messages
        first = self.first
        head, deadline, marked = first.head, first.deadline, heap[0] in attempts
        ids: list[int] = []
        contents: list[bytes | None] = []
        size = 0
        while heap and len(ids) < most:
            message = messages[heap[0]]
            if message.head is not head or message.deadline != deadline or (heap[0] in attempts) is not marked:
                break
            if ids and size + len(message.content) > most_bytes:
                break
            size += len(message.content)
            ids.append(heappop(heap))
            contents.append(message.content)
            del messages[ids[-1]]
        return Batch(head, contents, ids, marked or head.repeated, size, len(ids), deadline=deadline)

    def after(self, number: int) -> Iterator[tuple[int, ReturnedMessage]]:
        """Go through the messages with ids above a number, in order."""
        for found in sorted(found for found in self._heap if found > number):
            yield found, self._messages[found]
