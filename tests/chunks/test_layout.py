from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chunks.runs import rows_of_chunks

from triomq.chunks import (
    CHUNK_HEAD_SIZE,
    ChunkHead,
    Columns,
    RecordRun,
    check_chunk,
    encode_chunk,
    read_chunk_head,
    split_chunks,
)
from triomq.chunks.layout import encode_head
from triomq.errors import ChunkDamaged

OWN = RecordRun(1, b"orders", [b"a", b"bc"], b"own", [b"1", b"22"])
ALIKE = RecordRun(1, b"orders", b"key", b"shared", [b"value"] * 10)
CHUNK = encode_chunk(100, 10**15, [OWN, ALIKE])
HEAD = check_chunk(CHUNK)


@contextmanager
def damaged(match: str | None = None) -> Iterator[None]:
    with pytest.raises(ChunkDamaged, match=match):
        yield


def sealed(data: bytes, **changes: int) -> bytes:
    """Return bytes with a head that has their checksum: what only somebody who knows the format can make."""
    head = msgspec.structs.replace(HEAD, **{"checksum": crc32(data[CHUNK_HEAD_SIZE:]), **changes})
    return encode_head(head) + data[CHUNK_HEAD_SIZE:]


def reads_all(chunk: bytes) -> None:
    """Read everything that there is in a chunk that has passed the check."""
    columns, head = Columns(chunk), check_chunk(chunk)
    assert len(list(columns.records())) == len(columns.times()) == head.count
    for column in (columns.values, columns.keys(), columns.properties()):
        assert len(column.lengths) == head.count
        assert sum(column.lengths) == len(column.data)


@given(st.binary(max_size=300))
def test_any_bytes_are_damaged(data: bytes) -> None:
    with damaged():
        check_chunk(data)


@pytest.mark.parametrize("position", range(len(CHUNK)))
def test_any_changed_byte_is_found(position: int) -> None:
    changed = bytearray(CHUNK)
    changed[position] ^= 0x40
    with damaged():
        check_chunk(bytes(changed))


@pytest.mark.parametrize("size", range(len(CHUNK)))
def test_chunk_that_was_cut_is_damaged(size: int) -> None:
    with damaged():
        check_chunk(CHUNK[:size])


@given(st.integers(CHUNK_HEAD_SIZE, len(CHUNK) - 1), st.integers(1, 255))
def test_changed_byte_with_a_fitting_checksum_is_found_or_harmless(position: int, change: int) -> None:
    changed = bytearray(CHUNK)
    changed[position] ^= change
    chunk = sealed(bytes(changed))
    try:
        check_chunk(chunk)
    except ChunkDamaged:
        return
    reads_all(chunk)


@given(
    st.sampled_from(ChunkHead.__struct_fields__[:-1]),
    st.integers(0, 20) | st.integers(0, (1 << 32) - 1) | st.integers((1 << 32) - 40, (1 << 32) - 1),
)
def test_changed_head_with_a_fitting_checksum_is_found_or_harmless(field: str, number: int) -> None:
    chunk = sealed(CHUNK, **{field: number})
    try:
        check_chunk(chunk)
    except ChunkDamaged:
        return
    reads_all(chunk)


def test_damage_names_the_offsets() -> None:
    with damaged("the records 100 to 111 is damaged: its checksum differs"):
        check_chunk(CHUNK[:-1] + b"x")


def test_later_version_is_named() -> None:
    front = CHUNK[:4] + b"\x02" + CHUNK[5 : CHUNK_HEAD_SIZE - 4]
    with damaged("version 2"):
        read_chunk_head(front + crc32(front).to_bytes(4, "little"))


def test_heads_that_nest_without_end_are_damaged() -> None:
    start = CHUNK_HEAD_SIZE + HEAD.numbers_size
    deep = b"\x91" * HEAD.heads_size
    with damaged("cannot be decoded"):
        check_chunk(sealed(CHUNK[:start] + deep + CHUNK[start + len(deep) :]))


@given(rows_of_chunks())
def test_chunks_behind_each_other_are_split(chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    assert list(map(bytes, split_chunks(data))) == chunks
    positions = [0, *accumulate(map(len, chunks))]
    assert [read_chunk_head(data, position).size for position in positions[:-1]] == list(map(len, chunks))


def test_half_a_chunk_behind_others_is_damaged() -> None:
    found = split_chunks(CHUNK + CHUNK[:-8])
    assert next(found) == CHUNK
    with damaged("ends after"):
        next(found)
