"""What an engine of a direct connection sends, as octets, until its driver takes them."""

from collections.abc import Sequence

from triomq.errors import LocalProtocolError
from triomq.protocols.dmp.envelope import front_of
from triomq.protocols.dmp.settings import LARGEST_MESSAGE

# Fronts of so many kinds of message are remembered; each takes less than a KiB, or is not remembered.
REMEMBERED = 128
LONGEST_REMEMBERED = 1024

# From this size on a body is handed out as it is: copying it would cost more than one more element to write.
LARGE = 16 * 1024

_Key = tuple[str, str, bytes, int, int]


class Outbox:
    """Owned by one engine, and looked at by its driver in each turn: attributes, because a property costs a call.

    ``unsent`` is how many octets wait. ``finished`` is whether nothing follows them: then the transport is shut.
    ``has_sent`` is set whenever octets are added, for the null messages.
    """

    __slots__ = ("_fronts", "_pieces", "finished", "has_sent", "unsent")

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._fronts: dict[_Key, bytes] = {}
        self.unsent = 0
        self.finished = False
        self.has_sent = False

    def take(self) -> list[bytes | memoryview]:
        """Remove and return what waits."""
        pieces, self._pieces = self._pieces, []
        self.unsent = 0
        return pieces

    def put(self, piece: bytes) -> None:
        """Add octets."""
        self._pieces.append(piece)
        self.unsent += len(piece)
        self.has_sent = True

    def whole(self, messages: Sequence[bytes], size: int) -> None:
        """Add whole messages of a total size, as they came from another connection."""
        self._pieces += messages
        self.unsent += size
        self.has_sent = True

    def message(self, exchange: str, routing_key: str, properties: bytes, options: int, body: bytes) -> None:
        """Add one message; raises LocalProtocolError if it cannot be written."""
        front = self._front((exchange, routing_key, properties, options, len(body)))
        if len(body) < LARGE:
            self.put(front + body)
        else:
            self.whole((front, body), len(front) + len(body))

    def framed(
        self,
        exchange: str,
        routing_key: str,
        start: int,
        stop: int,
        body_start: int,
        body_trailer: int,
        contents: Sequence[bytes],
    ) -> None:
        """Add messages whose properties and bodies stand in contents of another form, at these offsets."""
        pieces: list[bytes | memoryview] = []
        properties, length, front, size = b"", -1, b"", 0
        for content in contents:
            end = len(content) - body_trailer
            if end - body_start != length or content[start:stop] != properties:
                properties, length = content[start:stop], end - body_start
                front = self._front((exchange, routing_key, properties, 0, length))
            body = content[body_start:end] if length < LARGE else memoryview(content)[body_start:end]
            pieces += (front, body)
            size += len(front) + length
        self._pieces += pieces
        self.unsent += size
        self.has_sent = True

    def _front(self, key: _Key) -> bytes:
        """Write what stands before a body, or remember it."""
        front = self._fronts.get(key)
        if front is not None:
            return front
        if key[4] > LARGEST_MESSAGE:
            raise LocalProtocolError(f"a body of {key[4]} octets; a direct connection can say {LARGEST_MESSAGE}")
        front = front_of(*key)
        if len(front) <= LONGEST_REMEMBERED:
            if len(self._fronts) >= REMEMBERED:
                self._fronts.clear()
            self._fronts[key] = front
        return front
