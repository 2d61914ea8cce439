from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from triomq.core import CORE_CODEC, Head, QueueMessage, Stretch, body_of, properties_of
from triomq.core.message import overhead_of

PARTS = st.binary(max_size=9)


@given(PARTS, PARTS, PARTS, PARTS, PARTS)
def test_properties_and_body_are_found_inside_their_framing(
    before: bytes, properties: bytes, between: bytes, body: bytes, trailer: bytes
) -> None:
    start = len(before)
    stop = start + len(properties)
    head = Head(
        properties_start=start,
        properties_stop=stop,
        body_start=stop + len(between),
        body_trailer=len(trailer),
    )
    content = before + properties + between + body + trailer
    message = QueueMessage(head, content)
    assert properties_of(head, content) == message.properties == properties
    assert body_of(head, content) == message.body == body
    assert len(content) - head.overhead == len(body)


def test_head_without_offsets_has_a_body_alone() -> None:
    message = QueueMessage(Head(), b"body")
    assert (message.head.traits.codec, message.properties, message.body) == (CORE_CODEC, b"", b"body")


HEADS = [Head("e", "a"), Head("e", "b", body_start=2, body_trailer=1), Head("e", "c", body_start=1)]


@given(st.lists(st.sampled_from(HEADS), min_size=1, max_size=20), st.integers(0, 25))
def test_stretch_is_its_messages(heads: list[Head], count: int) -> None:
    contents = [b"%04d" % number for number in range(len(heads))]
    stretch = Stretch(heads[0], contents, heads)
    messages = list(stretch.messages())
    assert messages == list(map(QueueMessage, heads, contents))
    assert list(stretch.body_sizes()) == [len(message.body) for message in messages]
    assert list(stretch.up_to(count).messages()) == messages[:count]
    parts = list(stretch.alike())
    assert [message for part in parts for message in part.messages()] == messages
    assert all(part.heads is None for part in parts)
    assert all(one.head is not other.head for one, other in pairwise(parts))
    sizes = sum(map(len, contents))
    assert sizes - overhead_of(heads[0], heads, len(heads)) == sum(len(message.body) for message in messages)
    alone = Stretch(HEADS[1], contents)
    assert list(alone.alike()) == [alone]
    assert list(alone.body_sizes()) == [1] * len(contents)
    assert overhead_of(HEADS[1], None, 5) == 15
