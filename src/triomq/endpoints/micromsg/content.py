"""Messages of MicroMsg2 inside the broker: their properties stay as they came, and are read on demand.

    properties' length, properties, payload's length, payload ──> queues ──> the same octets to MicroMsg2
                                                               └─> from_micromsg ──> other wires, filters

The names in ``_TEXTS`` and ``_OTHERS`` mean the standard properties, both ways; all others are headers. A standard
name whose value does not fit, such as a priority that is a text, is a header as well. Two names are the broker's:

routing-key
    By which key a message is routed in a topic, and was routed when it is delivered. No header.
redelivered
    Set on a delivery that a client may have had before. From publishers it is not taken.

What has no form here is left out towards clients: lists, tables, octets, and headers whose names have other characters
than letters, digits, hyphen and underscore. The history of a dead letter is JSON, for else the broker would forget it.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Final

import msgspec

from triomq.core import Codecs, Head, HeaderValue, Properties, QueueMessage
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import PropertyValue, decode_properties, encode_properties, is_property_name

MICROMSG_CODEC: Final = 5
"""The codec tag of properties as MicroMsg2 writes them."""

FRAMED: Final = 1
"""In a head's ``frame``: a content has the lengths of properties and payload before them, as in a MESSAGE frame."""

HAS_KEY: Final = 1
"""In a head's ``flags``: the properties have ``routing-key``."""

ROUTING_KEY: Final = "routing-key"
REDELIVERED: Final = "redelivered"
EXPIRATION: Final = "expiration"
DELIVERY_MODE: Final = "delivery-mode"
USER_ID: Final = "user-id"
PRIORITY: Final = "priority"
_TIMESTAMP: Final = "timestamp"
_HISTORY: Final = "x-death"

_TEXTS: Final[Mapping[str, str]] = {
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "message-id": "message_id",
    "type": "type",
    USER_ID: "user_id",
    "app-id": "app_id",
}
"""Properties that are texts, and the fields of the core's that they mean."""

STANDARD: Final[Mapping[str, str]] = {**_TEXTS, PRIORITY: "priority", _TIMESTAMP: "timestamp"}
"""Properties that a filter can ask for though they are no headers."""

_MEANT: Final = frozenset((*STANDARD, EXPIRATION, DELIVERY_MODE, ROUTING_KEY, REDELIVERED))
"""Names that headers of other wires cannot have here: they would be taken for something else."""

_PERSISTENT, _TRANSIENT = 2, 1
_MOST_PRIORITY: Final = 255

_REMEMBERED: Final = 1024
"""Properties of other wires that are remembered by one connection."""

_LONGEST_REMEMBERED: Final = 1024
"""Bytes of those: longer ones differ from message to message."""


def whole_number(value: PropertyValue | None) -> int | None:
    """Return a number that is one, also as SharpMessaging writes it, without a type; None for anything else."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return value if isinstance(value, int) else None


def is_persistent(values: Mapping[str, PropertyValue]) -> bool | None:
    """Return whether a message is to survive a restart; None if it does not say."""
    return {_PERSISTENT: True, _TRANSIENT: False}.get(whole_number(values.get(DELIVERY_MODE)) or 0)


# From a client


def from_micromsg(encoded: bytes) -> Properties:
    """Decode properties into the core's form."""
    return from_values(decode_properties(encoded))


def from_values(values: Mapping[str, PropertyValue]) -> Properties:
    """Return properties in the core's form."""
    fields: dict[str, object] = {}
    headers: dict[str, HeaderValue] = {}
    for name, value in values.items():
        if name in _TEXTS and isinstance(value, str):
            fields[_TEXTS[name]] = value
        elif name in _READ and (found := _READ[name](value)) is not None:
            fields[name.replace("-", "_")] = found
        elif name == _HISTORY:
            headers[name] = _read_history(value)
        elif name not in (ROUTING_KEY, REDELIVERED):
            headers[name] = value
    persistent = fields.pop("delivery_mode", _TRANSIENT) == _PERSISTENT
    return Properties(headers=headers or None, persistent=persistent, **fields)  # type: ignore[arg-type]  # see _READ


def _read_priority(value: PropertyValue) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number <= _MOST_PRIORITY else None


def _read_expiration(value: PropertyValue) -> float | None:
    number = whole_number(value)
    return number / 1000 if number is not None and number >= 0 else None


def _read_mode(value: PropertyValue) -> int | None:
    number = whole_number(value)
    return number if number in (_PERSISTENT, _TRANSIENT) else None


