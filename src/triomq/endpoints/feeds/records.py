"""What is on disk of RestMS beside sinks, queues and bindings: pipes, joins, and what feeds are called.

One record each, under the names ``restms``, kind, and hash or name, written in the turn in which the thing is made, so
that there are both or neither.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from triomq.core import Directory, KeyedRecords, RecordKind
from triomq.errors import StoreCorrupt

_PROTOCOL: Final = "restms"

RecordedKind: TypeAlias = Literal["feed", "pipe", "join"]


class FeedRecord(msgspec.Struct, frozen=True, array_like=True):
    """What RestMS knows of a feed (its word) beside its sink or queue.

    Args:
        type: As it was made.
        user: Who has made it.
        title: For people.
        license: For people.
    """

    type: str
    user: str
    title: str = ""
    license: str = ""
    modified: float = 0.0


class PipeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A pipe: its type as it was made, its user, its title."""

    type: str
    user: str
    title: str = ""
    modified: float = 0.0


class JoinRecord(msgspec.Struct, frozen=True, array_like=True):
    """A join: the hash of its pipe, its feed (RestMS's word), whether that is a queue, address and headers."""

    pipe: str
    feed: str
    is_queue: bool
    address: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    modified: float = 0.0


Record = FeedRecord | PipeRecord | JoinRecord
T = TypeVar("T", FeedRecord, PipeRecord, JoinRecord)

_TYPES: Final[dict[str, type[Record]]] = {"feed": FeedRecord, "pipe": PipeRecord, "join": JoinRecord}

_encode: Final = msgspec.msgpack.Encoder().encode


class FeedRecords:
    """The records of one domain; without a store there are none."""

    def __init__(self, directory: Directory) -> None:
        self._records = KeyedRecords(directory, RecordKind.RESOURCE)
        self._persistence = directory.persistence

    def put(self, kind: RecordedKind, name: str, record: Record, *, is_new: bool = False) -> None:
        """Write a record, in place of the one of that name."""
        self._records.put((_PROTOCOL, kind, name), _encoded(record), is_new=is_new)
        self._mark()

    def remove(self, kind: RecordedKind, name: str) -> None:
        """Remove a record, if it is there."""
        self._records.remove((_PROTOCOL, kind, name))
        self._mark()

    def _mark(self) -> None:
        """Let clients be answered when this is on disk: not all of it has a sink or a queue that sees to that."""
        if self._persistence is not None:
            self._persistence.mark_sync_point()

    def recovered(self) -> Iterator[tuple[str, Record]]:
        """Yield names and records that the store has, joins before pipes.

        Raises:
            StoreCorrupt: One cannot be read.
        """
        for (_, kind, name), value in self._records.recovered():
            try:
                yield name, _decoded(value, _TYPES[kind])
            except (KeyError, msgspec.DecodeError) as error:
                raise StoreCorrupt(f"the record of RestMS's {kind} {name!r} cannot be read: {error}") from None


_NOT_UTF_8: Final = b"\xc1"
"""What a record with such texts begins with, as nothing in msgpack does; in it each byte of a text is one letter."""


def _encoded(record: Record) -> bytes:
    try:
        return _encode(record)
    except UnicodeEncodeError:
        letters = _each_text(
            msgspec.to_builtins(record), lambda text: text.encode("utf-8", "surrogateescape").decode("latin-1")
        )
        return _NOT_UTF_8 + _encode(letters)


def _decoded(value: bytes, type_: type[Record]) -> Record:
    if not value.startswith(_NOT_UTF_8):
        return msgspec.msgpack.decode(value, type=type_)
    texts = _each_text(
        msgspec.msgpack.decode(value[1:]), lambda text: text.encode("latin-1").decode("utf-8", "surrogateescape")
    )
    return msgspec.convert(texts, type_)


def _each_text(found: object, change: Callable[[str], str]) -> object:
    match found:
        case str():
            return change(found)
        case dict():
            return {name: _each_text(value, change) for name, value in found.items()}
        case list() | tuple():
            return [_each_text(value, change) for value in found]
        case _:
            return found
