"""Runs of records and chunks, as Hypothesis makes them; and what a chunk says, in plain tuples to compare."""

from hypothesis import strategies as st

from triomq.chunks import Columns, RecordRun, StreamRecord, encode_chunk

NAMES = st.sampled_from([b"", b"orders", b"a.long.key" * 9, b"\xff\x00"])
VALUES = st.binary(max_size=40)
FIRSTS = st.integers(0, 1 << 61)
TIMES = st.integers(0, 1 << 61)


@st.composite
def record_runs(draw: st.DrawFn) -> RecordRun:
    values = draw(st.lists(VALUES, min_size=1, max_size=12))
    each = st.lists(NAMES, min_size=len(values), max_size=len(values))
    return RecordRun(
        codec=draw(st.integers(0, 2)),
        sink=draw(NAMES),
        key=draw(NAMES | each),
        properties=draw(NAMES | each),
        values=values,
        mark=draw(st.sampled_from([0, 7, (1 << 64) - 1])),
    )


SOME_RUNS = st.lists(record_runs(), min_size=1, max_size=4)


@st.composite
def rows_of_chunks(draw: st.DrawFn) -> list[bytes]:
    """Chunks in a row, whose times do not fall."""
    first, time = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 40))
    chunks = []
    for runs in draw(st.lists(SOME_RUNS, min_size=1, max_size=4)):
        chunks.append(encode_chunk(first, time, runs))
        first += sum(len(run.values) for run in runs)
        time += draw(st.integers(0, 3))
    return chunks


def given_records(first: int, time: int, runs: list[RecordRun]) -> list[StreamRecord]:
    """Return what a chunk of runs should say, without any chunk."""
    found = []
    for run in runs:
        for place, value in enumerate(run.values):
            key = run.key if isinstance(run.key, bytes) else run.key[place]
            properties = run.properties if isinstance(run.properties, bytes) else run.properties[place]
            offset = first + len(found)
            found.append(StreamRecord(offset, time, run.codec, run.sink, key, properties, value, run.mark))
    return found


def records_of(chunk: bytes | memoryview) -> list[StreamRecord]:
    return list(Columns(chunk).records())
