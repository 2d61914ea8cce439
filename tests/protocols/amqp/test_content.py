"""Contents are put together from frames, and their shape is described."""

import pytest

from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import AMQP_METHODS, BasicPublish, Framing, joined
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.content import FRAMINGS, Assembly, ChannelRefusal, FramingTable, Limits

from .wire import body, header

PROPERTIES = encode_properties(BasicProperties(content_type="text/plain", headers={"a": [1, None]}, message_id="7"))


def assembly(limits: Limits | None = None) -> Assembly:
    return Assembly(AMQP_METHODS.by_type[BasicPublish], BasicPublish("e", "k"), limits or Limits(1_000_000))


def test_content_in_one_body_frame_stays_as_it_came() -> None:
    part = assembly()
    frames = header(3, 5, PROPERTIES), body(3, b"hello")
    assert not part.add_header(frames[0])
    assert part.add_body(memoryview(frames[1]))
    framing, content = part.finish(3, FramingTable())
    assert content == frames[0] + frames[1]
    assert framing == Framing(3, 19, 19 + len(PROPERTIES), 19 + len(PROPERTIES) + 8, 1, 0xA080)
    assert framing.body(content) == b"hello"
    assert decode_properties(framing.properties(content)).headers == {"a": [1, None]}


def test_empty_content_is_its_header_frame() -> None:
    part = assembly()
    assert part.add_header(header(3, 0, PROPERTIES))
    framing, content = part.finish(3, FramingTable())
    assert content == header(3, 0, PROPERTIES)
    assert (framing.body_start, framing.body_trailer) == (len(content), 0)
    assert framing.body(content) == b""
    assert framing.properties(content) == PROPERTIES


def test_content_in_several_body_frames_is_joined() -> None:
    part, limits = assembly(), Limits(1000)
    part = assembly(limits)
    part.add_header(header(3, 6, PROPERTIES))
    assert not part.add_body(memoryview(body(3, b"he")))
    assert not part.add_body(memoryview(body(3, b"")))
    assert part.add_body(memoryview(body(3, b"llo!")))
    framing, content = part.finish(3, FramingTable())
    assert framing == joined(PROPERTIES)
    assert framing.channel == 0
    assert content == PROPERTIES + b"hello!"
    assert framing.body(content) == b"hello!"
    assert framing.properties(content) == PROPERTIES
    assert limits.unfinished == 0


def test_the_same_shape_is_the_same_object() -> None:
    table = FramingTable()
    assert table.framed(1, 0, 14, True) is table.framed(1, 0, 14, True)
    assert table.framed(1, 0, 14, True) is not table.framed(1, 0, 14, False)
    assert table.joined(PROPERTIES) is table.joined(PROPERTIES)


def test_shapes_are_remembered_within_a_bound() -> None:
    table = FramingTable()
    for size in range(3 * FRAMINGS):
        assert table.framed(1, 0, size, True).properties_stop == 7 + size
        assert len(table.known) <= FRAMINGS


def test_body_above_the_limit_is_refused_by_its_header() -> None:
    part = assembly(Limits(100))
    with pytest.raises(ChannelRefusal, match="101"):
        part.add_header(header(1, 101))


def test_huge_announcement_takes_no_memory() -> None:
    limits = Limits(2**40)
    part = assembly(limits)
    part.add_header(header(1, 2**40))
    assert limits.unfinished < 100


def test_small_frames_take_no_more_than_their_octets() -> None:
    limits = Limits(1_000_000)
    part = assembly(limits)
    part.add_header(header(1, 3000))
    for _ in range(2999):
        part.add_body(memoryview(body(1, b"x")))
    assert limits.unfinished == 2999 + len(header(1, 3000))


def test_body_that_is_too_long_is_refused() -> None:
    part = assembly()
    part.add_header(header(1, 3))
    with pytest.raises(PeerError, match="expected content body"):
        part.add_body(memoryview(body(1, b"four")))
