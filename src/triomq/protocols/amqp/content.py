"""Content (AMQP 0-9-1 section 4.2.6): a header frame and body frames behind a method, put together again."""

import struct

import msgspec

from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp.codec import MethodLayout
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.methods import Method
from triomq.protocols.properties import check_properties

# class, weight, body size, property flags (section 4.2.6.1)
CONTENT_HEADER = struct.Struct(">HHQH")

# A part of a body that is at least this part of the chunk that it came in holds on to the chunk.
_WORTH = 4

# What may be under way beside a body of the largest size: eight frames of the usual size.
_SMALL_ONES = 1024 * 1024

# How many shapes of content a connection remembers; one publisher has a few.
FRAMINGS = 256


class Framing(msgspec.Struct, frozen=True, gc=False):
    """Where properties and body stand in the octets of a content.

    A content that came in one header and at most one body frame stays as those frames' octets, so that it can be
    passed on untouched to a consumer whose channel has the same number. All others are properties and body joined, and
    have channel 0. "Properties" are the flags and what follows them, as ``decode_properties`` reads them.
    """

    channel: int
    properties_start: int
    properties_stop: int
    body_start: int
    body_trailer: int
    flags: int

    def properties(self, content: bytes) -> bytes:
        """Cut the properties out of a content of this shape."""
        return content[self.properties_start : self.properties_stop]

    def body(self, content: bytes) -> bytes:
        """Cut the body out of a content of this shape."""
        return content[self.body_start : len(content) - self.body_trailer]


def framing_of(channel: int, flags: int, header_size: int, *, filled: bool) -> Framing:
    """Describe a header frame with a payload of so many octets and, if filled, a body frame behind it."""
    stop = 7 + header_size
    return Framing(channel, 7 + 12, stop, stop + 8 if filled else stop + 1, int(filled), flags)


def joined(properties: bytes) -> Framing:
    """Describe a content that is ``properties`` and then the body, with no frames."""
    size = len(properties)
    return Framing(0, 0, size, size, 0, int.from_bytes(properties[:2], "big"))


class FramingTable:
    """The framings of one connection: contents of the same shape have the same object, so that code compares identity.

    The run reader looks into ``known`` itself: a call for each content would cost more than the look.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[tuple[int, int, int, bool], Framing] = {}
        """By channel, property flags, octets of the header frame's payload, and whether there is a body frame."""

    def framed(self, channel: int, flags: int, header_size: int, filled: bool) -> Framing:
        """Return the shape of a content in one header frame and, if filled, one body frame."""
        key = (channel, flags, header_size, filled)
        return self.known.get(key) or self._remember(key, framing_of(channel, flags, header_size, filled=filled))

    def joined(self, properties: bytes) -> Framing:
        """Return the shape of a content that came in several body frames."""
        framing = joined(properties)
        key = (0, framing.flags, framing.properties_stop, True)
        return self.known.get(key) or self._remember(key, framing)

    def _remember(self, key: tuple[int, int, int, bool], framing: Framing) -> Framing:
        if len(self.known) >= FRAMINGS:
            self.known.clear()
        self.known[key] = framing
        return framing


class ChannelRefusal(PeerError):
    """What ends the channel only, not the connection."""


class Limits:
    """What one connection may keep of contents that are not yet whole; shared by its channels."""

    __slots__ = ("max_message_size", "unfinished", "unfinished_max")

    def __init__(self, max_message_size: int, messages: int = 1) -> None:
        """Allow so many bodies of the largest size to be under way at once, and small ones beside them.

        Without this bound each of two thousand channels could hold one; with it, clients still can interleave one large
        publish with many small ones.
        """
        self.max_message_size = max_message_size
        self.unfinished = 0
        self.unfinished_max = messages * max_message_size + _SMALL_ONES

    def add(self, octets: int) -> None:
        """Count octets that a channel begins to hold."""
        self.unfinished += octets
        if self.unfinished > self.unfinished_max:
            raise PeerError(506, f"more than {self.unfinished_max} octets of unfinished contents")


