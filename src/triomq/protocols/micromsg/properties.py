r"""Properties of a message: ``key:value;`` as often as there are some, in ASCII, each value with its type before it.

    priority:N5;sent:D1413198000.5;customer:TJ%C3%B6nas;

====== ================================================= =================================================
octet  on the wire                                       as a value
====== ================================================= =================================================
``N``  a number in decimal digits                        ``int`` of 64 bits, ``float`` where it has a
                                                         fraction, ``Decimal`` where it is too large
``D``  seconds since 1970, in UTC, with a fraction       ``datetime`` with the zone UTC
``T``  escaped text                                      ``str``
\      anything else, as SharpMessaging sends it         ``str``, first octet included
====== ================================================= =================================================

Rules:

- Names are read in any case and are lower case from then on: two that differ in case alone are one name, twice.
- Where a peer is known to write no types, its values are texts whatever they begin with, and are given their type
  before anybody else sees them.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Final, TypeAlias

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.escapes import escape, unescape

PropertyValue: TypeAlias = str | int | float | Decimal | datetime

LONGEST_PROPERTIES: Final = 0xFFFF
"""Octets of all properties of a message: what their length of two octets can say."""

_NAME: Final = re.compile("[A-Za-z0-9_-]+")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_TIME: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,40})?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_INTEGER: Final = 20
"""Characters within which a number may be one of 64 bits."""


def is_property_name(name: str) -> bool:
    """Return whether a property can have this name: lower case, digits, hyphen and underscore."""
    return _NAME.fullmatch(name) is not None and name == name.lower()


def read_value(text: str, what: str) -> PropertyValue:
    """Read a typed value; what is none is a text.

    Raises:
        PeerError: an escape is spoilt.
    """
    kind, rest = text[:1], text[1:]
    if kind == "T":
        return unescape(rest, what)
    if kind == "N" and _NUMBER.fullmatch(rest):
        return _number(rest)
    if kind == "D" and _TIME.fullmatch(rest):
        found = _time(rest)
        if found is not None:
            return found
    return unescape(text, what)


def _number(text: str) -> PropertyValue:
    if len(text) <= _LONGEST_INTEGER and text.lstrip("+-").isdigit():
        number = int(text)
        if -(1 << 63) <= number < 1 << 63:
            return number
    fraction = float(text)
    return fraction if isfinite(fraction) and not text.lstrip("+-").isdigit() else Decimal(text)


def _time(text: str) -> datetime | None:
    """Return a moment; None if no calendar has it. What is below a microsecond is cut off."""
    seconds, _, fraction = text.partition(".")
    micros = int(fraction[:6].ljust(6, "0"))
    try:
        return _EPOCH + timedelta(seconds=int(seconds), microseconds=-micros if text.startswith("-") else micros)
    except OverflowError:
        return None


def write_value(value: PropertyValue) -> str:
    """Write a value with its type.

    Raises:
        LocalProtocolError: there is no type for it.
    """
    match value:
        case str():
            return f"T{escape(value)}"
        case bool():
            pass
        case int():
            return f"N{value}"
        case float() if isfinite(value):
            return f"N{value!r}"
        case Decimal() if value.is_finite():
            return f"N{value:f}"
        case datetime() if value.tzinfo is not None:
            micros = (value - _EPOCH) // timedelta(microseconds=1)
            whole, rest = divmod(abs(micros), 1_000_000)
            return f"D{'-' if micros < 0 else ''}{whole}.{f'{rest:06}'.rstrip('0') or '0'}"
    raise LocalProtocolError(f"{value!r} is no value of a property; texts, numbers and times with a zone are")


def _pairs(octets: bytes) -> list[tuple[str, str]]:
    """Cut properties into names in lower case and values as they stand.

    Raises:
        PeerError: they are none.
    """
    try:
        text = octets.decode("ascii")
    except UnicodeDecodeError:
        raise PeerError(400, "properties are not ASCII; other characters are to be escaped") from None
    pairs: list[tuple[str, str]] = []
    for part in text.split(";"):
        part = part.strip(" ")
        if not part:
            continue
        name, colon, value = part.partition(":")
        if not colon:
            raise PeerError(400, f"property {part[:40]!r} has no ':' between name and value")
        if _NAME.fullmatch(name) is None:
            raise PeerError(400, f"{name[:40]!r} is no name of a property; letters, digits, '-' and '_' make one")
        pairs.append((name.lower(), value))
    return pairs


def read_properties(octets: bytes, *, is_typed: bool = True) -> dict[str, PropertyValue]:
    """Read properties of a peer.

    Args:
        octets: behind their length.
        is_typed: whether values have their type before them; otherwise all are texts.

    Raises:
        PeerError: they are none.
    """
    found: dict[str, PropertyValue] = {}
    for name, text in _pairs(octets):
        if name in found:
            raise PeerError(400, f"property {name[:40]!r} stands there twice")
        what = f"property {name[:40]}"
        found[name] = read_value(text, what) if is_typed else unescape(text, what)
    return found


def decode_properties(octets: bytes) -> dict[str, PropertyValue]:
    """Read properties that have been found in order, as those of a shape are; others are none."""
    try:
        return read_properties(octets)
    except PeerError:
        return {}


def encode_properties(properties: Mapping[str, PropertyValue]) -> bytes:
    """Write properties, behind their length.

    Raises:
        LocalProtocolError: a name or a value cannot be written, or they are too long.
    """
    parts: list[str] = []
    for name, value in properties.items():
        if not is_property_name(name):
            raise LocalProtocolError(f"{name!r} is no name of a property; a-z, 0-9, '-' and '_' make one")
        parts.append(f"{name}:{write_value(value)};")
    octets = "".join(parts).encode()
    if len(octets) > LONGEST_PROPERTIES:
        raise LocalProtocolError(f"properties of {len(octets)} octets; a message has room for {LONGEST_PROPERTIES}")
    return octets


def untyped_properties(octets: bytes) -> bytes:
    """Write properties for SharpMessaging: one at most, as a text without a type; none where there are several.

    Its reader ends the process when there are two, or more than 256 octets.
    """
    found = decode_properties(octets)
    if len(found) != 1:
        return b""
    ((name, value),) = found.items()
    text = escape(value) if isinstance(value, str) else write_value(value)[1:]
    written = f"{name}:{text};".encode()
    return written if len(written) <= 256 else b""
