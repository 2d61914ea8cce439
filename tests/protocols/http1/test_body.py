"""Readers of bodies find the same wherever the bytes are cut, and leave what is behind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.http1.body import BodyReader, ChunkReader, EndReader, LengthReader
from triomq.protocols.http1.codes import PeerError

from .wire import cuts

places = st.lists(st.integers(0, 200), max_size=5)


def read(reader: BodyReader, pieces: list[bytes]) -> tuple[bytes, bytes, bool]:
    """Return the body, what is left behind it, and whether it has ended."""
    body, rest, ended = b"", b"", False
    for number, piece in enumerate(pieces):
        rest += piece
        before = None
        while rest and rest != before and not ended:
            before = rest
            found, rest, ended = reader.read(rest)
            body += found
        if ended:
            return body, rest + b"".join(pieces[number + 1 :]), True
    return body, rest, ended


@given(st.binary(max_size=50), st.binary(max_size=20), places)
def test_length_ends_a_body(body: bytes, behind: bytes, at: list[int]) -> None:
    if body:
        assert read(LengthReader(len(body)), cuts(body + behind, at)) == (body, behind, True)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=4), st.binary(max_size=20), places)
def test_last_chunk_ends_a_body(chunks: list[bytes], behind: bytes, at: list[int]) -> None:
    data = b"".join(b"%X\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nX: y\r\n\r\n" + behind
    assert read(ChunkReader(100), cuts(data, at)) == (b"".join(chunks), behind, True)


@given(st.binary(max_size=50), places)
def test_body_without_an_end_is_all_that_comes(body: bytes, at: list[int]) -> None:
    assert read(EndReader(), cuts(body, at) if body else []) == (body, b"", False)


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"1;x=y\r\na\r\n0\r\n\r\n", 400, "extension"),
        (b"1 \r\na\r\n0\r\n\r\n", 400, "size and CR LF"),
        (b"1\na\n0\n\n", 400, "size and CR LF"),
        (b"1\rxa", 400, "size and CR LF"),
        (b"\r\na", 400, "size and CR LF"),
        (b"x\r\n", 400, "size and CR LF"),
        (b"-1\r\n", 400, "size and CR LF"),
        (b"000000001\r\na\r\n", 413, "8 digits"),
        (b"1\r\nab\r\n0\r\n\r\n", 400, "longer than its size"),
        (b"1\r\na0\r\n\r\n", 400, "longer than its size"),
        (b"0\r\nno field\r\n\r\n", 400, "no header fields"),
        (b"0\r\nX: y\n\r\n\r\n", 400, "no header fields"),
        (b"0\r\nX: " + 100 * b"y" + b"\r\n\r\n", 431, "behind the last chunk"),
    ],
)
def test_chunks_that_are_out_of_order_are_refused_wherever_they_are_cut(data: bytes, status: int, text: str) -> None:
    for size in (len(data), 1, 2, 5):
        with pytest.raises(PeerError, match=text) as caught:
            read(ChunkReader(100), [data[at : at + size] for at in range(0, len(data), size)])
        assert caught.value.status == status


def test_body_before_a_fault_is_found_first() -> None:
    reader = ChunkReader(100)
    piece, rest, ended = reader.read(b"1\r\na\r\nx")
    assert (piece, rest, ended) == (b"a", b"x", False)
    with pytest.raises(PeerError):
        reader.read(rest)
