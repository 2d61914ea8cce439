import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from triomq.store import AttemptsCounted, MessagesSettled, OperationBatch, SqliteStore, assemble
from triomq.store.segments import read_segments
from triomq.store.tables import bitmap_of, bits_of

from .stores import DECLARE, append, opened


@contextmanager
def statements(connection: sqlite3.Connection) -> Iterator[list[str]]:
    traced: list[str] = []
    connection.set_trace_callback(traced.append)
    yield traced
    connection.set_trace_callback(None)


def unsettled(store: SqliteStore) -> list[int]:
    (queue,) = assemble(store.recover()).queues.values()
    return [segment.first + position for segment in queue.segments for position in segment.unsettled()]


def test_segments_can_be_told_in_one(store: SqliteStore) -> None:
    segments = [append(1, *[b"x"] * 4), append(5, *[b"y"] * 2)]
    store.commit([OperationBatch(1, [DECLARE, *segments, MessagesSettled(1, [(2, 2), (5, 2)])])])
    (queue,) = assemble(store.recover()).queues.values()
    (held,) = assemble(store.recover(segments=False)).queues.values()
    assert (held.count, held.size) == (queue.count, queue.size) == (2, queue.segments[0].size // 2)
    assert held.segments == []


def test_segment_is_touched_once_however_many_of_its_messages_are_settled(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1, *[b"x"] * 500), append(501, *[b"x"] * 500)])])
    with statements(store.connection) as traced:
        store.commit([OperationBatch(2, [MessagesSettled(1, [(first, 1) for first in range(2, 900, 2)])])])
    assert sum(each.startswith("UPDATE segment") for each in traced) == 2
    assert len(traced) < 15
    assert len(unsettled(store)) == 1_000 - 449


def test_ranges_may_overlap_and_come_in_any_order(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(5, *[b"x"] * 5), append(20, *[b"y"] * 3)])])
    store.commit([OperationBatch(2, [MessagesSettled(1, [(21, 1), (1, 7), (6, 3), (6, 1), (100, 5)])])])
    assert unsettled(store) == [9, 20, 22]


def test_how_often_a_message_came_back_is_forgotten_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(
            [OperationBatch(1, [DECLARE, append(1, b"a", b"b"), AttemptsCounted(1, 1, 2), AttemptsCounted(1, 2, 5)])]
        )
    with opened(tmp_path) as store:
        store.commit([OperationBatch(2, [MessagesSettled(1, [(1, 1)])])])
        assert assemble(store.recover()).queues[1].attempts == {2: 5}


def test_queue_whose_messages_never_came_back_is_not_searched_for_them(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1)])])
    with statements(store.connection) as traced:
        store.commit([OperationBatch(2, [MessagesSettled(1, [(1, 1)])])])
    assert not any("attempts" in each for each in traced)


def test_room_of_settled_messages_is_used_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE])])
        for number in range(1, 40):
            settle = MessagesSettled(1, [(number - 1, 1)])
            store.commit([OperationBatch(number + 1, [settle, append(number, bytes(200_000))])])
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    assert pages < 60


def test_cost_of_a_range_does_not_depend_on_other_segments(store: SqliteStore) -> None:
    store.commit([OperationBatch(1, [DECLARE, *(append(first) for first in range(1, 50))])])
    few = steps(store.connection, 20, 25)
    store.commit([OperationBatch(2, [append(first) for first in range(50, 3_000)])])
    assert steps(store.connection, 20, 25) == steps(store.connection, 2_000, 2_005) == few


def steps(connection: sqlite3.Connection, first: int, stop: int) -> int:
    """Count what SQLite's machine does to read a range."""
    done: list[None] = []
    connection.set_progress_handler(lambda: done.append(None), 1)
    assert len(list(read_segments(connection, 1, first, stop, spilled=False))) == stop - first
    connection.set_progress_handler(None, 1)
    return len(done)


@given(st.integers(1, 50), st.integers(1, 40), st.lists(st.tuples(st.integers(1, 120), st.integers(1, 30)), max_size=5))
def test_bits_are_of_the_ids_that_are_in_a_range(first: int, count: int, ranges: list[tuple[int, int]]) -> None:
    ids = {number for start, length in ranges for number in range(start, start + length)}
    expected = sum(1 << position for position in range(count) if first + position in ids)
    assert bits_of(first, count, ranges) == expected


def test_bitmap_has_no_byte_too_many() -> None:
    assert (bitmap_of(0), bitmap_of(0x100)) == (b"", b"\x00\x01")