class Assembly:
    """One content under way on one channel: made by its method, ended by its last body octet."""

    __slots__ = ("_header", "_held", "_limits", "_pieces", "_single", "_taken", "body_size", "layout", "method")

    def __init__(self, layout: MethodLayout, method: Method, limits: Limits) -> None:
        self.layout = layout
        self.method = method
        self.body_size = -1
        self._limits = limits
        self._header = b""
        self._pieces: list[bytearray | memoryview] = []
        self._taken = 0  # octets of the body that have come
        self._single: bytes | memoryview = b""
        self._held = 0

    def interrupted(self) -> PeerError:
        """Make the failure of a frame that is not the one this content waits for."""
        class_id = self.layout.row.class_id
        if self.body_size < 0:
            return self._error(f"expected content header for class {class_id}, got non content header frame instead")
        return self._error("expected content body, got non content body frame instead")

    def _error(self, text: str) -> PeerError:
        return PeerError(505, text, self.layout.row.class_id, self.layout.row.method_id)

    def add_header(self, frame: bytes) -> bool:
        """Add the header frame; return whether the content is whole already."""
        row = self.layout.row
        if len(frame) < 22:
            raise PeerError(501, f"content header of {len(frame) - 8} octets", row.class_id, row.method_id)
        class_id, weight, body_size, _ = CONTENT_HEADER.unpack_from(frame, 7)
        if weight:
            # Section 4.2.6.1: the weight has no use and is zero.
            raise self.interrupted()
        if class_id != row.class_id:
            raise self._error(f"expected content header for class {row.class_id}, got one for class {class_id} instead")
        try:
            check_properties(frame, 19, len(frame) - 1)
        except RemoteProtocolError as error:
            raise PeerError(502, str(error), row.class_id, row.method_id) from None
        if body_size > self._limits.max_message_size:
            # Section 1.2, content-too-large: refused before any of it is stored.
            text = f"message size {body_size} is larger than configured max size {self._limits.max_message_size}"
            raise ChannelRefusal(311, text, row.class_id, row.method_id)
        self._hold(len(frame))
        self._header = frame
        self.body_size = body_size
        return not self.body_size

    def add_body(self, frame: memoryview) -> bool:
        """Add a body frame; return whether the content is whole now."""
        size = len(frame) - 8
        if self._taken + size > self.body_size:
            raise self.interrupted()
        if size == self.body_size:
            self._single = frame
            return True
        self._hold(size)
        self._taken += size
        self._store(frame[7:-1])
        return self._taken == self.body_size

    def _store(self, part: memoryview) -> None:
        """Store a part of the body: where it is, if it is much of its chunk, so that it is copied but once.

        All others are copied together: frames of one octet must not cost fifty each, nor hold on to a whole chunk.
        """
        chunk = part.obj
        if isinstance(chunk, bytes) and len(part) * _WORTH >= len(chunk):
            self._pieces.append(part)
            return
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, bytearray):
            last += part
        else:
            self._pieces.append(bytearray(part))

    def finish(self, channel: int, framings: FramingTable) -> tuple[Framing, bytes]:
        """Return the whole content and its shape."""
        header, pieces = self._header, self._pieces
        flags = int.from_bytes(header[19:21], "big")
        self.drop()
        if self._single or not self.body_size:
            framing = framings.framed(channel, flags, len(header) - 8, self.body_size > 0)
            return framing, b"".join((header, self._single))
        properties = header[19:-1]
        return framings.joined(properties), b"".join((properties, *pieces))

    def drop(self) -> None:
        """Drop what has come, and take it off the connection's account."""
        self._limits.unfinished -= self._held
        self._held = 0
        self._pieces = []

    def _hold(self, octets: int) -> None:
        self._held += octets
        self._limits.add(octets)
