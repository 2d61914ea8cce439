"""CC and BCC: further routing keys that a message names in its own headers (RabbitMQ's sender-selected distribution).

A message goes to each queue that any of its keys leads to, once. The header BCC is taken off before it goes anywhere.
"""

import msgspec

from triomq.endpoints.content.properties import InvalidProperties, type_name
from triomq.protocols import FieldValue, Typed, decode_properties, encode_properties

CC = b"CC"
"""Octets without which there is neither of the headers: looked for before anything is decoded."""

MOST_KEYS = 1_000
"""Keys that CC and BCC of one message may name together: to look up so many takes some 2 ms where no patterns are, and
RabbitMQ's users name a handful."""

_FIELDS = (b"\x02CC", b"\x03BCC")  # the names as a table has them (section 4.2.5.5)

_TYPE_NAMES = {
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "U": "short",
    "u": "unsignedshort",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
}
"""What RabbitMQ's texts call the types of numbers that are not the usual ones."""


class Copies(msgspec.Struct, frozen=True):
    """The further keys of one message, from CC and BCC.

    Args:
        keys: The further keys, in their order; the message's own is not among them.
        properties: The encoded properties without BCC; None if it was not there.
    """

    keys: tuple[str, ...]
    properties: bytes | None = None


_NO_COPIES = Copies(())


def copies_of(encoded: bytes) -> Copies:
    """Read the headers CC and BCC out of encoded properties; no keys if neither is there.

    Items that are no text are passed over, as RabbitMQ does.

    Raises:
        InvalidProperties: One of them is no array, or there are too many keys.
    """
    if not any(field in encoded for field in _FIELDS):
        return _NO_COPIES  # the two letters stand elsewhere
    properties = decode_properties(encoded, typed=True)
    headers = properties.headers or {}
    keys = [key for name in ("CC", "BCC") if name in headers for key in _keys(name, headers[name])]
    if len(keys) > MOST_KEYS:
        raise InvalidProperties(f"invalid message: CC and BCC name {len(keys)} routing keys; {MOST_KEYS} are allowed")
    if "BCC" not in headers:
        return Copies(tuple(keys))
    rest = {name: value for name, value in headers.items() if name != "BCC"}
    return Copies(tuple(keys), encode_properties(msgspec.structs.replace(properties, headers=rest)))


def _keys(name: str, value: FieldValue) -> list[str]:
    if not isinstance(value, list):
        raise InvalidProperties(f'invalid message: {{unacceptable_type_in_header,"{name}",{_type_of(value)}}}')
    return [key for item in value if (key := _text(item)) is not None]


def _text(item: FieldValue) -> str | None:
    """Return a text as routing keys are read; None for anything else."""
    if isinstance(item, Typed) and item.code == "S" and isinstance(item.value, bytes):
        return item.value.decode("utf-8", "surrogateescape")
    return item if isinstance(item, str) else None


def _type_of(value: FieldValue) -> str:
    if isinstance(value, Typed):
        return _TYPE_NAMES.get(value.code) or type_name(value.value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 31) <= value < 1 << 31:
        return "long"
    return type_name(value)
