from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import DiskFull, StoreError
from triomq.store import (
    BodyRun,
    MessagesAppended,
    OperationBatch,
    QueueFound,
    Reading,
    SegmentFound,
    SegmentRead,
    gather_body,
)
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    DelayedFetched,
    FetchFailed,
    FromStore,
    PiecesRecovered,
    Read,
    ReadDelayed,
    ReadRecord,
    RecordFetched,
    SegmentsFetched,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)
from triomq.store.gathered import GatheredBody, Octets

from .operations import batches

FRAMES: list[ToStore | FromStore] = [
    Read(1, 2, 3, 9, 1000),
    ReadDelayed(1, 2, [3, 4]),
    ReadRecord(1, 2, b"key"),
    BackUp(1, "/a/path"),
    StoreFailed("DiskFull", "no room"),
    PiecesRecovered([QueueFound(1, b"q", b"", 1), SegmentFound(1, 1, 3, 2, 99, b"\x01")]),
    StoreOpened(7, ["cut"]),
    BatchesCommitted(1 << 40),
    SegmentsFetched(1, Reading([SegmentRead(3, 2, b"\x01", b"body", spilled=True)], 5)),
    DelayedFetched(1, [b"body", None]),
    RecordFetched(1, b"value"),
    FetchFailed(1, StoreFailed("StoreError", "why")),
    BackedUp(1),
]


def joined(frame: ToStore | FromStore) -> bytes:
    return b"".join(encode_frame(frame))


@given(batches(), st.data())
def test_frames_are_put_together_however_they_are_cut(work: list[OperationBatch], data: st.DataObject) -> None:
    frames = [*(Write(batch) for batch in work), *FRAMES]
    sent = b"".join(map(joined, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    reader, found = StoreFrameReader(), []
    for start, stop in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        found += reader.feed(sent[start:stop])
    assert [joined(frame) for frame in found] == [joined(frame) for frame in frames]


LARGE_BODY = gather_body(
    [BodyRun(0, b"small", [b"a", b"b"]), BodyRun(2, b"head", [bytes([n]) * 20_000 for n in range(3)])]
)


def batch(number: int, body: Octets = LARGE_BODY) -> Write:
    return Write(
        OperationBatch(number, [MessagesAppended(queue=1, first=1, count=5, size=9, body=body, settled=[(1, 1)])])
    )


def test_gathered_body_is_read_as_one_that_was_not() -> None:
    assert isinstance(LARGE_BODY, GatheredBody)
    assert all(any(piece is content for piece in encode_frame(batch(1))) for content in LARGE_BODY.pieces)
    (found,) = StoreFrameReader().feed(joined(batch(1)))
    assert found == batch(1, b"".join(LARGE_BODY.pieces))


def receive(reader: StoreFrameReader, data: bytes) -> list[ToStore | FromStore]:
    """Receive as a socket does: as much at once as there is room for."""
    found: list[ToStore | FromStore] = []
    while data:
        with reader.room() as room:
            count = min(len(room), len(data))
            room[:count] = data[:count]
        data = data[count:]
        found += reader.received(count)
    return found


@given(st.lists(st.integers(1, 70_000), min_size=1))
def test_batches_are_whole_after_short_reads_of_any_length(lengths: list[int]) -> None:
    sent = b"".join(joined(batch(number)) for number in range(4))
    reader, found, position = StoreFrameReader(1024), [], 0
    for length in cycle(lengths):
        found += receive(reader, sent[position : position + length])
        position += length
        if position >= len(sent):
            break
    assert found == [batch(number, b"".join(LARGE_BODY.pieces)) for number in range(4)]


def test_buffer_is_used_again_only_when_nothing_refers_to_it() -> None:
    reader = StoreFrameReader()
    one = receive(reader, joined(batch(1)))
    two = receive(reader, joined(batch(2, b"y" * 70_000)))
    assert one == [batch(1, b"".join(LARGE_BODY.pieces))]
    assert two == [batch(2, b"y" * 70_000)]
    left = len(reader.room())
    del one, two
    assert len(reader.room()) > left


def test_room_of_large_batches_is_given_back() -> None:
    reader = StoreFrameReader(1024)
    receive(reader, joined(batch(1)))
    assert len(reader.room()) > 100_000
    receive(reader, joined(batch(2))[:-1])
    reader.shrink()
    assert receive(reader, joined(batch(2))[-1:]) == [batch(2, b"".join(LARGE_BODY.pieces))]
    reader.shrink()
    assert len(reader.room()) < 100_000


def test_errors_cross_the_wire() -> None:
    error = StoreFailed.of(DiskFull("no room")).error
    assert isinstance(error, DiskFull)
    assert str(error) == "no room"
    assert type(StoreFailed("Unheard", "of").error) is StoreError
