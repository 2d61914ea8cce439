"""Schedules on disk: one record each, under its domain and its key; what is in one is its owner's to know."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triomq.core.persistence.records import decode_key, encode_key
from triomq.store import RecordKind, RecordPut, RecordRemoved

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory


class ScheduleRecords:
    """The records of one domain's schedules; without a store there are none, and nothing is written.

    What is written in a turn is in one batch with all else that happens in it, such as the publish of a job: after a
    crash there are both, or neither of them.

    Args:
        directory: The domain's.
    """

    def __init__(self, directory: "Directory") -> None:
        self._domain = directory.name
        self._persistence = directory.persistence

    def put(self, key: str, value: bytes) -> None:
        """Write a schedule, in place of what was there under its key."""
        if self._persistence is not None:
            self._persistence.journal.add(RecordPut(RecordKind.SCHEDULE, encode_key(self._domain, key), value))

    def remove(self, key: str) -> None:
        """Remove a schedule."""
        if self._persistence is not None:
            self._persistence.journal.add(RecordRemoved(RecordKind.SCHEDULE, encode_key(self._domain, key)))

    def recovered(self) -> Iterator[tuple[str, bytes]]:
        """Yield what the store had when the broker was opened."""
        found = self._persistence.journal.recovered if self._persistence is not None else None
        for record in found.records if found is not None else ():
            if record.kind == RecordKind.SCHEDULE:
                domain, key = decode_key(record.key)
                if domain == self._domain:
                    yield key, record.value
