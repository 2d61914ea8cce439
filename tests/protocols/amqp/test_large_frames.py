"""Large frames, whose ends come in later chunks: the same messages whatever the chunks."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import AMQPEngine, BasicPublish, ChannelCloseOk, Event

from .wire import content, flatten, method, running

SIZES = st.lists(st.sampled_from([0, 5, 1_000, 20_000, 65_536, 100_000, 131_064, 200_000]), min_size=1, max_size=6)
CHUNKS = st.lists(st.sampled_from([1, 7, 100, 5_000, 20_000, 65_536, 262_144]), min_size=1, max_size=20)
PUBLISH = BasicPublish("", "q")


PROPERTIES = encode_properties(BasicProperties(content_type="text/plain", headers={"a": [1, None]}, message_id="7"))


def _bodies(server: AMQPEngine) -> list[bytes]:
    found = []
    for published in flatten(server.events()):
        assert isinstance(published, tuple), published
        _, _, framing, octets = published
        found.append(framing.body(octets))
    return found


@given(sizes=SIZES, chunks=CHUNKS)
def test_chunks_of_any_size_give_the_same_messages(sizes: list[int], chunks: list[int]) -> None:
    server = running()
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    rest = memoryview(b"".join(content(1, PUBLISH, body) for body in bodies))
    found: list[bytes] = []
    for size in chunks:
        server.receive_data(bytes(rest[:size]) or b"\x08\x00\x00\x00\x00\x00\x00\xce")
        found += _bodies(server)
        rest = rest[size:]
    if rest:
        server.receive_data(bytes(rest))
        found += _bodies(server)
    assert found == bodies


def test_octets_behind_a_large_frame_that_ends_the_connection_are_not_read() -> None:
    server = running()
    data = content(1, PUBLISH, bytes(100_000))[:-1] + b"\0" + content(1, PUBLISH, bytes(100_000))
    server.receive_data(data[:50_000])
    server.receive_data(data[50_000:])
    assert [type(event).__name__ for event in server.events()] == ["Failed"]
    assert b"FRAME_ERROR" in b"".join(server.data_to_send())


WORDS = [
    content(1, PUBLISH, b"a" * 70_000, PROPERTIES),
    content(2, BasicPublish("e", "k", mandatory=True), b"b" * 30_000),
    content(1, PUBLISH, b"c" * 50_000, step=20_000),
    content(1, PUBLISH, b"d" * 300) * 3,
    content(2, PUBLISH, b"e" * 40_000)[:-1] + b"\0",  # the end of the body frame is wrong
    content(1, PUBLISH, b"f" * 40_000, b"\x80\x00\x09short"),  # the properties end too early
    content(1, PUBLISH, b"g" * 20_000)[:-9_000],  # the next frame begins within the body
]


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    places=st.lists(st.integers(0, 2**20), max_size=8),
)
def test_split_of_large_publishes_changes_no_event_and_no_answer(words: list[bytes], places: list[int]) -> None:
    data = b"".join(words)
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    found = []
    for stops in ([len(data)], edges[1:]):
        server, start = running(channels=(1, 2)), 0
        events: list[Event] = []
        answers = b""
        for stop in stops:
            if start < stop:
                server.receive_data(data[start:stop])
                events += server.events()
                answers += b"".join(server.data_to_send())
                start = stop
        found.append((flatten(events), answers))
    assert found[0] == found[1]


def test_publish_in_two_parts_is_joined_once() -> None:
    server = running()
    body = bytes(100_000)
    data = content(1, PUBLISH, body, PROPERTIES)
    parts = data[:60_000], data[60_000:]
    server.receive_data(parts[0])
    assert server.unfinished == 60_000
    assert server.events() == []
    tracemalloc.start()
    try:
        server.receive_data(parts[1])
        assert tracemalloc.get_traced_memory()[1] < 1.1 * len(data)
    finally:
        tracemalloc.stop()
    assert _bodies(server) == [body]
    assert server.unfinished == 0


@pytest.mark.parametrize("cut", [100, 30_000, 60_000])
def test_publish_whose_channel_is_closed_meanwhile_is_passed_over(cut: int) -> None:
    server = running(channels=(1, 2))
    data = content(1, PUBLISH, bytes(60_000)) + content(2, PUBLISH, b"next")
    server.receive_data(data[:cut])
    server.close_channel(1, 406, "no more")
    server.receive_data(data[cut:])
    assert _bodies(server) == [b"next"]
    server.receive_data(method(1, ChannelCloseOk()))
    assert server.unfinished == 0


def test_publish_of_a_connection_that_is_closed_meanwhile_is_passed_over() -> None:
    server = running()
    data = content(1, PUBLISH, bytes(60_000)) * 2
    server.receive_data(data[:30_000])
    server.close(320, "no more")
    server.receive_data(data[30_000:])
    assert server.events() == []
