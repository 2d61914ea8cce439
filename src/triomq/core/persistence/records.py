"""What the core writes into a store, as bytes, and back: names, options, bindings, heads of messages.

Rules:

- All of it is on disk, so a field is added at the end of its struct with a default, and never taken away.
- Names may be bytes that are no text (AMQP's short strings are octets), so they are recorded as bytes.
- Times are seconds since 1970, since the clock of a domain starts anew with the process.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from math import inf
from secrets import randbits
from time import time
from typing import TypeVar

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from triomq.core.message import Head, traits_of
from triomq.core.routing.bindings import Binding, Target
from triomq.core.routing.predicate import Predicate
from triomq.core.topology.options import QueueOptions, SinkOptions
from triomq.errors import StoreCorrupt
from triomq.properties import from_extension, packable

T = TypeVar("T")

_OCTETS = 3
"""Number of the extension for a text that is none, beside those of ``packing``; on disk, so never reused."""

_ORIGIN, _USER, _IDENTITY = "origin", "user", "identity"
"""Beside the names of options."""

_BUILTIN = (bytes, datetime, Decimal)  # that ``packable`` knows

_encoder = Encoder(order="deterministic")


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


@contextmanager
def decoding(what: str, key: bytes) -> Iterator[None]:
    """Raise whatever decoding raises as one error that names the record.

    Raises:
        StoreCorrupt: The record means nothing.
    """
    try:
        yield
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreCorrupt(
            f"the store has a {what} that cannot be decoded ({error}), with the key {key.hex()}. Start on a backup, or "
            "`triomq store salvage` writes what can be read to a new directory"
        ) from error


# Records


def encode_key(domain: str, *names: str) -> bytes:
    """Name something in a domain."""
    return _encoder.encode([_octets(name) for name in (domain, *names)])


_names = Decoder(list[bytes])


def decode_key(key: bytes) -> list[str]:
    """Decode the domain and the names."""
    return [_text(name) for name in _names.decode(key)]


def encode_options(
    options: QueueOptions | SinkOptions, origin: str = "", user: str = "", *, identity: int = 0
) -> bytes:
    """Encode what a queue or a sink was declared with, the peer that made it, the user who is charged for it, and the
    identity of a stream.
    """
    fields = {
        name: msgspec.to_builtins(getattr(options, name), builtin_types=_BUILTIN) for name in options.__struct_fields__
    }
    if origin:
        fields[_ORIGIN] = origin
    if user:
        fields[_USER] = user
    if identity:
        fields[_IDENTITY] = identity
    return _encoder.encode(packable(_escaped(fields)))


def _escaped(value: object) -> object:
    """Return the same value with an extension for each text that cannot be encoded."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return Ext(_OCTETS, _octets(value))
            return value
        case dict():
            return {name: _escaped(item) for name, item in value.items()}
        case list() | tuple():
            return [_escaped(item) for item in value]
        case _:
            return value


def _from_extension(code: int, data: memoryview) -> object:
    return _text(bytes(data)) if code == _OCTETS else from_extension(code, data)


_fields = Decoder(dict[str, object], ext_hook=_from_extension)


def _decode(value: bytes, kind: type[T]) -> tuple[T, str, str]:
    fields = _fields.decode(value)
    origin, user = fields.pop(_ORIGIN, ""), fields.pop(_USER, "")
    fields.pop(_IDENTITY, 0)
    return msgspec.convert(fields, kind, builtin_types=_BUILTIN), str(origin), str(user)


def decode_queue_options(value: bytes) -> tuple[QueueOptions, str, str]:
    """Return a queue's options, the peer that made it, and the user who is charged for it."""
    return _decode(value, QueueOptions)


def decode_identity(value: bytes) -> int:
    """Return the identity of a stream; 0 of a queue."""
    identity = _fields.decode(value).get(_IDENTITY, 0)
    if not isinstance(identity, int):
        raise TypeError(f"the identity of a stream is a whole number, not {identity!r}")
    return identity


