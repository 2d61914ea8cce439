"""Deliveries of a stream's records: contents with a header more than they came with, their offset in the stream.

The header is RabbitMQ's ``x-stream-offset``, a long-long. It is put first into the table of headers, so that all that
changes of a record's properties is how they *begin*, up to the size of that table:

    deliver ─ tag ─ deliver │ header frame ─ beginning, x-stream-offset ─ offset ─ rest │ body frame ─ body
     before          behind   opening         lead                         each    each   closing      each

What is in the rest (other headers, message-id, timestamp) differs in each record of real traffic; it is cut off and
joined again without a look at it. A delivery costs 0.2 µs where all properties and sizes are alike, 0.45 where each
record has properties of its own, and 0.65 where the sizes differ too. To decode properties, set a header and encode
them again would be 30; to remember what was made for each properties and size, 3 to 4 where they are all new.
"""

import struct
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

import msgspec

from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp.frames import BODY, FRAME_END, HEADER
from triomq.protocols.properties import decode_properties, encode_properties

OFFSET_HEADER = "x-stream-offset"
_NAME = OFFSET_HEADER.encode()
_ENTRY = b"%c%bl" % (len(_NAME), _NAME)  # a name, and that a long-long follows (section 4.2.1)
_ADDED = len(_ENTRY) + 8
"""Octets that the header takes in its table."""

_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING, _HAS_HEADERS = 0x80, 0x40, 0x20
"""Flags in the first octet of the properties up to the headers, in the order of the properties (section 4.2.6.1)."""

_OPENING = struct.Struct(">BHIIQ")
"""Type, channel and size of a header frame; class and weight, size of the body."""

_BASIC = 60 << 16
_END = b"\xce"
_CLOSING = struct.Struct(">BBHI")
"""The end of the header frame; type, channel and size of the body frame."""


class Cuts(NamedTuple):
    """Encoded properties that were cut where entries of headers begin: those of some records, or one for all of them.

    Args:
        leads: What stands before the offset.
        rests: What stands behind it.
        sizes: How many octets both and the offset are together.
    """

    leads: list[bytes]
    rests: list[bytes]
    sizes: list[int]

    def repeated(self, count: int) -> "Cuts":
        """Return what was cut of one record for so many."""
        return Cuts(self.leads * count, self.rests * count, self.sizes * count)


def cut_all(properties: Sequence[bytes]) -> Cuts:
    """Add the header to encoded properties, flags first, of at least one record.

    A header of that name which is there already is not this stream's, and gives way.
    """
    if _NAME in b"".join(properties):  # which costs a quarter of looking into each
        properties = [_without_offset(each) for each in properties]
    to_table, beginning = _cut(properties[0])
    place = len(beginning)
    beginnings = list(map(itemgetter(slice(place)), properties))
    if beginnings.count(beginning) == len(beginnings):
        leads = [_lead(beginning)] * len(beginnings)
    elif all(each.startswith(to_table) for each in set(beginnings)):  # tables of several sizes, at the same place
        leads_of = {each: _lead(each) for each in set(beginnings)}
        leads = list(map(leads_of.__getitem__, beginnings))
    else:
        pairs = [with_offset(each) for each in properties]
        leads, rests = [lead for lead, _ in pairs], [rest for _, rest in pairs]
        return Cuts(leads, rests, [len(lead) + 8 + len(rest) for lead, rest in pairs])
    rests = list(map(itemgetter(slice(place, None)), properties))
    added = len(leads[0]) + 8 - place
    return Cuts(leads, rests, [added + len(each) for each in properties])


def frame_records(
    channel: int, properties: list[int], bodies: list[int]
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the octets before the properties, between them and the body, and behind it, by the sizes of both."""
    count, longest, pack = len(bodies), max(bodies), _CLOSING.pack
    ends = [_END] * count
    if not min(bodies):
        closings = [pack(FRAME_END, BODY, channel, size) if size else _END for size in bodies]
        ends = [_END if size else b"" for size in bodies]
    elif bodies.count(longest) < count:
        closings = list(map(pack, repeat(FRAME_END), repeat(BODY), repeat(channel), bodies))
    else:
        closings = [pack(FRAME_END, BODY, channel, longest)] * count
        if properties.count(properties[0]) == count:
            return [_OPENING.pack(HEADER, channel, 12 + properties[0], _BASIC, longest)] * count, closings, ends
    payloads = [12 + size for size in properties]
    return list(map(_OPENING.pack, repeat(HEADER), repeat(channel), payloads, repeat(_BASIC), bodies)), closings, ends


def with_offset(properties: bytes) -> tuple[bytes, bytes]:
    """Add the header to encoded properties, flags first; return what stands before and behind its value.

    A header of that name which is there already is not this stream's, and gives way.
    """
    properties = _without_offset(properties)
    _, beginning = _cut(properties)
    return _lead(beginning), properties[len(beginning) :]


def _cut(properties: bytes) -> tuple[bytes, bytes]:
    """Return what stands before the table of headers, or where it would, and what stands before its entries."""
    position = 2
    for flag in (_HAS_CONTENT_TYPE, _HAS_CONTENT_ENCODING):
        if properties[0] & flag:
            position += 1 + properties[position]
    return properties[:position], properties[: position + 4 if properties[0] & _HAS_HEADERS else position]


def _lead(beginning: bytes) -> bytes:
    """Add the header up to its value to the beginning of properties, which ends where entries of headers begin."""
    first, size = beginning[0], 0
    if first & _HAS_HEADERS:
        beginning, size = beginning[:-4], int.from_bytes(beginning[-4:], "big")
    table = (size + _ADDED).to_bytes(4, "big") + _ENTRY
    return b"%c%b%b" % (first | _HAS_HEADERS, beginning[1:], table)


def _without_offset(properties: bytes) -> bytes:
    if _NAME not in properties:
        return properties
    try:
        basic = decode_properties(properties, typed=True)
    except RemoteProtocolError:
        return properties  # what a publisher wrote so that nobody can read it is passed on as it is
    if basic.headers is None or OFFSET_HEADER not in basic.headers:
        return properties  # the words stand in a value
    others = {name: value for name, value in basic.headers.items() if name != OFFSET_HEADER}
    return encode_properties(msgspec.structs.replace(basic, headers=others))
