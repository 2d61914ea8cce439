"""What an engine of a direct connection sends, as octets, until its driver takes them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from triomq.protocols.dmp.envelope import front_of, names_of

# Pairs of names that are remembered; each takes at most half a KiB.
REMEMBERED = 1024

# From this size on a body is handed out as it is: copying it would cost more than one more element to write.
LARGE = 16 * 1024


class ContentForm(Protocol):
    """What a message is called, and where its properties and body stand in a content of another form."""

    @property
    def exchange(self) -> str:
        """Where it was published."""

    @property
    def routing_key(self) -> str:
        """With which key."""

    @property
    def properties_start(self) -> int:
        """Where the properties begin, with their flags."""

    @property
    def properties_stop(self) -> int:
        """Where they end."""

    @property
    def body_start(self) -> int:
        """Where the body begins."""

    @property
    def body_trailer(self) -> int:
        """How many octets stand behind it."""


class Outbox:
    """Owned by one engine, and looked at by its driver in each turn: attributes, because a property costs a call.

    ``unsent`` is how many octets wait. ``finished`` is whether nothing follows them: then the transport is shut.
    ``has_sent`` is set whenever octets are added, for the null messages.
    """

    __slots__ = ("_front", "_last", "_names", "_pieces", "finished", "has_sent", "unsent")

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._names: dict[tuple[str, str], bytes] = {}
        self._last: tuple[str, str, bytes, int, int] | None = None  # what the last single message was like
        self._front = b""  # and began with
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
        kind = exchange, routing_key, properties, options, len(body)
        if kind != self._last:
            self._front = front_of(self._find_names(exchange, routing_key), properties, options, len(body))
            self._last = kind
        front = self._front
        if len(body) < LARGE:
            self.put(front + body)
        else:
            self.whole((front, body), len(front) + len(body))

    def framed(self, forms: Iterable[ContentForm], contents: Sequence[bytes]) -> None:
        """Add messages whose properties and bodies stand in contents of another form; all of them or none."""
        pieces: list[bytes | memoryview] = []
        known: ContentForm | None = None
        names, properties, length, front, size = b"", b"", -1, b"", 0
        start = stop = body_start = body_trailer = 0
        for form, content in zip(forms, contents, strict=False):
            if form is not known:
                known, length, names = form, -1, self._find_names(form.exchange, form.routing_key)
                start, stop = form.properties_start, form.properties_stop
                body_start, body_trailer = form.body_start, form.body_trailer
            end = len(content) - body_trailer
            if end - body_start != length or content[start:stop] != properties:
                properties, length = content[start:stop], end - body_start
                front = front_of(names, properties, 0, length)
            body = content[body_start:end] if length < LARGE else memoryview(content)[body_start:end]
            pieces += (front, body)
            size += len(front) + length
        self._pieces += pieces
        self.unsent += size
        self.has_sent = True

    def _find_names(self, exchange: str, routing_key: str) -> bytes:
        """Encode two names, or remember what they are encoded as."""
        names = self._names.get((exchange, routing_key))
        if names is None:
            names = names_of(exchange, routing_key)
            if len(self._names) >= REMEMBERED:
                self._names.clear()
            self._names[exchange, routing_key] = names
        return names
