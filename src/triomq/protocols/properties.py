"""The properties of a basic message (AMQP 0-9-1 section 4.2.6.1): sixteen bits say which of fourteen fields follow.

"Properties" are always these octets, flags first, exactly as a content header carries them behind the body size. They
are passed on as octets, and decoded only where one of them is asked for.
"""

import struct
from functools import lru_cache
from typing import TypeAlias

import msgspec

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.fields import FieldValue, check_table, encode_short_string, encode_table, read_table

NO_PROPERTIES = b"\0\0"

_Value: TypeAlias = "str | int | dict[str, FieldValue] | None"


class BasicProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says about itself; ``None`` is not set. ``timestamp`` is seconds since 1970."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, FieldValue] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    # Reserved in 0-9-1, where older clients still put the cluster-id and OpenAMQ its sender-id.
    cluster_id: str | None = None


# How many octets a field takes; these two carry their length.
_SHORT_STRING, _TABLE = 0, -1
_SIZES = {"headers": _TABLE, "delivery_mode": 1, "priority": 1, "timestamp": 8}

# The first property is the highest bit; the two lowest stand for no property of the basic class.
_FIELDS = tuple(
    (0x8000 >> index, name, _SIZES.get(name, _SHORT_STRING))
    for index, name in enumerate(BasicProperties.__struct_fields__)
)
_KNOWN_FLAGS = 0xFFFC
_FORMS = {1: struct.Struct(">B"), 8: struct.Struct(">Q")}


@lru_cache(maxsize=1024)
def plan_of(flags: int) -> tuple[int, ...]:
    """List the sizes of the fields that ``flags`` announces: octets, 0 for a short string, negative for a table.

    Raises:
        RemoteProtocolError: a bit is set that stands for no property of the basic class.
    """
    return tuple(size for _, size in _fields_of(flags))


@lru_cache(maxsize=1024)
def _fields_of(flags: int) -> tuple[tuple[str, int], ...]:
    """List the same with the fields' names; raises as ``plan_of`` does."""
    if flags & ~_KNOWN_FLAGS:
        raise RemoteProtocolError(f"property flags {flags:#06x} are not all of the basic class")
    return tuple((name, size) for flag, name, size in _FIELDS if flags & flag)


def check_properties(data: bytes, position: int, stop: int, most: int = 0) -> None:
    """Find that ``data[position:stop]`` is property flags and the fields they announce, to the octet.

    Args:
        data: octets that hold them, and perhaps more.
        position: where the flags stand.
        stop: where the last field ends.
        most: how many values the header table may have; 0 for as many as there are.

    Raises:
        RemoteProtocolError: it is not.
    """
    flags = int.from_bytes(data[position : position + 2], "big")
    position += 2
    try:
        for size in plan_of(flags):
            if size >= 0:
                position += size or 1 + data[position]
            else:
                position = check_table(data, position, most)
    except IndexError:
        position = -1
    if position != stop:
        raise RemoteProtocolError("content properties do not fill their frame as their flags say")


def decode_properties(properties: bytes, *, typed: bool = False, most: int = 0, cut: bool = False) -> BasicProperties:
    """Read the octets of a content header from the property flags on.

    Args:
        properties: flags and fields.
        typed: as for ``read_table``, so that ``encode_properties`` gives the same octets again.
        most: how many values the header table may have; 0 for as many as there are.
        cut: read the first so many values, and do not raise; the properties were checked when they came.

    Raises:
        TooManyFields: there are more.
        RemoteProtocolError: the octets are no properties of the basic class.
    """
    if not cut:
        check_properties(properties, 0, len(properties), most)
    flags = int.from_bytes(properties[:2], "big")
    position = 2
    found: dict[str, _Value] = {}
    for name, size in _fields_of(flags):
        found[name], position = _read(size, properties, position, typed, most)
    return BasicProperties(**found)  # type: ignore[arg-type]  # the table has the type of each name


