"""What stands before the body of a message on a direct connection (6/DMP, message envelope)."""

import struct

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.dmp.settings import LARGEST_MESSAGE
from triomq.protocols.fields import encode_short_string
from triomq.protocols.properties import plan_of

MANDATORY, IMMEDIATE = 2, 1

_WORD = struct.Struct(">I")


class Envelope(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What messages of one shape have in common; offsets are from the first octet of the size.

    "Properties" are the flags and what follows them, as ``decode_properties`` reads them.
    """

    exchange: str
    routing_key: str
    properties_start: int
    properties_stop: int
    flags: int
    options: int

    @property
    def body_start(self) -> int:
        """Where the body begins."""
        return self.properties_stop + 4

    @property
    def mandatory(self) -> bool:
        """Whether the message is to come back if it reaches no queue."""
        return bool(self.options & MANDATORY)

    @property
    def immediate(self) -> bool:
        """Whether it is to come back if it reaches no consumer at once."""
        return bool(self.options & IMMEDIATE)

    def properties(self, content: bytes) -> bytes:
        """Cut the properties out of a message of this shape."""
        return content[self.properties_start : self.properties_stop]

    def body(self, content: bytes) -> bytes:
        """Cut the body out of a message of this shape."""
        return content[self.body_start :]


def names_of(exchange: str, routing_key: str) -> bytes:
    """Write the names that a message begins with.

    Raises:
        LocalProtocolError: one of them is too long.
    """
    return encode_short_string(exchange) + encode_short_string(routing_key)


def front_of(names: bytes, properties: bytes, options: int, length: int) -> bytes:
    """Write what stands before a body of so many octets.

    Raises:
        LocalProtocolError: the body is too large.
    """
    if length > LARGEST_MESSAGE:
        raise LocalProtocolError(f"a body of {length} octets; a direct connection can say {LARGEST_MESSAGE}")
    size = len(names) + len(properties) + 4 + length
    return b"%b%b%b%b" % (_WORD.pack(size), names, properties, _WORD.pack(options << 24 | length))


def frame_of(message: bytes, envelope: Envelope) -> list[int]:
    """List the offsets of a message's octets that say where names, values and body stand; header tables count whole."""
    offsets = [0, 1, 2, 3, 4, 5 + message[4], envelope.properties_start, envelope.properties_start + 1]
    position = envelope.properties_start + 2
    for width in plan_of(envelope.flags):
        stop = position + width
        if not width:
            offsets.append(position)
            stop = position + 1 + message[position]
        elif width < 0:
            stop = position + 4 + int.from_bytes(message[position : position + 4], "big")
            offsets += range(position, stop)
        position = stop
    return [*offsets, position, position + 1, position + 2, position + 3]
