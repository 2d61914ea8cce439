"""Records of one kind in one domain: what a protocol has beside queues and messages, each under a key of its own.

    KeyedRecords(directory, RecordKind.JOB) ── put, remove ──▶ open batch   of one key only the last, see ``store``
                                            ◀── recovered ──   what the store had when the broker was opened
                                            ◀── read ──────    a value of the kinds that are read singly

- What is written in a turn is in one batch with all else that happens in it, such as the publish of a job: after a
  crash there are both, or neither of them. What a value means is for its owner to know.
- A key is a few names, so that owners can order their records: all that begin with the same names are a range. A range
  goes in one operation, however many records are in it (results that have expired).
- Without a store there are no records, and nothing is written.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from triomq.core.persistence.records import decode_key, encode_key
from triomq.errors import StoreError
from triomq.store import RecordFound, RecordKeyFound, RecordKind, RecordPut, RecordRangeRemoved, RecordRemoved

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

Names = tuple[str, ...]


class KeyedRecords:
    """The records of a kind in a domain; created by their owner, once for each domain.

    Args:
        directory: The domain's.
        kind: No other owner may have it.
    """

    def __init__(self, directory: "Directory", kind: RecordKind) -> None:
        self._domain = directory.name
        self._persistence = directory.persistence
        self._kind = kind

    @property
    def is_durable(self) -> bool:
        """Whether there is a store."""
        return self._persistence is not None

    def put(self, names: Names, value: bytes, *, is_new: bool = False) -> int:
        """Write a record, in place of what was there under its names.

        Args:
            names: One or more.
            value: What ``recovered`` or ``read`` returns.
            is_new: Whether there is none under these names: if it is removed in the same batch nothing is written.

        Returns:
            The number that ``committed`` has reached when it is on disk; 0 without a store.
        """
        if self._persistence is None:
            return 0
        journal, record = self._persistence.journal, RecordPut(self._kind, encode_key(self._domain, *names), value)
        if is_new:
            journal.add_new(record)
        else:
            journal.add(record)
        return journal.open_batch

    def remove(self, names: Names) -> None:
        """Remove a record, if it is there."""
        if self._persistence is not None:
            self._persistence.journal.add(RecordRemoved(self._kind, encode_key(self._domain, *names)))

    def remove_range(self, first: Names, stop: Names) -> None:
        """Remove all records from the first names up to others, exclusive.

        Both ends have as many names as the records between them, and those in the places that order them are all of one
        length; the last one may be empty.
        """
        if self._persistence is not None:
            ends = encode_key(self._domain, *first), encode_key(self._domain, *stop)
            self._persistence.journal.add(RecordRangeRemoved(self._kind, *ends))

    @property
    def committed(self) -> int:
        """The number of the last batch on disk."""
        return 0 if self._persistence is None else self._persistence.journal.committed

    def read(self, names: Names, done: Callable[[bytes | StoreError | None], None]) -> None:
        """Read a value that is on disk.

        Args:
            names: The record's.
            done: Called later, outside of any turn, with the value, None if there is none; or with the error.
        """
        if self._persistence is not None:
            self._persistence.journal.fetch_record(self._kind, encode_key(self._domain, *names), done)

    def recovered(self) -> Iterator[tuple[Names, bytes]]:
        """Yield what the store had when the broker was opened, in the order of the keys; then it is dropped here."""
        for found in self._found():
            if isinstance(found, RecordFound):
                yield self._names(found), found.value
        self._forget()

    def recovered_sizes(self) -> Iterator[tuple[Names, int]]:
        """Yield as ``recovered`` does, for a kind that is read singly: with the sizes of the values."""
        for found in self._found():
            if isinstance(found, RecordKeyFound):
                yield self._names(found), found.size
        self._forget()

    def _found(self) -> list[RecordFound | RecordKeyFound]:
        return [] if self._persistence is None else self._persistence.recovered_records(self._kind, self._domain)

    def _forget(self) -> None:
        if self._persistence is not None:
            self._persistence.forget_recovered(self._kind, self._domain)

    @staticmethod
    def _names(found: RecordFound | RecordKeyFound) -> Names:
        return tuple(decode_key(found.key)[1:])
