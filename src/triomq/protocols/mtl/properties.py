"""Properties of a Content: a field table of AMQP 0-9-1 whose names are those of AMQP's properties, with hyphens.

11/MTL leaves both open ("field table: to be defined"). These are the names, with what AMQP's class basic calls each,
and the type of the value:

==================================  ====================  =====================
name                                AMQP                  value
==================================  ====================  =====================
content-type, content-encoding,     the same, with ``_``  text, 255 octets
correlation-id, reply-to,
expiration, message-id, type,
user-id, app-id
sender                              cluster_id            text, 255 octets
delivery-mode, priority             the same              number of one octet
timestamp                           the same              timestamp, or number
headers                             the same              table
address                             the routing key       text, 255 octets
exchange                            the exchange          text, 255 octets
redelivered                         redelivered           boolean
all others                          in headers            any
==================================  ====================  =====================

A name in ``headers`` wins over the same one beside it. Of two entries with one name the last one counts.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from triomq.errors import RemoteProtocolError
from triomq.protocols.fields import (
    FieldValue,
    Table,
    Timestamp,
    TooManyFields,
    Typed,
    decode_table,
    encode_table,
    read_table,
)
from triomq.protocols.mtl.headers import LONGEST_TEXT, is_printable
from triomq.protocols.mtl.requests import WireFault
from triomq.protocols.properties import BasicProperties

EMPTY_TABLE: Final = b"\0\0\0\0"

DEEPEST_TABLE: Final = 16

_TEXTS: Final = {
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "expiration": "expiration",
    "message-id": "message_id",
    "type": "type",
    "user-id": "user_id",
    "app-id": "app_id",
    "sender": "cluster_id",
}
_NUMBERS: Final = {"delivery-mode": ("delivery_mode", 1 << 8), "priority": ("priority", 1 << 8)}
_MOMENTS: Final = 1 << 64
_OURS: Final = ("address", "exchange")
"""Texts that AMQP has in its methods, and not among the properties."""

NUMBER_NAMES: Final = ("delivery-mode", "priority", "timestamp")


class InvalidContent(RemoteProtocolError):
    """A table is well formed, and says something that no message can have, or more than its reader takes.

    Args:
        text: What is wrong.
        code: What a Response to it says.
    """

    def __init__(self, text: str, code: int = 400) -> None:
        self.code = code
        super().__init__(text)


class ContentProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the table of a Content.

    Args:
        basic: AMQP's properties.
        address: Where it is meant to go, or was sent to: AMQP's routing key.
        exchange: Where it was published.
        redelivered: Whether it may have been delivered before.
    """

    basic: BasicProperties = BasicProperties()
    address: str | None = None
    exchange: str | None = None
    redelivered: bool = False


def decode_content(table: bytes) -> ContentProperties:
    """Read the table of a Content, its four octets of length included.

    Raises:
        RemoteProtocolError: The octets are no table.
        InvalidContent: A property is not of its type.
    """
    return content_of(decode_table(table, typed=True))


def content_of(entries: Mapping[str, FieldValue]) -> ContentProperties:
    """Return the properties that the entries of a table are.

    Raises:
        InvalidContent: One is not of its type.
    """
    basic: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    headers: dict[str, FieldValue] = {}
    for name, value in entries.items():
        if name in _TEXTS:
            basic[_TEXTS[name]] = _text(name, value)
        elif name in _NUMBERS:
            field, end = _NUMBERS[name]
            basic[field] = _number(name, value, end)
        elif name == "timestamp":
            basic[name] = value.seconds if isinstance(value, Timestamp) else _number(name, value, _MOMENTS)
        elif name == "headers":
            if not isinstance(value, dict):
                raise InvalidContent("headers has to be a table")
        elif name in _OURS:
            ours[name] = _text(name, value)
        elif name == "redelivered":
            if not isinstance(value, bool):
                raise InvalidContent("redelivered has to be a boolean")
            ours[name] = value
        else:
            headers[name] = value
    told = entries.get("headers")
    if isinstance(told, dict):
        headers |= told
    if headers or told is not None:
        basic["headers"] = headers
    return ContentProperties(basic=BasicProperties(**basic), **ours)


def _text(name: str, value: FieldValue) -> str:
    if isinstance(value, Typed) and value.code == "S" and isinstance(value.value, bytes):
        value = value.value.decode("utf-8", "surrogateescape")  # as everywhere with AMQP's properties
    if not isinstance(value, str):
        raise InvalidContent(f"{name} has to be a text")
    size = len(value.encode("utf-8", "surrogateescape"))
    if size > LONGEST_TEXT:
        raise InvalidContent(f"{name} has {size} octets; at most {LONGEST_TEXT} are allowed")
    return value


def _number(name: str, value: FieldValue, end: int) -> int:
    plain = value.value if isinstance(value, Typed) else value
    if not isinstance(plain, int) or isinstance(plain, bool) or not 0 <= plain < end:
        raise InvalidContent(f"{name} has to be a number from 0 to {end - 1}")
    return plain


def content_entries(properties: ContentProperties) -> Table:
    """Return the entries of a table for properties, in the order of AMQP; for ``encode_content``, or to be shown."""
    basic = properties.basic
    entries: Table = {}
    for name, field in _TEXTS.items():
        text = getattr(basic, field)
        if text is not None:
            entries[name] = text
    for name, (field, _) in _NUMBERS.items():
        number = getattr(basic, field)
        if number is not None:
            entries[name] = number
    if basic.timestamp is not None:
        entries["timestamp"] = Timestamp(basic.timestamp)
    if basic.headers is not None:
        entries["headers"] = basic.headers
    for name in _OURS:
        text = getattr(properties, name)
        if text is not None:
            entries[name] = text
    if properties.redelivered:
        entries["redelivered"] = True
    return entries


def encode_content(properties: ContentProperties) -> bytes:
    """Write the table of a Content.

    Raises:
        LocalProtocolError: A value does not fit.
    """
    return encode_table(content_entries(properties))


def is_content_table(table: bytes) -> bool:
    """Return whether readers take a table, which may have come over another wire: they drop what they cannot read."""
    try:
        content_of(read_content_table(table, 0))
    except (WireFault, InvalidContent):
        return False
    return True


def read_content_table(header: bytes, position: int, most: int = 0) -> Table:
    """Read the table that fills a header from a position on, which may have so many values; 0 is without limit.

    Raises:
        InvalidContent: It has more.
        WireFault: It is no table, or something is behind it.
    """
    if position + 4 > len(header):
        raise WireFault("header")
    try:
        entries, stop = read_table(header, position, typed=True, deepest=DEEPEST_TABLE, most=most)
    except TooManyFields:
        raise InvalidContent(f"the table has more than {most} values", 413) from None
    except RemoteProtocolError:
        raise WireFault("table") from None
    if stop != len(header):
        raise WireFault("header")
    if not _is_named_well(entries):
        raise WireFault("table")
    return entries


def _is_named_well(entries: Table) -> bool:
    """Return whether all names in a table, and in those inside of it, are short strings that are not empty."""
    inside: list[FieldValue] = [entries]
    while inside:
        value = inside.pop()
        if isinstance(value, dict):
            if not all(map(_is_field_name, value)):
                return False
            inside += value.values()
        elif isinstance(value, list):
            inside += value
    return True


def _is_field_name(name: str) -> bool:
    try:
        return bool(name) and is_printable(name.encode())
    except UnicodeEncodeError:
        return False  # it was not UTF-8
