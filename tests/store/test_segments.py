"""What a store gives back whose file the disk has changed: all that is whole, and where something is not."""

import random
from pathlib import Path

import pytest

from triomq.store import (
    Damaged,
    MessagesDelayed,
    MessagesSettled,
    OperationBatch,
    QueueDeleted,
    SqliteStore,
    TotalsFound,
    decode_body,
)
from triomq.store.connecting import PAGE_SIZE

from .stores import DECLARE, append, opened

COUNT = 1_500
LEAF_OF_ROWS = 10
"""How a page with rows of ``segment`` begins: the leaf of an index."""


def is_full_leaf(header: bytes) -> bool:
    """Tell by the type of a page and its number of rows whether it has many rows of ``segment``."""
    return header[0] == LEAF_OF_ROWS and int.from_bytes(header[3:5], "big") > 9


def content(number: int) -> bytes:
    return b"%06d" % number * 200


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with a queue of segments with one message each, so that their rows stand on several pages."""
    with opened(tmp_path) as store:
        store.commit(
            [OperationBatch(1, [DECLARE, *(append(number, content(number)) for number in range(1, COUNT + 1))])]
        )
        later = MessagesDelayed(
            queue=1, number=7, due=9.0, count=1, size=1, body=append(1, b"later, unmistakably").body
        )
        store.commit([OperationBatch(2, [later])])
    return tmp_path


def change(directory: Path, place: int, mask: int = 0xFF) -> None:
    path = directory / "store.db"
    data = bytearray(path.read_bytes())
    data[place] ^= mask
    path.write_bytes(data)


def place_of(directory: Path, data: bytes) -> int:
    return (directory / "store.db").read_bytes().index(data)


def read_all(store: SqliteStore) -> tuple[set[int], list[Damaged]]:
    """Read a queue as the core does, some at a time; give the ids of messages that are what they were."""
    whole: set[int] = set()
    damaged: list[Damaged] = []
    position, stop = 1, COUNT + 1
    while position < stop:
        reading = store.read(1, position, stop, 100_000)
        for segment in reading.segments:
            assert decode_body(segment.body)[0].contents == [content(segment.first)]
            whole.add(segment.first)
        damaged += reading.damaged
        position = reading.up_to
    return whole, damaged


def held(store: SqliteStore) -> TotalsFound:
    (found,) = [piece for piece in store.recover(segments=False) if isinstance(piece, TotalsFound)]
    return found


def test_damaged_body_is_named_and_hides_nothing_behind_it(directory: Path) -> None:
    change(directory, place_of(directory, content(200)))
    with opened(directory) as store:
        whole, (damaged,) = read_all(store)
        assert whole == set(range(1, COUNT + 1)) - {200}
        assert (damaged.first, damaged.count, damaged.settled) == (200, 1, b"")
        assert "the disk has changed them" in damaged.reason


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM body WHERE body = 200", "their contents are missing"),
        ("UPDATE segment SET body = 201 WHERE first = 200", "the disk has changed them"),
        ("UPDATE body SET octets = 'a text' WHERE body = 200", "the disk has changed them"),
    ],
)
def test_contents_that_are_not_those_of_their_record_are_not_given(
    directory: Path, statement: str, reason: str
) -> None:
    with opened(directory) as store:
        store.connection.execute(statement)
        whole, (damaged,) = read_all(store)
        assert (200 in whole, len(whole), damaged.first) == (False, COUNT - 1, 200)
        assert reason in damaged.reason


def test_records_on_both_sides_of_a_damaged_page_are_read(directory: Path) -> None:
    data = (directory / "store.db").read_bytes()
    pages = range(0, len(data), PAGE_SIZE)
    hidden: list[set[int]] = []
    for place in [place for place in pages if is_full_leaf(data[place : place + 5])]:
        change(directory, place)
        with opened(directory) as store:
            whole, damaged = read_all(store)
            hidden.append(set(range(1, COUNT + 1)) - whole)
            assert any(not each.count for each in damaged)
            assert (held(store).count, held(store).missing) == (len(whole), len(hidden[-1]))
        change(directory, place)
    assert len(hidden) > 1
    assert sum(map(len, hidden)) == len(set.union(*hidden)) >= COUNT - len(hidden)  # some stand on the page above


@pytest.mark.parametrize("seed", range(12))
def test_changed_bit_never_returns_a_wrong_message_nor_hides_many(directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    size = (directory / "store.db").stat().st_size
    for _ in range(5):
        place, mask = chance.randrange(3 * PAGE_SIZE, size), 1 << chance.randrange(8)
        change(directory, place, mask)
        with opened(directory) as store:
            whole, _ = read_all(store)
            assert len(whole) > COUNT // 3, f"octet {place}, bit {mask}"
        change(directory, place, mask)


def test_delayed_messages_that_are_damaged_are_none(directory: Path) -> None:
    change(directory, place_of(directory, b"later, unmistakably"))
    with opened(directory) as store:
        assert store.read_delayed(1, [7]) == [None]


@pytest.mark.parametrize("forget", [MessagesSettled(1, [(1, 3)]), MessagesSettled(1, [(1, 20_000)]), QueueDeleted(1)])
def test_queue_with_a_damaged_body_can_be_emptied_and_deleted(
    tmp_path: Path, forget: MessagesSettled | QueueDeleted
) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE, *(append(number, bytes(3 * PAGE_SIZE)) for number in (1, 2, 3))])])
        whole = append(4, b"whole")
    data = (tmp_path / "store.db").read_bytes()
    chained = [place for place in range(0, len(data), PAGE_SIZE) if data[place : place + 2] == bytes(2)]
    change(tmp_path, chained[0])  # where the next page of a body is
    with opened(tmp_path) as store:
        store.commit([OperationBatch(2, [forget, DECLARE, whole])])
        assert [segment.first for segment in store.read(1, 1, 9, 1 << 20).segments] == [4]
    with opened(tmp_path) as store:
        assert [segment.first for segment in store.read(1, 1, 9, 1 << 20).segments] == [4]
