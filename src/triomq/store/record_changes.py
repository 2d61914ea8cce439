"""What the open batch does to records: for each key the last of all that was done to it.

    put a, put a, remove a        remove a
    put new b, remove b           nothing: the store has no b, and never learns of it
    put c, remove a to f, put a   remove a to f, put a

A job with a unique key puts a record when it is accepted and removes it when it ends; while a disk is slow, both are
often in one batch. So is much that is written again and again, such as how far a schedule has come.

Ranges are removed before anything else is done, so what was put into one before it was removed is dropped here.
"""

from triomq.store.operations import Operation, RecordPut, RecordRangeRemoved, RecordRemoved

_Key = tuple[int, bytes]


class RecordChanges:
    """The changes of one batch; created with it."""

    __slots__ = ("_changes", "_new", "_ranges")

    def __init__(self) -> None:
        self._changes: dict[_Key, RecordPut | RecordRemoved] = {}
        self._new: set[_Key] = set()  # keys that the store does not have
        self._ranges: list[RecordRangeRemoved] = []

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self._changes or self._ranges)

    def add(self, change: RecordPut | RecordRemoved | RecordRangeRemoved, *, is_new: bool = False) -> int:
        """Add a change; return by how many bytes the batch has grown, negative if it has shrunk.

        Args:
            change: The change.
            is_new: Whether the store does not have the key as things stand; for a put.
        """
        if isinstance(change, RecordRangeRemoved):
            return self._add_range(change)
        key = (change.kind, change.key)
        before = self._changes.get(key)
        growth = _size_of(change) - _size_of(before)
        if isinstance(change, RecordPut):
            if is_new and before is None:
                self._new.add(key)
            self._changes[key] = change
        elif key in self._new:
            self._new.remove(key)
            del self._changes[key]
        else:
            self._changes[key] = change
        return growth

    def _add_range(self, change: RecordRangeRemoved) -> int:
        within = [key for key in self._changes if key[0] == change.kind and change.first <= key[1] < change.stop]
        self._ranges.append(change)
        self._new.difference_update(within)
        return -sum(_size_of(self._changes.pop(key)) for key in within)

    def operations(self) -> list[Operation]:
        """Return what is to be done, in order."""
        return [*self._ranges, *self._changes.values()]


def _size_of(change: RecordPut | RecordRemoved | None) -> int:
    return len(change.key) + len(change.value) if isinstance(change, RecordPut) else 0
