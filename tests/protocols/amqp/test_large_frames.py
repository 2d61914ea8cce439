"""Large frames, whose ends come in later chunks: the same messages whatever the chunks."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.amqp import AMQPEngine, BasicPublish, PublishRun

from .wire import content, running

SIZES = st.lists(st.sampled_from([0, 5, 1_000, 20_000, 65_536, 100_000, 131_064, 200_000]), min_size=1, max_size=6)
CHUNKS = st.lists(st.sampled_from([1, 7, 100, 5_000, 20_000, 65_536, 262_144]), min_size=1, max_size=20)
PUBLISH = BasicPublish("", "q")


def _bodies(server: AMQPEngine) -> list[bytes]:
    found = []
    for event in server.events():
        assert isinstance(event, PublishRun), event
        found += [event.framing.body(one) for one in event.contents]
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
