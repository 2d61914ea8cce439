"""Deliveries of a stream's records: contents with a header more than they came with, their offset in the stream.

The header is RabbitMQ's ``x-stream-offset``, a long-long. It is put first into the table of headers, and its value is
all that changes from one record to the next of the same properties and size:

    deliver ─ tag ─ deliver │ header frame, properties, x-stream-offset ─ offset ─ other headers │ body frame ─ body
     before          behind   opening                                      each    closing                      each

``opening`` and ``closing`` are made once for all records that are alike in properties and size, so a record costs two
numbers and a join. To decode the properties, set a header and encode them again would be 30 µs for each.
"""

from typing import NamedTuple

import msgspec

from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp.content import CONTENT_HEADER
from triomq.protocols.amqp.frames import BODY, FRAME_HEADER, HEADER
from triomq.protocols.properties import decode_properties, encode_properties

OFFSET_HEADER = "x-stream-offset"
_NAME = OFFSET_HEADER.encode()
_ENTRY = b"%c%bl" % (len(_NAME), _NAME)  # a name, and that a long-long follows (section 4.2.1)
_ADDED = len(_ENTRY) + 8
"""Octets that the header takes in its table."""

MOST_ADDED = 4 + _ADDED
"""Octets that properties grow by at most: where they had no headers, there is the length of a table as well."""

_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING, _HAS_HEADERS = 0x8000, 0x4000, 0x2000
"""Flags of the properties up to the headers, in the order in which the properties stand (section 4.2.6.1)."""

_BASIC = 60
MOST_SHAPES = 1024
"""Shapes remembered for a connection: each takes half a KiB, and one that is not there costs 2 µs."""


class RecordShape(NamedTuple):
    """The octets around the offset of records that are alike.

    Args:
        opening: The header frame up to the offset.
        closing: The rest of it, and the head of the body frame if there is one.
        end: The end of the body frame, if there is one.
    """

    opening: bytes
    closing: bytes
    end: bytes


class RecordShapes(dict[tuple[bytes, int], RecordShape]):
    """The shapes for one channel, by properties and size of the body; made when they are looked up.

    Args:
        channel: The channel's number.
    """

    def __init__(self, channel: int) -> None:
        self.channel = channel

    def __missing__(self, key: tuple[bytes, int]) -> RecordShape:
        if len(self) >= MOST_SHAPES:
            self.clear()
        shape = self[key] = _record_shape(self.channel, *key)
        return shape


def _record_shape(channel: int, properties: bytes, size: int) -> RecordShape:
    before, behind = with_offset(properties)
    payload = 12 + len(before) + 8 + len(behind)
    header = FRAME_HEADER.pack(HEADER, channel, payload) + CONTENT_HEADER.pack(_BASIC, 0, size, 0)[:-2]
    body = FRAME_HEADER.pack(BODY, channel, size) if size else b""
    return RecordShape(header + before, b"%b\xce%b" % (behind, body), b"\xce" if size else b"")


def with_offset(properties: bytes) -> tuple[bytes, bytes]:
    """Add the header to encoded properties, flags first; return what stands before and behind its value.

    A header of that name which is there already is not this stream's, and gives way.
    """
    if _NAME in properties:
        properties = _without_offset(properties)
    flags = int.from_bytes(properties[:2], "big")
    position = 2
    for flag in (_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING):
        if flags & flag:
            position += 1 + properties[position]
    size, rest = 0, position
    if flags & _HAS_HEADERS:
        rest += 4
        size = int.from_bytes(properties[position:rest], "big")
    table = (size + _ADDED).to_bytes(4, "big") + _ENTRY
    return (flags | _HAS_HEADERS).to_bytes(2, "big") + properties[2:position] + table, properties[rest:]


def _without_offset(properties: bytes) -> bytes:
    try:
        basic = decode_properties(properties, typed=True)
    except RemoteProtocolError:
        return properties  # what a publisher wrote so that nobody can read it is passed on as it is
    if basic.headers is None or OFFSET_HEADER not in basic.headers:
        return properties  # the words stand in a value
    others = {name: value for name, value in basic.headers.items() if name != OFFSET_HEADER}
    return encode_properties(msgspec.structs.replace(basic, headers=others))
