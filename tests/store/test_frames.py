from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import DiskFull, StoreError
from triomq.store import OperationBatch, QueueFound, Reading, SegmentFound, SegmentRead
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
    SegmentsFetched,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)

from .operations import batches

FRAMES: list[ToStore | FromStore] = [
    Read(1, 2, 3, 9, 1000),
    ReadDelayed(1, 2, [3, 4]),
    BackUp(1, "/a/path"),
    StoreFailed("DiskFull", "no room"),
    PiecesRecovered([QueueFound(1, b"q", b"", 1), SegmentFound(1, 1, 3, 2, 99, b"\x01")]),
    StoreOpened(7, ["cut"]),
    BatchesCommitted(1 << 40),
    SegmentsFetched(1, Reading([SegmentRead(3, 2, b"\x01", b"body", spilled=True)], 5)),
    DelayedFetched(1, [b"body", None]),
    FetchFailed(1, StoreFailed("StoreError", "why")),
    BackedUp(1),
]


@given(batches(), st.data())
def test_frames_are_put_together_however_they_are_cut(work: list[OperationBatch], data: st.DataObject) -> None:
    frames = [*(Write(batch) for batch in work), *FRAMES]
    sent = b"".join(map(encode_frame, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    reader, found = StoreFrameReader(), []
    for start, stop in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        found += reader.feed(sent[start:stop])
    assert [encode_frame(frame) for frame in found] == [encode_frame(frame) for frame in frames]


def test_errors_cross_the_wire() -> None:
    error = StoreFailed.of(DiskFull("no room")).error
    assert isinstance(error, DiskFull)
    assert str(error) == "no room"
    assert type(StoreFailed("Unheard", "of").error) is StoreError
