"""From AMQP's properties to the core's and back, for consumers behind another endpoint and for headers sinks."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

import msgspec

from triomq.core import HeaderValue, Properties
from triomq.errors import LocalProtocolError, PreconditionFailed
from triomq.protocols import (
    MOST_VALUES,
    BasicProperties,
    FieldValue,
    Timestamp,
    TooManyFields,
    Typed,
    decode_properties,
    encode_properties,
    join_headers,
    split_headers,
)

AMQP_CODEC = 1
"""The codec tag of properties as an AMQP 0-9-1 content header carries them (section 4.2.6.1), flags first."""

_PERSISTENT, _TRANSIENT = 2, 1  # delivery-mode

_DEEPEST = 64
"""Levels of tables and lists in a header that are read; a peer may nest thousands, at which Python gives up."""

_NOTHING = BasicProperties()

_MILLISECONDS = re.compile(r"\+?[0-9]+|-0+")


class InvalidProperties(PreconditionFailed):
    """A message has a property that is not possible, or that its publisher may not set; it is refused."""


def from_amqp(encoded: bytes) -> Properties:
    """Decode the properties of a content header, flags first, into the core's form.

    Of headers with more than ``MOST_VALUES`` values the first ones are looked into: each look at all of them would hold
    up all other clients.
    """
    return from_basic(decode_properties(encoded, most=MOST_VALUES, cut=True))


def from_basic(basic: BasicProperties) -> Properties:
    """Return properties in the core's form."""
    return Properties(
        content_type=basic.content_type,
        content_encoding=basic.content_encoding,
        headers=None if basic.headers is None else {name: plain_value(value) for name, value in basic.headers.items()},
        persistent=basic.delivery_mode == _PERSISTENT,
        priority=basic.priority,
        correlation_id=basic.correlation_id,
        reply_to=basic.reply_to,
        expiration=_seconds(basic.expiration),
        message_id=basic.message_id,
        timestamp=None if basic.timestamp is None else _moment(basic.timestamp),
        type=basic.type,
        user_id=basic.user_id,
        app_id=basic.app_id,
    )


