"""The reader: the fast ways find what the slow one does, and hostile streams cost no more than others."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.micromsg.wire import bodies, flat, message, serving
from triomq.protocols.micromsg import MicroMessageRun, Settings
from triomq.protocols.micromsg.reader import MicroMsgReader
from triomq.protocols.micromsg.shapes import ShapeTable
from triomq.protocols.micromsg.windows import ReceivingWindow


def reader(size: int = 0) -> MicroMsgReader:
    made = MicroMsgReader(Settings(), ReceivingWindow(size, size, is_exact=False), ShapeTable({}, is_typed=True))
    made.allows_messages = True
    return made


def stream(random: Random, count: int) -> Iterator[bytes]:
    """Make messages that are alike for a while, in one way or another."""
    number = 0
    while number < count:
        destination, properties = random.choice((b"queue", b"other", b"")), random.choice((b"", b"a:N1;", b"a:N2;"))
        length, varies = random.choice((0, 5, 255, 256, 300)), random.random() < 0.5
        for _ in range(random.choice((1, 2, 9, 70, 300))):
            number += 1
            size = random.randrange(length + 1) if varies else length
            large = random.random() < 0.02
            yield message(
                number % 65535 or 65535,
                random.randbytes(size),
                destination=destination,
                properties=properties,
                large=large,
            )


@given(st.integers(0, 1 << 30), st.sampled_from((7, 100, 5000, 1 << 20)))
@settings(max_examples=40, deadline=None)
def test_fast_ways_find_what_single_messages_are(seed: int, chunk: int) -> None:
    messages = list(stream(Random(seed), 600))
    data = b"".join(messages)
    whole, single = reader(), reader()
    for start in range(0, len(data), chunk):
        whole.feed(data[start : start + chunk])
        assert whole.next_frame() is None
    for octets in messages:
        single.feed(octets)
        assert single.next_frame() is None
    assert flat(whole.runs) == flat(single.runs)
    assert whole.consumed == single.consumed == len(data)
    assert whole.unfinished == 0
    assert len(flat(whole.runs)) == len(messages)


@pytest.mark.parametrize("spoilt", [0, 1, 7, 8, 9, 40, 41])
@pytest.mark.parametrize("octet", [0, 1, 2])
def test_message_with_other_flags_or_number_ends_those_that_are_alike(spoilt: int, octet: int) -> None:
    messages = [bytearray(message(number, b"same")) for number in range(1, 60)]
    if octet:
        messages[spoilt][octet] ^= 0x40
        expected = len(messages)
    else:
        messages[spoilt][0] = 2  # an EXTENSION frame of number 0 now
        expected = spoilt
    one = reader()
    one.feed(b"".join(messages))
    one.next_frame()
    assert len(bodies(one.runs)) == expected
    assert one.jumps == (2 if octet and spoilt else 1 if octet else 0)


def test_large_frame_is_finished_alone() -> None:
    one, body = reader(), bytes(100_000)
    data = message(1, body) + message(2, bytes(50_000)) + message(3)
    one.feed(data[:60_000])
    assert one.next_frame() is None
    assert one.unfinished == 60_000
    one.feed(data[60_000:])
    assert one.next_frame() is None
    assert bodies(one.runs) == [body, bytes(50_000), b"hi"]


def test_frames_under_way_are_told_apart() -> None:
    one = reader()
    assert one.under_way == 0
    one.feed(message(1)[:3])
    one.next_frame()
    first = one.under_way
    one.feed(message(1)[3:6])
    one.next_frame()
    assert one.under_way == first != 0
    one.feed(message(1)[6:] + message(2)[:4])
    one.next_frame()
    assert one.under_way not in (0, first)
    one.feed(message(2)[4:])
    one.next_frame()
    assert one.under_way == 0


def test_nothing_is_stored_of_a_frame_that_is_too_large() -> None:
    engine = serving(b"batch-ack", Settings(max_payload=1000))
    engine.receive_data(b"\x08\0\1\0\0\0\0\0\x03\xe9" + bytes(500))
    assert engine.unfinished == 0
    assert engine.outbox.finished


def test_dropped_reader_holds_nothing() -> None:
    one = reader()
    one.feed(message(1, b"part", continued=True) + message(1)[:5])
    one.next_frame()
    assert one.unfinished == 9
    one.drop()
    assert (one.unfinished, one.under_way) == (0, 0)


def test_jumps_in_each_message_cost_no_more_than_a_look_at_each() -> None:
    engine = serving(b"batch-ack:max-count=32767", Settings(window=32767))
    data = b"".join(message(number * 2 % 65535 + 1) for number in range(1, 20_000))
    engine.receive_data(data)
    assert sum(len(run.contents) for run in engine.events() if isinstance(run, MicroMessageRun)) == 19_999
    assert engine.statistics().jumps == 19_998
