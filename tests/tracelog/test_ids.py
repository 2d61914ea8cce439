"""Ids are found in properties as their decoders find them, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.properties import Properties, encode_core
from triomq.protocols import BasicProperties, encode_properties
from triomq.tracelog.ids import AmqpIds, core_ids, emqp_ids

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
amqp_ids = AmqpIds().find
"""The same for all examples: what it remembers of some must not hold for others."""

text = st.none() | st.text(max_size=20)


@given(
    content_type=text,
    message_id=text,
    correlation_id=text,
    reply_to=text,
    priority=st.none() | st.integers(0, 9),
    others=st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(0, 9), max_size=2),
    parent=st.sampled_from([None, PARENT]),
    timestamp=st.none() | st.integers(0, 9),
)
def test_ids_of_amqp_are_those_that_were_encoded(
    parent: str | None, others: dict[str, object], message_id: str | None, correlation_id: str | None, **fields: object
) -> None:
    headers = others | ({} if parent is None else {"traceparent": parent})
    properties = BasicProperties(message_id=message_id, correlation_id=correlation_id, headers=headers, **fields)  # type: ignore[arg-type]
    found = amqp_ids(encode_properties(properties)) or (None, None, None)
    assert [each or None for each in found] == [each or None for each in (message_id, correlation_id, parent)]


def test_ids_stand_elsewhere_in_messages_of_the_same_size() -> None:
    find = AmqpIds().find
    for message_id, correlation_id in (("a", "bcd"), ("efg", "h"), ("i", "jkl"), ("q", "rst")):
        encoded = encode_properties(BasicProperties(message_id=message_id, correlation_id=correlation_id))
        assert find(encoded) == (message_id, correlation_id, None)


def test_id_of_emqp_is_the_first_field() -> None:
    assert emqp_ids(b"\x99\xc4\x03abc\x00") == ("abc", None, None)
    assert emqp_ids(b"\x99\xc4\x00") is None


def test_ids_of_the_core_are_those_that_were_encoded() -> None:
    encoded = encode_core(Properties(message_id="m", correlation_id="c", headers={"traceparent": PARENT}))
    assert core_ids(encoded) == ("m", "c", PARENT)


@given(st.binary(max_size=60))
def test_garbage_raises_nothing(encoded: bytes) -> None:
    amqp_ids(encoded)
    core_ids(encoded)


@pytest.mark.parametrize("encoded", [b"", b"\0", b"\0\0", b"\x10\0\2"])
def test_properties_without_ids_have_none(encoded: bytes) -> None:
    assert amqp_ids(encoded) is None