encode_position = encode_number = _encoder.encode
decode_number = Decoder(int).decode
"""The highest number of a publisher."""

_positions = Decoder(int | tuple[int, str, int])


def decode_position(value: bytes) -> tuple[int, str, int]:
    """Return the next offset that a group wants, the user who has set it first, and when it was set last.

    Earlier versions wrote the offset alone; then there is no user, and the time is 0.
    """
    found = _positions.decode(value)
    return (found, "", 0) if isinstance(found, int) else found


def decode_sink_options(value: bytes) -> tuple[SinkOptions, str, str]:
    """Return a sink's options, the peer that made it, and the user who is charged for it."""
    return _decode(value, SinkOptions)


class _Binding(msgspec.Struct, array_like=True):
    domain: bytes
    source: bytes
    target: str
    destination: bytes
    key: bytes
    arguments: bytes
    predicate: bytes | None = None


_BETWEEN = b"\0"
"""Between a peer and a user; before there were users, a peer stood alone."""


def encode_maker(origin: str, user: str = "") -> bytes:
    """Encode the peer that made a binding, and the user who is charged for it."""
    peer = _octets(origin)
    return peer + _BETWEEN + _octets(user) if user or _BETWEEN in peer else peer


def decode_maker(value: bytes) -> tuple[str, str]:
    """Return the peer and the user, each empty if there was none."""
    peer, between, user = value.rpartition(_BETWEEN)
    return (_text(peer), _text(user)) if between else (_text(value), "")


_bindings = Decoder(_Binding)


def encode_binding(domain: str, binding: Binding) -> bytes:
    """Encode a binding; it is its own key."""
    return _encoder.encode(
        _Binding(
            _octets(domain),
            _octets(binding.source),
            binding.target.value,
            _octets(binding.destination),
            _octets(binding.key),
            binding.encoded_arguments,
            None if binding.predicate is None else binding.predicate.encoded,
        )
    )


def decode_binding(key: bytes) -> tuple[str, Binding]:
    """Decode a binding and its domain's name."""
    found = _bindings.decode(key)
    binding = Binding(
        _text(found.source),
        Target(found.target),
        _text(found.destination),
        _text(found.key),
        found.arguments,
        None if found.predicate is None else Predicate(found.predicate),
    )
    return _text(found.domain), binding


# Heads


class _Head(msgspec.Struct, array_like=True, gc=False):
    codec: int
    exchange: bytes
    routing_key: bytes
    properties_start: int
    properties_stop: int
    body_start: int
    body_trailer: int
    frame: int
    flags: int
    has_expiration: bool
    has_priority: bool
    persistent: bool
    level: int = 0
    until: float | None = None  # seconds since 1970
    publisher: int = 0
    life: int = 0  # of the process; a publisher's number means nothing in another one
    expendable: bool = False
    repeated: bool = False


class _Heads(msgspec.Struct, array_like=True, gc=False):
    """Of messages that share traits alone: the encoded heads that occur, and which of them each message has."""

    heads: list[bytes]
    which: list[int]


_head = Decoder(_Head)
_heads = Decoder(_Heads)
_SEVERAL = b"\x92"
"""The first byte of ``_Heads``: an array of two. A head is one of twelve or more."""

_MOST = 4096
"""Heads that are remembered: publishers repeat them."""


