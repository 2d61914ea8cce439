"""What a batch does to records: of one key, the last of all."""

from hypothesis import given
from hypothesis import strategies as st

from memory_store import MemoryStore
from triomq.store import Operation, OperationBatch, RecordPut, RecordRangeRemoved, RecordRemoved
from triomq.store.record_changes import RecordChanges

KEYS = st.sampled_from([b"a", b"b", b"c"])
CHANGES = st.one_of(
    st.builds(RecordPut, st.integers(1, 2), KEYS, st.binary(max_size=3)),
    st.builds(RecordRemoved, st.integers(1, 2), KEYS),
    st.builds(RecordRangeRemoved, st.integers(1, 2), KEYS, KEYS),
)


def records(store: MemoryStore) -> set[object]:
    return {(piece.kind, piece.key, piece.value) for piece in store.recover()}  # type: ignore[union-attr]


@given(st.lists(st.lists(CHANGES)))
def test_changes_put_together_do_what_they_do_one_by_one(batches: list[list[Operation]]) -> None:
    merged, plain = MemoryStore(), MemoryStore()
    for number, batch in enumerate(batches, 1):
        changes, size = RecordChanges(), 0
        for position, change in enumerate(batch):
            is_new = isinstance(change, RecordPut) and plain.read_record(change.kind, change.key) is None
            assert isinstance(change, RecordPut | RecordRemoved | RecordRangeRemoved)
            size += changes.add(change, is_new=is_new)
            plain.commit([OperationBatch(number * 1000 + position, [change])])
        operations = changes.operations()
        assert bool(changes) == bool(operations)
        assert size == sum(len(each.key) + len(each.value) for each in operations if isinstance(each, RecordPut))
        merged.commit([OperationBatch(number, operations)])
        assert records(merged) == records(plain)


def test_new_record_that_is_removed_leaves_nothing_to_do() -> None:
    changes = RecordChanges()
    assert changes.add(RecordPut(1, b"a", b"value"), is_new=True) == 6
    assert changes.add(RecordRemoved(1, b"a")) == -6
    assert not changes


def test_record_that_was_removed_and_is_put_again_is_removed_in_the_end() -> None:
    changes = RecordChanges()
    changes.add(RecordRemoved(1, b"a"))
    changes.add(RecordPut(1, b"a", b"value"), is_new=True)
    changes.add(RecordRemoved(1, b"a"))
    assert changes.operations() == [RecordRemoved(1, b"a")]