def _read_time(value: PropertyValue) -> datetime | None:
    return value if isinstance(value, datetime) else None


_READ: Final[Mapping[str, Callable[[PropertyValue], int | float | datetime | None]]] = {
    PRIORITY: _read_priority,
    EXPIRATION: _read_expiration,
    DELIVERY_MODE: _read_mode,
    _TIMESTAMP: _read_time,
}
"""Properties that are no texts: what each means, None if the value does not fit."""


def _read_history(value: PropertyValue) -> HeaderValue:
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else None
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(death, dict) for death in found):
        return value  # it is a publisher's own
    for death in found:
        if isinstance(at := death.get("time"), str):
            try:
                death["time"] = datetime.fromisoformat(at)
            except ValueError:
                pass
    return found


def amend_micromsg(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers; all else stays as it came; see ``core.Amend``."""
    values = decode_properties(encoded)
    if drop_expiration:
        values.pop(EXPIRATION, None)
    kept = {name: value for name, value in {**values, **_sayable(headers)}.items() if name not in without}
    return _encode(kept), HAS_KEY if ROUTING_KEY in kept else 0


# To a client


def to_values(properties: Properties) -> dict[str, PropertyValue]:
    """Return the core's properties as MicroMsg2 names them, without what it has no form for."""
    values = _sayable(properties.headers or {})
    for name, field in STANDARD.items():
        if (value := _value(getattr(properties, field))) is not None:
            values[name] = value
    if properties.expiration is not None and isfinite(properties.expiration):
        values[EXPIRATION] = max(0, round(properties.expiration * 1000))
    values[DELIVERY_MODE] = _PERSISTENT if properties.persistent else _TRANSIENT
    return values


def _sayable(headers: Mapping[str, HeaderValue]) -> dict[str, PropertyValue]:
    """Return headers that can be said, by names in lower case; of two that differ in case the first one."""
    values: dict[str, PropertyValue] = {}
    for name, header in headers.items():
        value, lower = _value(header), name.lower()
        if lower == _HISTORY and isinstance(header, list):
            value = msgspec.json.encode(header, enc_hook=str).decode()
        if value is not None and is_property_name(lower) and lower not in _MEANT:
            values.setdefault(lower, value)
    return values


def _value(value: HeaderValue) -> PropertyValue | None:
    match value:
        case bool():
            return int(value)
        case float():
            return value if isfinite(value) else None
        case Decimal():
            return value if value.is_finite() else None
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        case int():
            return value
        case _:
            return None


def _encode(values: Mapping[str, PropertyValue]) -> bytes:
    """Write properties; without headers where they are too long for a frame, and none if that is no help either."""
    for some in (values, {name: value for name, value in values.items() if name in STANDARD}):
        try:
            return encode_properties(some)
        except LocalProtocolError:
            continue
    return b""


class DeliveredProperties:
    """Makes the properties of deliveries that do not go out as they came; made by a connection, ends with it.

    Args:
        codecs: How properties of other wires are read.
    """

    __slots__ = ("_codecs", "_known")

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._known: dict[tuple[int, str, str, bool, bytes], bytes] = {}

    def find(self, message: QueueMessage, *, redelivered: bool) -> bytes:
        """Return the properties with which a client gets a message."""
        head, encoded = message.head, message.properties
        key = (head.traits.codec, head.exchange, head.routing_key, redelivered, encoded)
        found = self._known.get(key)
        if found is None:
            found = self._make(message, redelivered=redelivered)
            if len(encoded) <= _LONGEST_REMEMBERED:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = found
        return found

    def _make(self, message: QueueMessage, *, redelivered: bool) -> bytes:
        head = message.head
        if head.traits.codec == MICROMSG_CODEC:
            values = decode_properties(message.properties)
        else:
            values = to_values(self._codecs.read(message) or Properties(persistent=False))
        if is_keyed(head):
            values[ROUTING_KEY] = _value(head.routing_key) or ""
        if redelivered:
            values[REDELIVERED] = 1
        return _encode(values)


def is_keyed(head: Head) -> bool:
    """Return whether a delivery is to say its key: it came through a sink, and its properties do not have it."""
    if not (head.exchange and head.routing_key):
        return False
    return not (head.traits.codec == MICROMSG_CODEC and head.flags & HAS_KEY)


def goes_as_it_came(head: Head) -> bool:
    """Return whether a content can be sent to a client that has not had it before without a look at its properties."""
    return head.traits.codec == MICROMSG_CODEC and head.frame == FRAMED and not is_keyed(head)
