from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_store import MemoryStore
from triomq.store import (
    MessagesDelayed,
    MessagesSettled,
    MessagesSpilled,
    OperationBatch,
    Reading,
    SegmentRead,
    SqliteReader,
    Store,
)
from triomq.store.reading import collect

from .stores import DECLARE, append, opened


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Kept: 1 to 3, 6 and 7, 10 to 12; spilled: 4 and 5, 8."""
    if request.param == "memory":
        made: Store = MemoryStore()
        fill(made)
        yield made
        return
    with opened(tmp_path) as made:
        fill(made)
        yield made


def fill(store: Store) -> None:
    durable = [append(1, b"a", b"b", b"c"), append(6, b"f", b"g"), append(10, b"j", b"k", b"l")]
    spilled = [
        MessagesSpilled(queue=1, first=4, count=2, body=b"spilled"),
        MessagesSpilled(queue=1, first=8, count=1, body=b"too"),
    ]
    store.commit([OperationBatch(1, [DECLARE, *durable, *spilled])])


def ids(reading: Reading) -> tuple[list[int], int]:
    return [segment.first for segment in reading.segments], reading.up_to


@pytest.mark.parametrize(
    ("first", "stop", "expected"),
    [
        (1, 99, [1, 4, 6, 8, 10]),
        (3, 4, [1]),
        (3, 5, [1, 4]),
        (4, 6, [4]),
        (7, 11, [6, 8, 10]),
        (9, 10, []),
        (12, 13, [10]),
        (13, 99, []),
    ],
)
def test_segments_that_hold_an_id_of_the_range_are_given_in_order(
    store: Store, first: int, stop: int, expected: list[int]
) -> None:
    assert ids(store.read(1, first, stop, 1 << 20)) == (expected, stop)


def test_no_more_is_given_than_was_asked_for_but_at_least_one_segment(store: Store) -> None:
    found, position = [], 1
    while position < 11:
        reading = store.read(1, position, 11, 1)
        found.append(ids(reading))
        position = reading.up_to
    assert found == [([1], 4), ([4], 6), ([6], 8), ([8], 9), ([10], 11)]


def test_segment_names_its_settled_positions_and_its_file(store: Store) -> None:
    store.commit([OperationBatch(2, [MessagesSettled(1, [(2, 1), (6, 2)])])])
    first, second = store.read(1, 2, 8, 1 << 20).segments
    assert (first.first, first.count, first.settled, first.spilled) == (1, 3, b"\x02", False)
    assert second == SegmentRead(4, 2, b"", b"spilled", spilled=True)
    assert (second.stop, store.read(9, 1, 2, 0)) == (6, Reading([], 2))


def test_delayed_messages_are_read_by_their_numbers(store: Store) -> None:
    store.commit([OperationBatch(2, [MessagesDelayed(queue=1, number=7, due=0, count=1, size=5, body=b"later")])])
    assert store.read_delayed(1, [3, 7]) == [None, b"later"]
    assert store.read_delayed(9, [7]) == [None]


def test_no_segment_is_looked_at_beyond_the_last_that_is_taken() -> None:
    def found() -> Iterator[SegmentRead]:
        yield SegmentRead(1, 2, b"", b"12345", spilled=False)
        yield SegmentRead(5, 2, b"", b"12345", spilled=False)
        pytest.fail("looked at another")

    assert ids(collect(found(), 9, 6)) == ([1, 5], 7)


def test_commit_can_go_on_beside_a_reading_and_the_log_is_not_held_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store, closing(SqliteReader(tmp_path)) as reader:
        store.commit([OperationBatch(1, [DECLARE, *(append(first, bytes(1000)) for first in range(1, 20))])])
        store.connection.execute("BEGIN IMMEDIATE")
        store.connection.execute("UPDATE progress SET committed = 9")
        assert ids(reader.read(1, 1, 20, 1)) == ([1], 2)
        store.connection.execute("ROLLBACK")
        busy, _, _ = store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
