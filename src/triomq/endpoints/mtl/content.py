"""Contents of MTL inside the broker: the field table as it came, with the body behind it.

    Content ──> table + body ──> queues ──> table, and what the broker has to say ──> Content
                                        └─> from_mtl ──> the core's properties ──> other wires, headers sinks

So what goes from MTL to MTL is never taken apart. The broker adds what it knows of a message to the end of its table:
where it was published, by which key, and whether it may have been delivered before. Those that a client writes itself
are taken out of its table first, so that none stands there twice. Messages of other wires are given a table, which is
remembered, since neighbours mostly have the same properties.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from triomq.core import Codecs, Head, HeaderValue, Properties, QueueMessage
from triomq.endpoints.content import AMQP_CODEC, from_basic, sayable, to_basic
from triomq.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from triomq.protocols import BasicProperties, FieldValue, decode_properties, decode_table, encode_table
from triomq.protocols.mtl import (
    EMPTY_TABLE,
    ContentProperties,
    content_entries,
    decode_content,
    encode_content,
    is_content_table,
)

MTL_CODEC: Final = 4
"""The codec tag of properties as the table of a Content has them, its four octets of length first."""

HAS_ADDRESS: Final = 1
"""In a head's flags: the table has the property ``address``."""

BROKERS_OWN: Final = ("exchange", "redelivered")
"""Properties that the broker alone may set."""

_REMEMBERED: Final = 1024
"""Tables of one endpoint that are remembered, for messages of other wires and for what is added."""

_LONGEST_REMEMBERED: Final = 1024
"""Bytes of properties of another wire that are remembered: larger ones differ from message to message."""

_LENGTH: Final = len(EMPTY_TABLE)


def from_mtl(encoded: bytes) -> Properties:
    """Decode a table into the core's form."""
    return from_basic(decode_content(encoded).basic)


def amend_mtl(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers in a table; all else keeps its wire types; see ``core.Amend``."""
    entries = decode_table(encoded, typed=True)
    told = entries.get("headers")
    before = told if isinstance(told, dict) else {}
    new = to_basic(Properties(headers=dict(headers))).headers or {}
    kept = {name: value for name, value in {**before, **new}.items() if name not in without}
    entries = {name: value for name, value in entries.items() if name not in without}
    if kept:
        entries["headers"] = kept
    else:
        entries.pop("headers", None)
    if drop_expiration:
        entries.pop("expiration", None)
    return encode_table(entries), HAS_ADDRESS if "address" in entries else 0


def without_own(table: bytes) -> bytes:
    """Return a table without what the broker alone may set."""
    entries = decode_table(table, typed=True)
    return encode_table({name: value for name, value in entries.items() if name not in BROKERS_OWN})


def with_message_id(table: bytes, text: str) -> bytes:
    """Return a table with a message-id, which it has not."""
    return _extended(table, encode_table({"message-id": text})[_LENGTH:])


def _extended(table: bytes, entries: bytes) -> bytes:
    """Add encoded entries to the end of a table."""
    return (len(table) - _LENGTH + len(entries)).to_bytes(_LENGTH, "big") + table[_LENGTH:] + entries


class ContentTables:
    """Makes the tables of contents that are sent; made by an endpoint, for all its readers.

    Args:
        codecs: How properties of other wires are read.
    """

    __slots__ = ("_added", "_codecs", "_foreign")

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._foreign: dict[tuple[int, bytes], bytes] = {}
        self._added: dict[tuple[str, str, int, bool], bytes] = {}

    def table(self, message: QueueMessage) -> bytes:
        """Return the table of a message, without what the broker adds."""
        codec = message.head.traits.codec
        if codec == MTL_CODEC:
            return message.properties
        key = (codec, message.properties)
        return self._foreign.get(key) or self._add_foreign(key, message)

    def added(self, head: Head, *, redelivered: bool) -> bytes:
        """Return the entries that the broker adds for a head: none where the message went straight into its queue."""
        key = (head.exchange, head.routing_key, head.flags if head.traits.codec == MTL_CODEC else 0, redelivered)
        found = self._added.get(key)
        return self._add_entries(key) if found is None else found

    def whole(self, message: QueueMessage, *, redelivered: bool) -> bytes:
        """Return the table of a message as its reader gets it."""
        table, added = self.table(message), self.added(message.head, redelivered=redelivered)
        return _extended(table, added) if added else table

    def _add_foreign(self, key: tuple[int, bytes], message: QueueMessage) -> bytes:
        table = _encode(self._basic_of(message))
        if len(key[1]) <= _LONGEST_REMEMBERED:
            if len(self._foreign) >= _REMEMBERED:
                self._foreign.clear()
            self._foreign[key] = table
        return table

    def _basic_of(self, message: QueueMessage) -> BasicProperties:
        if message.head.traits.codec == AMQP_CODEC:
            try:
                return decode_properties(message.properties, typed=True)
            except RemoteProtocolError:
                return BasicProperties()  # carried as it came, whatever it is
        return to_basic(self._codecs.read(message) or Properties())

    def _add_entries(self, key: tuple[str, str, int, bool]) -> bytes:
        if len(self._added) >= _REMEMBERED:
            self._added.clear()
        exchange, address, flags, redelivered = key
        entries: dict[str, FieldValue] = {}
        if exchange:
            entries["exchange"] = exchange
            if address and not flags & HAS_ADDRESS:
                entries["address"] = address
        if redelivered:
            entries["redelivered"] = True
        table = encode_table(entries)
        added = self._added[key] = table[_LENGTH:] if is_content_table(table) else b""
        return added


def _encode(basic: BasicProperties) -> bytes:
    """Write a table for properties of another wire; what readers would refuse is left out, since they would drop it."""
    for named in (basic, sayable(basic), msgspec.structs.replace(sayable(basic), headers=None)):
        try:
            table = encode_content(ContentProperties(basic=named))
        except LocalProtocolError:
            continue
        if is_content_table(table):
            return table
        plain = {name: value for name, value in (named.headers or {}).items() if name and name.isprintable()}
        table = encode_content(ContentProperties(basic=msgspec.structs.replace(named, headers=plain or None)))
        if is_content_table(table):
            return table
    return EMPTY_TABLE


def properties_of(message: QueueMessage, codecs: Codecs, *, redelivered: bool = False) -> dict[str, FieldValue]:
    """Return the properties of a message by the names of MTL, whichever wire it came over."""
    whole = ContentTables(codecs).whole(message, redelivered=redelivered)
    try:
        return content_entries(decode_content(whole))
    except ProtocolError:
        return {}
