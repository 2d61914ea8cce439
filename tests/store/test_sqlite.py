import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store import MemoryStore
from triomq.errors import DiskFull, StoreError, StoreLocked
from triomq.store import (
    MessagesAppended,
    MessagesSettled,
    MessagesSpilled,
    OperationBatch,
    QueueDeleted,
    RecordFound,
    RecordPut,
    RecordRangeRemoved,
    SegmentFound,
    SegmentRead,
    SpilledDropped,
    SqliteReader,
    SqliteStore,
    Store,
    assemble,
    compact,
)

from .operations import batches
from .stores import DECLARE, bodies, opened

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where syncing costs nothing: kills, unlike the loss of a machine, do not ask for a disk."""


def append(first: int, count: int = 1, body: bytes = b"body", queue: int = 1) -> MessagesAppended:
    return MessagesAppended(queue=queue, first=first, count=count, size=len(body), body=body)


def spill(first: int, count: int = 1, body: bytes = b"spilled") -> MessagesSpilled:
    return MessagesSpilled(queue=1, first=first, count=count, body=body)


def segments(store: Store) -> list[SegmentFound]:
    return assemble(store.recover()).queues[1].segments


def contents(store: Store) -> dict[object, object]:
    """Everything that can be seen of a store."""
    pieces = list(store.recover())
    found = assemble(pieces)
    read = {number: store.read(number, 1, 1 << 40, 1 << 40).segments for number in found.queues}
    delayed = {
        number: store.read_delayed(number, [each.number for each in queue.delayed])
        for number, queue in found.queues.items()
    }
    return {"pieces": pieces, "segments": read, "delayed": delayed}


def lasting(store: Store) -> dict[object, object]:
    """The same without what was spilled: that is in a file of its own, which is not cut with the log."""
    found = contents(store)
    read: dict[int, list[SegmentRead]] = found["segments"]  # type: ignore[assignment]
    return found | {"segments": {number: [each for each in some if not each.spilled] for number, some in read.items()}}


def copy_of(directory: Path, target: Path, *, log: int | None = None) -> Path:
    """Copy a store as a kill at this moment would leave it; or, with its log cut, the loss of the machine."""
    target.mkdir()
    for name in ("store.db", "store.db-wal", "spill.db", "spill.db-wal"):  # without the mark, which nothing has synced
        if (directory / name).exists():
            shutil.copy(directory / name, target / name)
    if log is not None:
        os.truncate(target / "store.db-wal", log)
    return target


def log_size(directory: Path) -> int:
    return (directory / "store.db-wal").stat().st_size


@given(batches(), st.data())
def test_any_operations_leave_what_they_leave_in_memory_whenever_the_process_is_killed(
    work: list[OperationBatch], data: st.DataObject
) -> None:
    memory = MemoryStore()
    with TemporaryDirectory(dir=MEMORY) as folder, opened(Path(folder) / "store") as store:
        for batch in work:
            assert store.commit([batch]) == memory.commit([batch]) == batch.number
            assert contents(store) == contents(memory)
        killed = copy_of(store.directory, Path(folder) / "killed")
        with opened(killed, fresh=False) as again:
            assert contents(again) == contents(memory)
            again.commit(work)  # those that were not answered are sent again
            assert contents(again) == contents(memory)


@given(batches(most=5), st.data())
def test_log_that_is_cut_anywhere_opens_at_a_whole_batch(work: list[OperationBatch], data: st.DataObject) -> None:
    with TemporaryDirectory(dir=MEMORY) as folder, opened(Path(folder) / "store") as store:
        begin = log_size(store.directory)
        states = {0: lasting(store)}
        for batch in work:
            store.commit([batch])
            states[store.committed] = lasting(store)
        end = log_size(store.directory)
        parts = 1 << 32  # drawn apart from the sizes, which are not the same in each run
        log = begin + (end - begin) * data.draw(st.integers(0, parts)) // parts
        with opened(copy_of(store.directory, Path(folder) / "cut", log=log)) as again:
            assert lasting(again) == states[again.committed]
            again.commit(work)
            assert lasting(again)["pieces"] == states[work[-1].number]["pieces"]


def test_batches_go_on_where_they_were_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE]), OperationBatch(2, [append(5, 2)])])
    with opened(tmp_path) as store:
        assert store.committed == 2
        found = assemble(store.recover())
        assert (found.queues[1].found.next_id, found.next_queue) == (7, 2)


def test_batch_that_cannot_be_is_refused_and_leaves_nothing(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1, 4)])])
    for wrong in (append(3), append(5, queue=9)):
        with pytest.raises(ValueError, match="not declared, or has had the id"):
            store.commit([OperationBatch(2, [append(6), wrong])])
    assert [segment.first for segment in segments(store)] == [1]
    assert store.commit([OperationBatch(2, [append(6)])]) == 2


def test_settled_positions_are_stored_and_a_segment_goes_with_its_last_message(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1, 4), append(5, 2)])])
    store.commit([OperationBatch(2, [MessagesSettled(1, [(2, 1), (4, 2)])])])
    first, second = segments(store)
    assert (first.unsettled(), first.left, second.unsettled()) == ([0, 2], 2, [1])
    store.commit([OperationBatch(3, [MessagesSettled(1, [(1, 3)])])])
    assert [segment.first for segment in segments(store)] == [5]
    assert bodies(store) == {5: b"body"}
    assert store.statistics().messages == 1


def test_records_are_counted_and_those_of_a_range_go_at_once(store: SqliteStore) -> None:
    keys = [b"a", b"b", b"ba", b"c"]
    store.commit([OperationBatch(1, [RecordPut(kind, key, b"value") for key in keys for kind in (1, 2)])])
    assert store.statistics().records == 8
    store.commit([OperationBatch(2, [RecordRangeRemoved(2, b"b", b"c")])])
    left = {(piece.kind, piece.key) for piece in store.recover() if isinstance(piece, RecordFound)}
    assert left == {(1, key) for key in keys} | {(2, b"a"), (2, b"c")}
    assert (store.read_record(2, b"a"), store.read_record(2, b"b")) == (b"value", None)


def test_spilled_messages_outlive_the_store_but_not_the_broker(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(
            [
                OperationBatch(1, [DECLARE, append(1), spill(2), spill(3)]),
                OperationBatch(2, [SpilledDropped(1, [(2, 1)])]),
            ]
        )
        assert bodies(store) == {1: b"body", 3: b"spilled"}
        assert [segment.first for segment in segments(store)] == [1]
    with opened(tmp_path, fresh=False) as store:
        assert bodies(store) == {1: b"body", 3: b"spilled"}
    with opened(tmp_path) as store:
        assert bodies(store) == {1: b"body"}


def test_batch_whose_spilled_part_was_done_is_not_half_doubled(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE])])
        copy_of(tmp_path, tmp_path / "before")
        store.commit([OperationBatch(2, [append(1), spill(2)])])
    (tmp_path / "store.mark").unlink()
    for name in ("store.db", "store.db-wal"):  # killed after the one file had the batch, and before the other
        (tmp_path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "before" / name, tmp_path / name)
    with opened(tmp_path, fresh=False) as store:
        assert store.committed == 1
        assert store.commit([OperationBatch(2, [append(1), spill(2)])]) == 2
        assert bodies(store) == {1: b"body", 2: b"spilled"}


def test_spilling_is_not_synced(store: SqliteStore, tmp_path: Path) -> None:
    store.commit([OperationBatch(1, [DECLARE])])
    before = log_size(tmp_path)
    assert store.commit([OperationBatch(2, [spill(1), SpilledDropped(1, [(1, 1)])])]) == 2
    assert log_size(tmp_path) == before


def test_queue_that_is_deleted_takes_everything_with_it(store: SqliteStore, tmp_path: Path) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1), spill(2)]), OperationBatch(2, [QueueDeleted(1)])])
    assert list(store.recover()) == []
    assert bodies(store) == {}
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("SELECT count(*) FROM body").fetchone() == (0,)


def test_purge_of_very_many_segments_leaves_none(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, *(append(first, 2) for first in range(1, 2_001, 2))])])
    store.commit([OperationBatch(2, [MessagesSettled(1, [(2, 19_000)])])])
    (left,) = segments(store)
    assert (left.first, left.unsettled()) == (1, [0])


def test_queue_that_is_not_durable_may_be_spilled(tmp_path: Path) -> None:
    spilled = [MessagesSpilled(queue=9, first=first, count=1, body=b"body") for first in (1, 2, 3)]
    with opened(tmp_path) as store, closing(SqliteReader(tmp_path)) as reader:
        store.commit([OperationBatch(1, [*spilled, SpilledDropped(9, [(1, 1)]), SpilledDropped(8, [(1, 1)])])])
        assert bodies(reader, 9) == {2: b"body", 3: b"body"}
        store.commit([OperationBatch(2, [QueueDeleted(9)])])
        assert bodies(reader, 9) == {}
        assert list(store.recover()) == []


def test_full_disk_takes_nothing_of_a_batch_and_the_store_goes_on_when_there_is_room(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE])])
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    large = OperationBatch(2, [append(1, body=bytes(200_000))])
    with pytest.raises(DiskFull, match=r"store\.db cannot grow.*SQLITE_FULL.*Free space"):
        store.commit([large])
    assert (store.committed, segments(store)) == (1, [])
    store.connection.execute("PRAGMA max_page_count = 1000000")
    assert store.commit([large]) == 2


def test_settled_messages_make_room_for_a_batch_that_does_not_fit(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1, body=bytes(200_000))])])
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    batches = [
        OperationBatch(2, [append(2, body=bytes(200_000))]),
        OperationBatch(3, [MessagesSettled(1, [(1, 1)])]),
    ]
    with pytest.raises(DiskFull):
        store.commit(batches)
    store.settle_early([MessagesSettled(1, [(1, 1)])])
    assert (store.committed, segments(store)) == (1, [])
    assert store.commit(batches) == 3
    assert [segment.first for segment in segments(store)] == [2]


def test_compacting_frees_the_room_of_settled_messages_and_changes_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE, append(1, body=b"left"), append(2, body=bytes(2_000_000))])])
        store.commit([OperationBatch(2, [MessagesSettled(1, [(2, 1)])])])
        pieces, read = list(store.recover()), bodies(store)
    before, after = compact(tmp_path)
    assert before > 2_000_000 > 500_000 > after
    with opened(tmp_path) as store:
        assert (store.committed, list(store.recover()), bodies(store)) == (2, pieces, read)


def test_compacting_leaves_a_store_in_use_alone(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreLocked):
        compact(tmp_path, patience=0)


def test_compacting_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        compact(tmp_path)