def amend_amqp(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers in the properties of a content header, the others keep their wire types; see ``core.Amend``.

    Very many headers are not looked into: what is set stands behind them, and of two with one name the last counts.
    """
    try:
        basic = decode_properties(encoded, typed=True, most=MOST_VALUES)
    except TooManyFields:
        return _amend_unread(encoded, headers, drop_expiration=drop_expiration)
    before = basic.headers or {}
    merged = {**before, **{name: _set_field(value, before.get(name)) for name, value in headers.items()}}
    changed = msgspec.structs.replace(
        basic,
        headers={name: value for name, value in merged.items() if name not in without} or None,
        expiration=None if drop_expiration else basic.expiration,
    )
    amended = encode_properties(changed)
    return amended, int.from_bytes(amended[:2], "big")


def _amend_unread(encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool) -> tuple[bytes, int]:
    rest, fields = split_headers(encoded)
    basic = decode_properties(rest, typed=True)
    changed = msgspec.structs.replace(
        basic,
        headers={name: _set_field(value, None) for name, value in headers.items()},
        expiration=None if drop_expiration else basic.expiration,
    )
    rest, added = split_headers(encode_properties(changed))
    return join_headers(rest, fields + added), int.from_bytes(rest[:2], "big")


def headers_of(encoded: bytes) -> dict[str, HeaderValue]:
    """Decode the headers alone."""
    headers = decode_properties(encoded, most=MOST_VALUES, cut=True).headers or {}
    return {name: plain_value(value) for name, value in headers.items()}


def to_amqp(properties: Properties, *, room: int | None = None) -> bytes:
    """Encode the core's properties as a content header carries them, flags first; other properties are left out.

    Args:
        properties: They came over another wire or from this process. So what cannot be written is left out, for it is
            not the fault of the consumer, whose connection it would cost.
        room: Octets that a consumer can be sent; if they are too few, headers are left out as well.
    """
    basic = to_basic(properties)
    try:
        encoded = encode_properties(basic)
    except LocalProtocolError:
        basic = sayable(basic)
        encoded = encode_properties(basic)
    if room is not None and len(encoded) > room and basic.headers:
        return encode_properties(msgspec.structs.replace(basic, headers=None))
    return encoded


def to_basic(properties: Properties) -> BasicProperties:
    """Return the core's properties as AMQP has them; they may have values that it has no form for."""
    headers = properties.headers
    return BasicProperties(
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        headers=None if headers is None else {name: _told_field(name, value) for name, value in headers.items()},
        delivery_mode=_PERSISTENT if properties.persistent else _TRANSIENT,
        priority=properties.priority,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        expiration=_milliseconds(properties.expiration),
        message_id=properties.message_id,
        timestamp=None if properties.timestamp is None else int(properties.timestamp.timestamp()),
        type=properties.type,
        user_id=properties.user_id,
        app_id=properties.app_id,
    )


def sayable(basic: BasicProperties) -> BasicProperties:
    """Leave out properties and headers that AMQP has no form for: a text too long, a number too large."""
    headers = {name: value for name, value in (basic.headers or {}).items() if _is_encodable("headers", {name: value})}
    whole = msgspec.structs.replace(basic, headers=headers or None)
    encodable = {name: value for name, value in msgspec.structs.asdict(whole).items() if _is_encodable(name, value)}
    return BasicProperties(**encodable)


def _is_encodable(name: str, value: object) -> bool:
    try:
        encode_properties(msgspec.structs.replace(_NOTHING, **{name: value}))
    except LocalProtocolError:
        return False
    return True


def _milliseconds(expiration: float | None) -> str | None:
    """Return seconds as RabbitMQ reads expiration; what is past is 0, what never comes None."""
    if expiration is None or not isfinite(expiration):
        return None
    return str(max(0, round(expiration * 1000)))


def _seconds(expiration: str | None) -> float | None:
    """Milliseconds as text, as RabbitMQ reads expiration; what is no number never expires."""
    return int(expiration) / 1000 if expiration is not None and _MILLISECONDS.fullmatch(expiration) else None


def _moment(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def plain_value(value: FieldValue, depth: int = 0) -> HeaderValue:
    """Return a field's value without its wire type, nested ones as deep as makes sense."""
    if depth > _DEEPEST:
        return None
    match value:
        case Timestamp(seconds):
            return _moment(seconds)
        case Typed(_, plain):
            return plain_value(plain, depth)
        case list():
            return [plain_value(item, depth + 1) for item in value]
        case dict():
            return {name: plain_value(item, depth + 1) for name, item in value.items()}
        case _:
            return value


def _to_field(value: HeaderValue) -> FieldValue:
    match value:
        case datetime():
            return Timestamp(int(value.timestamp()))
        case list():
            return [_to_field(item) for item in value]
        case dict():
            return {str(name): _to_field(item) for name, item in value.items()}
        case None | bool() | int() | float() | str() | bytes() | Decimal():
            return value
        case _:
            return str(value)


_OURS = frozenset(("x-death", "x-delivery-count"))
"""Headers of the broker's own, also in messages that did not come over AMQP."""


def _told_field(name: str, value: HeaderValue) -> FieldValue:
    return _to_wide_field(value) if name in _OURS else _to_field(value)


def _set_field(value: HeaderValue, before: FieldValue) -> FieldValue:
    """Return a header that the broker sets; of a list, such as x-death, what was in it already keeps its wire types."""
    if not isinstance(value, list):
        return _to_wide_field(value)
    known = before if isinstance(before, list) else []
    same = {repr(plain_value(item)): item for item in known}
    return [same[repr(item)] if repr(item) in same else _to_wide_field(item) for item in value]


def _to_wide_field(value: HeaderValue) -> FieldValue:
    """Return a field whose numbers have 64 bits, as RabbitMQ's have: clients in Java cast its counts to Long."""
    match value:
        case list():
            return [_to_wide_field(item) for item in value]
        case dict():
            return {str(name): _to_wide_field(item) for name, item in value.items()}
        case int() if not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
            return Typed("l", int(value))
        case _:
            return _to_field(value)


def type_name(value: object) -> str:
    """Name a value's type as RabbitMQ's texts do."""
    names = {
        bool: "bool",
        int: "signedint",
        float: "double",
        str: "longstr",
        bytes: "binary",
        list: "array",
        dict: "table",
        Decimal: "decimal",
    }
    return names.get(type(value), "void" if value is None else "timestamp")
