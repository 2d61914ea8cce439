"""Kinds of publishes: what those have in common that come by the same method frame, in the same shape.

A publisher with fifty keys sends fifty method frames over and over. Each is remembered as its octets, with the method
and the kinds of publishes that it has opened. So one look into a table takes a method frame, and another one gives the
object by which an endpoint finds all that it knows of such messages.
"""

from triomq.protocols.amqp.codec import MethodTable
from triomq.protocols.amqp.content import Framing
from triomq.protocols.amqp.frames import FRAME_END, FRAME_HEADER, METHOD, OVERHEAD
from triomq.protocols.amqp.methods import BasicPublish, Method
from triomq.protocols.amqp.shapes import Shape

# How many method frames are remembered: publishers use a few, and each takes at most half a KiB.
METHODS_REMEMBERED = 1024

KINDS_REMEMBERED = 2048
"""The same for kinds, which are more where a key comes with several shapes."""

_PUBLISH = b"\x00\x3c\x00\x28"


class MethodCache:
    """The methods of one connection: the same octets are the same object, so that code compares identity."""

    __slots__ = ("_methods", "known")

    def __init__(self, methods: MethodTable) -> None:
        self._methods = methods
        self.known: dict[bytes, Method] = {}
        """By the payloads of their frames."""

    def decode(self, payload: bytes) -> Method:
        """Read the payload of a method frame; raises PeerError as the table does."""
        method = self.known.get(payload)
        if method is None:
            method = self._methods.decode(payload)
            self.add(payload, method)
        return method

    def add(self, payload: bytes, method: Method) -> None:
        """Remember a method that was read elsewhere."""
        if len(self.known) >= METHODS_REMEMBERED:
            self.known.clear()
        self.known[payload] = method


class PublishKind:
    """What publishes have in common; the same object for as long as the connection remembers it.

    Args:
        method: Their method.
        framing: The framing of their contents.
        shape: What else is known of them all; None if nothing is.
    """

    __slots__ = ("flags", "framing", "method", "shape")

    def __init__(self, method: BasicPublish, framing: Framing, shape: Shape | None) -> None:
        self.method = method
        self.framing = framing
        self.shape = shape
        self.flags = method.mandatory, method.immediate

    def __repr__(self) -> str:
        return f"PublishKind({self.method!r}, {self.framing!r})"


class Opening:
    """A method frame of basic.publish, as it opens publishes of one channel."""

    __slots__ = ("channel", "kinds", "method", "size")

    def __init__(self, channel: int, octets: bytes, method: BasicPublish) -> None:
        self.channel = channel
        self.size = len(octets)
        self.method = method
        self.kinds: dict[Shape | int, PublishKind] = {}
        """By shape; those without one by the identity of the framing, which they hold."""


class OpeningTable:
    """The openings and kinds of one connection."""

    __slots__ = ("_count", "_methods", "known")

    def __init__(self, methods: MethodCache) -> None:
        self._methods = methods
        self._count = 0
        self.known: dict[bytes, Opening] = {}
        """By their octets; the reader looks into it itself."""

    def open(self, data: bytes, position: int, number: int, payload_max: int) -> Opening | None:
        """Read the method frame at ``position``; None if it is no whole basic.publish of the channel in order."""
        if len(data) - position < FRAME_HEADER.size:
            return None
        kind, channel, size = FRAME_HEADER.unpack_from(data, position)
        stop = position + OVERHEAD + size
        if kind != METHOD or channel != number or size > payload_max or stop > len(data) or data[stop - 1] != FRAME_END:
            return None
        octets = data[position:stop]
        opening = self.known.get(octets)
        if opening is None:
            method = self._publish(octets[7:-1])
            if method is None:
                return None
            if len(self.known) >= METHODS_REMEMBERED:
                self._clear()
            opening = self.known[octets] = Opening(number, octets, method)
        return opening

    def _publish(self, payload: bytes) -> BasicPublish | None:
        """Read a basic.publish; its errors are left to the general way, which this one does in a few steps."""
        method = self._methods.known.get(payload)
        if method is None:
            if not payload.startswith(_PUBLISH):
                return None
            try:
                key_at = 7 + payload[6]
                stop = key_at + 1 + payload[key_at]
                bits = payload[stop]
            except IndexError:
                return None
            if stop + 1 != len(payload):
                return None
            method = BasicPublish(
                payload[7:key_at].decode("utf-8", "surrogateescape"),
                payload[key_at + 1 : stop].decode("utf-8", "surrogateescape"),
                bits & 1 > 0,
                bits & 2 > 0,
            )
            self._methods.add(payload, method)
        return method if isinstance(method, BasicPublish) else None

    def kind(self, opening: Opening, framing: Framing, shape: Shape | None) -> PublishKind | None:
        """Return the kind of a publish; None if its content came on another channel than its method."""
        known: Shape | int = id(framing) if shape is None else shape
        kind = opening.kinds.get(known)
        if kind is None:
            if opening.channel != framing.channel:
                return None
            self._count += 1
            if self._count > KINDS_REMEMBERED:
                self._clear()
            kind = opening.kinds[known] = PublishKind(opening.method, framing, shape)
        return kind

    def _clear(self) -> None:
        self.known.clear()
        self._count = 0
