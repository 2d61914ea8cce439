from hypothesis import given
from hypothesis import strategies as st

from triomq.core import CORE_CODEC, Head, QueueMessage, body_of, properties_of

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