class HeadCodec:
    """Encodes heads of messages, with what their queue knows of them besides; created with a broker's persistence.

    The publisher is decoded in the same process alone: after a restart that session has ended. Heads that are equal are
    decoded as one object, so that runs can be put together again.
    """

    __slots__ = ("_decoded", "_encoded", "_heads", "_life")

    def __init__(self) -> None:
        self._encoded: dict[tuple[Head, int], bytes] = {}
        self._decoded: dict[bytes, tuple[Head, int]] = {}
        self._heads: dict[Head, Head] = {}
        self._life = randbits(32)

    def encode(self, head: Head, level: int, deadline: float, now: float) -> bytes:
        """Encode a head.

        Args:
            head: The head.
            level: The priority that its messages count as.
            deadline: When they expire, in seconds of the domain's clock; infinity if never.
            now: The time by that clock.
        """
        if deadline < inf:
            return self._encode(head, level, time() + deadline - now)
        key = (head, level)
        encoded = self._encoded.get(key)
        if encoded is None:
            if len(self._encoded) >= _MOST:
                self._encoded.clear()
            encoded = self._encoded[key] = self._encode(head, level, None)
        return encoded

    def decode(self, encoded: bytes, now: float) -> tuple[Head, int, float]:
        """Decode the head, the level and the deadline; the arguments are those of ``encode``."""
        known = self._decoded.get(encoded)
        if known is not None:
            return (*known, inf)
        found = _head.decode(encoded)
        head = Head(
            _text(found.exchange),
            _text(found.routing_key),
            found.properties_start,
            found.properties_stop,
            found.body_start,
            found.body_trailer,
            found.frame,
            found.flags,
            traits_of(
                codec=found.codec,
                publisher=found.publisher if found.life == self._life else 0,
                has_expiration=found.has_expiration,
                has_priority=found.has_priority,
                persistent=found.persistent,
                expendable=found.expendable,
                repeated=found.repeated,
            ),
        )
        head = self._one(head)
        if found.until is not None:
            return head, found.level, now + found.until - time()
        if len(self._decoded) >= _MOST:
            self._decoded.clear()
        self._decoded[encoded] = (head, found.level)
        return head, found.level, inf

    def encode_run(self, head: Head, heads: Sequence[Head] | None, level: int, deadline: float, now: float) -> bytes:
        """Encode the one head of some messages, or the head of each; the other arguments are those of ``encode``."""
        if heads is None:
            return self.encode(head, level, deadline, now)
        table: dict[Head, int] = {}
        which = [table.setdefault(each, len(table)) for each in heads]
        return _encoder.encode(_Heads([self.encode(each, level, deadline, now) for each in table], which))

    def decode_run(self, encoded: bytes, count: int, now: float) -> tuple[Head, list[Head] | None, int, float]:
        """Decode the first head of so many messages, the head of each unless it is that, their level and deadline.

        Raises:
            msgspec.DecodeError: ``encode_run`` has not written it, or not for so many messages.
        """
        if encoded[:1] != _SEVERAL:
            head, level, deadline = self.decode(encoded, now)
            return head, None, level, deadline
        found = _heads.decode(encoded)
        table = [self.decode(each, now) for each in found.heads]
        if not count or len(found.which) != count or not all(0 <= number < len(table) for number in found.which):
            raise msgspec.DecodeError(f"{len(found.which)} heads of {len(table)} kinds, for {count} messages")
        head, level, deadline = table[found.which[0]]
        heads = [table[number][0] for number in found.which]
        return head, heads if len(table) > 1 else None, level, deadline

    def _one(self, head: Head) -> Head:
        """Return the equal head that was returned before, if there was one."""
        if len(self._heads) >= _MOST:
            self._heads.clear()
        return self._heads.setdefault(head, head)

    def _encode(self, head: Head, level: int, until: float | None) -> bytes:
        return _encoder.encode(
            _Head(
                head.traits.codec,
                _octets(head.exchange),
                _octets(head.routing_key),
                head.properties_start,
                head.properties_stop,
                head.body_start,
                head.body_trailer,
                head.frame,
                head.flags,
                head.traits.has_expiration,
                head.traits.has_priority,
                head.traits.persistent,
                level,
                until,
                head.traits.publisher,
                self._life if head.traits.publisher else 0,
                head.traits.expendable,
                head.traits.repeated,
            )
        )