def _read(size: int, data: bytes, position: int, typed: bool, most: int) -> tuple[_Value, int]:
    if size == _TABLE:
        return read_table(data, position, typed=typed, most=most, cut=True)
    if size == _SHORT_STRING:
        start = position + 1
        stop = start + data[position]
        return data[start:stop].decode("utf-8", "surrogateescape"), stop
    return int.from_bytes(data[position : position + size], "big"), position + size


def split_headers(properties: bytes) -> tuple[bytes, bytes]:
    """Take the fields out of the header table, as octets; the table is there without them.

    Args:
        properties: flags and fields, which were checked when they came.
    """
    where = _find_headers(properties)
    if where is None:
        return properties, b""
    return properties[: where.start] + bytes(4) + properties[where.stop :], properties[where.start + 4 : where.stop]


def join_headers(properties: bytes, fields: bytes) -> bytes:
    """Put the fields of a header table, as octets, in place of those that are there; there has to be a table."""
    where = _find_headers(properties)
    assert where is not None
    return properties[: where.start] + len(fields).to_bytes(4, "big") + fields + properties[where.stop :]


def _find_headers(properties: bytes) -> range | None:
    """Return where the header table is, with its length; None if there is none."""
    position = 2
    for size in plan_of(int.from_bytes(properties[:2], "big")):
        stop = position + _length(size, properties, position)
        if size == _TABLE:
            return range(position, stop)
        position = stop
    return None


def read_property(properties: bytes, name: str) -> str | None:
    """Read one property that is a short string, and nothing else: a table before it is passed over by its length.

    Args:
        properties: flags and fields, which were checked when they came.
        name: which.
    """
    flags, position = int.from_bytes(properties[:2], "big"), 2
    for flag, field, size in _FIELDS:
        if flags & flag:
            if field == name:
                return properties[position + 1 : position + _length(size, properties, position)].decode(
                    "utf-8", "surrogateescape"
                )
            position += _length(size, properties, position)
    return None


def replace_text(properties: bytes, name: str, old: bytes, new: str) -> bytes:
    """Put another text in place of one property's, if it is there and is ``old``; all other octets stay.

    Args:
        properties: flags and fields, which are in order.
        name: one of the properties that are short strings.
        old: the octets of the text that is to be replaced.
        new: what is to be there.

    Raises:
        LocalProtocolError: the new text is too long.
    """
    flags, position = int.from_bytes(properties[:2], "big"), 2
    for flag, field, size in _FIELDS:
        if not flags & flag:
            continue
        stop = position + _length(size, properties, position)
        if field == name:
            if properties[position + 1 : stop] != old:
                break
            return properties[:position] + encode_short_string(new) + properties[stop:]
        position = stop
    return properties


def _length(size: int, data: bytes, position: int) -> int:
    """Return how many octets a field takes, its own length included."""
    if size == _SHORT_STRING:
        return 1 + data[position]
    return 4 + int.from_bytes(data[position : position + 4], "big") if size == _TABLE else size


def encode_properties(properties: BasicProperties) -> bytes:
    """Write property flags and fields.

    Raises:
        LocalProtocolError: a value does not fit its field.
    """
    flags, pieces = 0, [b""]
    value: _Value
    for (flag, name, size), value in zip(_FIELDS, msgspec.structs.astuple(properties), strict=True):
        if value is not None:
            flags |= flag
            pieces.append(_write(name, size, value))
    pieces[0] = flags.to_bytes(2, "big")
    return b"".join(pieces)


def _write(name: str, size: int, value: _Value) -> bytes:
    if isinstance(value, str) and size == _SHORT_STRING:
        return encode_short_string(value)
    if isinstance(value, dict) and size == _TABLE:
        return encode_table(value)
    if isinstance(value, int) and size in _FORMS and 0 <= value < 256**size:
        return _FORMS[size].pack(value)
    raise LocalProtocolError(f"property {name} cannot be {value!r}")
