import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chunks.runs import records_of, rows_of_chunks

from triomq.chunks import (
    Columns,
    MovableChunk,
    RecordRun,
    RunHead,
    check_chunk,
    cut_chunk,
    encode_chunk,
    merge_chunks,
    read_chunk_head,
    relabel_chunk,
)
from triomq.errors import ChunkDamaged


@given(rows_of_chunks())
def test_merged_chunks_say_what_they_said(chunks: list[bytes]) -> None:
    merged = merge_chunks(chunks)
    check_chunk(merged)
    assert records_of(merged) == [record for chunk in chunks for record in records_of(chunk)]


@given(rows_of_chunks(), st.data())
def test_range_is_cut_out(chunks: list[bytes], data: st.DataObject) -> None:
    chunk = merge_chunks(chunks)
    head = read_chunk_head(chunk)
    first = data.draw(st.integers(head.first, head.stop - 1))
    stop = data.draw(st.integers(first + 1, head.stop))
    cut = cut_chunk(chunk, first, stop)
    check_chunk(cut)
    assert records_of(cut) == records_of(chunk)[first - head.first : stop - head.first]


@given(rows_of_chunks(), st.data())
def test_parts_merge_to_what_was_cut(chunks: list[bytes], data: st.DataObject) -> None:
    chunk = merge_chunks(chunks)
    head = read_chunk_head(chunk)
    middle = data.draw(st.integers(head.first, head.stop))
    parts = [
        cut_chunk(chunk, *bounds) for bounds in ((head.first, middle), (middle, head.stop)) if bounds[0] < bounds[1]
    ]
    assert records_of(merge_chunks(parts)) == records_of(chunk)


@given(rows_of_chunks(), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_moved_chunk_has_other_offsets_and_times(chunks: list[bytes], first: int, time: int) -> None:
    chunk = merge_chunks(chunks)
    movable = MovableChunk(chunk)
    moved = movable.moved(first, time)
    assert read_chunk_head(movable.moved(first + 1, time)).first == first + 1
    head = check_chunk(moved)
    before, after = records_of(chunk), records_of(moved)
    assert (head.first, head.time) == (first, time)
    assert [each.value for each in after] == [each.value for each in before]
    assert [each.offset - first for each in after] == [each.offset - before[0].offset for each in before]
    assert [each.time - time for each in after] == [each.time - before[0].time for each in before]


def chunk_at(first: int, time: int = 0, count: int = 1) -> bytes:
    return encode_chunk(first, time, [RecordRun(0, b"", b"", b"", [b"value"] * count)])


def test_range_that_a_chunk_has_none_of_is_an_error() -> None:
    with pytest.raises(ValueError, match="records 10 to 14 has none of 15 to 19"):
        cut_chunk(chunk_at(10, count=5), 15, 20)


def test_chunks_with_a_gap_are_not_merged() -> None:
    with pytest.raises(ValueError, match="up to 0 are followed by those from 2"):
        merge_chunks([chunk_at(0), chunk_at(2)])


def test_damage_is_not_given_a_new_checksum() -> None:
    damaged = bytearray(chunk_at(1))
    damaged[-1] ^= 1
    with pytest.raises(ChunkDamaged):
        merge_chunks([chunk_at(0), bytes(damaged)])


def test_time_that_falls_counts_as_the_one_before() -> None:
    merged = merge_chunks([chunk_at(0, 5), chunk_at(1, 3), chunk_at(2, 9)])
    assert [record.time for record in records_of(merged)] == [5, 5, 9]
    check_chunk(merged)


def test_chunks_of_one_record_merge_to_one_run_at_one_time() -> None:
    merged = merge_chunks([chunk_at(first) for first in range(100)])
    assert read_chunk_head(merged).runs == 1


@given(rows_of_chunks(), st.integers(0, 3))
def test_chunk_with_other_run_heads_has_the_same_records_of_another_sink(chunks: list[bytes], marks: int) -> None:
    chunk = merge_chunks(chunks)
    heads = [
        RunHead(head.codec, number % (marks + 1), b"other", head.key, head.properties)
        for number, head in enumerate(Columns(chunk).run_heads)
    ]
    relabelled = relabel_chunk(chunk, heads)
    check_chunk(relabelled)
    assert Columns(relabelled).run_heads == heads
    same = {"sink": b"", "mark": 0, "time": 0}
    before, after = (list(Columns(each).records()) for each in (chunk, relabelled))
    assert [msgspec.structs.replace(each, **same) for each in after] == [
        msgspec.structs.replace(each, **same) for each in before
    ]
    assert {(each.sink, each.time) for each in after} == {(b"other", before[0].time)}
