"""Frames out of a stream, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.tap.codes import PeerError
from triomq.protocols.tap.frames import FrameReader, frame, frame_with_chunks
from triomq.protocols.tap.messages import DoneAnswered, PartitionBounds, RecordsAnswered


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def frames_of(reader: FrameReader) -> list[bytes]:
    found = []
    while (one := reader.next()) is not None:
        found.append(bytes(one))
    return found


@given(
    st.lists(st.binary(max_size=9000), max_size=6),
    st.lists(st.integers(1, 6000), min_size=1, max_size=20),
)
def test_any_cut_gives_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    data, reader, found, position, number = b"".join(map(framed, bodies)), FrameReader(10_000), [], 0, 0
    while position < len(data):
        step = sizes[number % len(sizes)]
        reader.feed(data[position : position + step])
        found += frames_of(reader)
        position, number = position + step, number + 1
    assert found == bodies
    assert reader.unread == 0


def test_frames_are_read_one_at_a_time_when_they_are_asked_for() -> None:
    reader = FrameReader(100)
    reader.feed(framed(b"one") + framed(b"two"))
    assert reader.next() == b"one"
    assert reader.unread == 7
    assert reader.next() == b"two"
    assert reader.next() is None


def test_too_large_a_frame_is_refused_by_its_length() -> None:
    reader = FrameReader(100)
    reader.feed(framed(bytes(101))[:4])
    with pytest.raises(PeerError, match="a frame has 101 bytes; at most 100 are allowed here"):
        reader.next()


def test_bytes_that_come_one_by_one_are_gathered() -> None:
    reader = FrameReader(1 << 20)
    for byte in framed(bytes(300_000))[:-1]:
        reader.feed(bytes((byte,)))
        assert reader.next() is None
    assert reader.unread == 300_003
    assert len(reader._later) < 10
    reader.feed(b"\0")
    assert reader.next() == bytes(300_000)


def test_unfinished_frame_pins_none_that_was_read() -> None:
    reader = FrameReader(1 << 20)
    reader.feed(framed(bytes(1 << 20)) + b"\0")
    assert len(frames_of(reader)) == 1
    assert len(reader._data) == 1


def test_each_frame_that_begins_is_counted() -> None:
    reader = FrameReader(100)
    reader.feed(framed(b"one") + framed(b"two")[:5])
    assert len(frames_of(reader)) == 1
    assert reader.begun == 2


def test_dropped_bytes_are_gone() -> None:
    reader = FrameReader(100)
    reader.feed(framed(b"one")[:6])
    reader.next()
    reader.drop()
    assert reader.unread == 0
    reader.feed(framed(b"two"))
    assert reader.next() == b"two"


def test_message_is_written_behind_its_length() -> None:
    assert frame(DoneAnswered(7)) == bytes.fromhex("00000003 92 10 07")


def test_chunks_are_written_as_they_are_behind_their_message() -> None:
    message = RecordsAnswered(7, PartitionBounds(1, 2, 3), memoryview(b""))
    chunk = bytes(range(256)) * 300
    head, *chunks = frame_with_chunks(message, [chunk, b"more"])
    assert head == bytes.fromhex("00012c11 94 12 07 94 01 02 03 c0 c6 00012c04")
    assert chunks[0] is chunk
    assert len(head) - 4 + sum(map(len, chunks)) == 0x12C11
