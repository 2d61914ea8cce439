"""What is sent: sequence numbers in columns, pieces that are not copied, messages in several frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.micromsg.wire import message
from triomq.protocols.micromsg.outbox import LARGE_PIECE, Outbox, columns_of
from triomq.protocols.micromsg.windows import sequence_of


def taken(outbox: Outbox) -> bytes:
    size, octets = outbox.unsent, b"".join(outbox.take())
    assert len(octets) == size
    assert outbox.unsent == 0
    return octets


@given(st.integers(1, 65535), st.sampled_from((0, 1, 3, 1000, 65535, 65536, 140_000)))
def test_columns_are_the_octets_of_sequence_numbers(first: int, count: int) -> None:
    high, low = columns_of(first, count)
    assert len(high) == len(low) == count
    for place in {0, 1, count // 2, 65535 - first, 65536 - first, count - 1}:
        if 0 <= place < count:
            assert high[place] << 8 | low[place] == sequence_of(first + place)


@pytest.mark.parametrize("number", [1, 254, 65534, 65535, 65536])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_messages_are_written_with_their_numbers(number: int, count: int) -> None:
    outbox = Outbox()
    contents = [b"\0\6a:N10;\2h%d" % place for place in range(count)]
    outbox.messages(number, b"\5queue", contents, 0)
    expected = [message(sequence_of(number + place), b"h%d" % place, properties=b"a:N10;") for place in range(count)]
    assert taken(outbox) == b"".join(expected)
    assert outbox.has_sent


@pytest.mark.parametrize("sizes", [(3, 3), (3, 5, 0), (300, 300), (300, 4000), (LARGE_PIECE, LARGE_PIECE)])
def test_bodies_are_written_behind_their_lengths(sizes: tuple[int, ...]) -> None:
    outbox = Outbox()
    outbox.bodies(1, b"\5queue\0\0", [b"x" * size for size in sizes], is_large=sizes[0] > 255)
    assert taken(outbox) == b"".join(message(number, b"x" * size) for number, size in enumerate(sizes, 1))


def test_large_contents_are_not_copied() -> None:
    outbox = Outbox()
    contents = [b"\0\0\0\0\x40\0" + bytes(LARGE_PIECE), b"\0\0\0\0\x40\0" + b"x" * LARGE_PIECE]
    outbox.messages(1, b"\5queue", contents, 8)
    outbox.messages(3, b"\5queue", contents[:1], 8)
    pieces = outbox.take()
    assert [piece for piece in pieces if piece is contents[0] or piece is contents[1]] == [*contents, contents[0]]


def test_message_in_several_frames_says_once_where_it_goes() -> None:
    outbox = Outbox()
    outbox.fragments(3, b"\5queue", b"\0\6a:N10;", memoryview(b"abcde"), 2)
    first = message(3, b"ab", properties=b"a:N10;", large=True, continued=True)
    second = message(3, b"cd", destination=b"", large=True, continued=True)
    assert taken(outbox) == first + second + message(3, b"e", destination=b"", large=True)
