"""What in a channel's messages concerns the broker itself.

That is claims about the user and the time to live, the name to reply to, further keys in CC and BCC, the delivery mode.
Most messages go on as they came, and most of these are known by their flags, or by the layout of their properties,
which has the names of header fields and the delivery mode. The rest is looked for in octets first, and decoded last.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from triomq.endpoints.content import (
    CC,
    CHECKED,
    HAS_DELIVERY_MODE,
    HAS_HEADERS,
    HAS_REPLY_TO,
    LOOKED_INTO,
    InvalidProperties,
    by_mode,
    check_claims,
    copies_of,
    suspects,
    with_reply_name,
)
from triomq.protocols import Layout
from triomq.protocols.amqp import Framing, FramingTable, PublishRun

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel

_PERSISTENT = 2  # the delivery mode


class InspectedPart(NamedTuple):
    """Neighbours in a run that go together.

    Args:
        framing: Theirs.
        contents: Their octets, as they go on.
        persistent: Whether durable queues are to keep them.
        keys: Further routing keys.
    """

    framing: Framing
    contents: list[bytes]
    persistent: bool
    keys: tuple[str, ...] = ()


class Inspector:
    """Looks into what one channel publishes; made with its publisher.

    Args:
        channel: The channel.
    """

    __slots__ = ("_channel", "_framings", "_has_store", "looked_into")

    def __init__(self, channel: "ServerChannel") -> None:
        self._channel = channel
        self._has_store = channel.connection.directory.persistence is not None
        self._framings: FramingTable | None = None  # of contents that were changed
        self.looked_into = LOOKED_INTO | (HAS_DELIVERY_MODE if self._has_store else 0)
        """Flags of properties because of which more than the flags has to be looked at."""

    def mode_in(self, framing: Framing, layout: Layout | None) -> bool | None:
        """Return whether messages are persistent, if they go on as they came; None if flags and layout do not tell."""
        flags = framing.flags & self.looked_into
        if not flags:
            return False
        if layout is None or flags & ~(HAS_HEADERS | HAS_DELIVERY_MODE) or any(CC in name for name in layout.names):
            return None
        return self._has_store and layout.delivery_mode == _PERSISTENT

    def mode_of(self, run: PublishRun) -> bool | None:
        """Return whether a run is persistent, if it goes on as it came and as one; None if that is not clear yet."""
        framing = run.framing
        if run.layout is not None or framing.flags & self.looked_into != HAS_DELIVERY_MODE:
            return self.mode_in(framing, run.layout)
        modes = by_mode(framing, run.contents)
        return modes[0][0] if len(modes) == 1 else None

    def parts(self, run: PublishRun) -> Iterator[InspectedPart]:
        """Cut a run into messages that go together.

        Raises:
            InvalidProperties: A property of the next message is not acceptable.
        """
        framing, contents, done = run.framing, run.contents, 0
        for number in suspects(framing, contents):
            try:
                special = self._inspect(framing, contents[number])
            except InvalidProperties:
                yield from self._alike(framing, contents[done:number])
                raise
            if special is not None:
                yield from self._alike(framing, contents[done:number])
                yield special
                done = number + 1
        yield from self._alike(framing, contents[done:] if done else contents)

    def _alike(self, framing: Framing, contents: list[bytes]) -> Iterator[InspectedPart]:
        """Cut neighbours that go on as they came where the delivery mode changes."""
        if contents:
            for persistent, some in self._by_mode(framing, contents):
                yield InspectedPart(framing, some, persistent)

    def _inspect(self, framing: Framing, content: bytes) -> InspectedPart | None:
        """Check one message's properties, and return what becomes of it; None if it goes on as it came.

        Raises:
            InvalidProperties: A property is not acceptable.
        """
        encoded = framing.properties(content)
        if framing.flags & CHECKED:
            check_claims(encoded, self._channel.connection.session.user)
        changed = encoded
        keys: tuple[str, ...] = ()
        if framing.flags & HAS_REPLY_TO:
            changed = with_reply_name(self._channel, encoded)
        if framing.flags & HAS_HEADERS and CC in encoded:
            copies = copies_of(changed)
            changed, keys = copies.properties or changed, copies.keys
        if changed is not encoded:
            if self._framings is None:
                self._framings = FramingTable()
            content = changed + framing.body(content)
            framing = self._framings.joined(changed)
        elif not keys:
            return None
        ((persistent, _),) = self._by_mode(framing, [content])
        return InspectedPart(framing, [content], persistent, keys)

    def _by_mode(self, framing: Framing, contents: list[bytes]) -> Sequence[tuple[bool, list[bytes]]]:
        return by_mode(framing, contents) if self._has_store else [(False, contents)]
