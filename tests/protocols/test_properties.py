"""Basic content properties: both ways, and what is refused."""

import datetime

import msgspec
import pamqp.commands
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols import NO_PROPERTIES, BasicProperties, Typed, decode_properties, encode_properties
from triomq.protocols.properties import check_properties, plan_of, read_property, replace_text

from .test_fields import tables

words = st.none() | st.text(max_size=20)
octets = st.none() | st.integers(0, 255)
some = st.builds(
    BasicProperties,
    content_type=words,
    content_encoding=words,
    headers=st.none() | tables,
    delivery_mode=octets,
    priority=octets,
    correlation_id=words,
    reply_to=words,
    expiration=words,
    message_id=words,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=words,
    user_id=words,
    app_id=words,
    cluster_id=words,
)


@given(some)
def test_properties_survive(properties: BasicProperties) -> None:
    written = encode_properties(properties)
    assert decode_properties(written) == properties
    assert encode_properties(decode_properties(written, typed=True)) == written


@given(st.binary(max_size=40))
def test_any_octets_are_properties_or_are_refused(data: bytes) -> None:
    try:
        check_properties(data, 0, len(data))
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            decode_properties(data)
    else:
        decode_properties(data)


def test_no_properties_are_two_octets() -> None:
    assert encode_properties(BasicProperties()) == NO_PROPERTIES
    assert decode_properties(NO_PROPERTIES) == BasicProperties()


def test_the_first_property_is_the_highest_bit() -> None:
    assert encode_properties(BasicProperties(content_type="a")) == b"\x80\x00\x01a"
    assert encode_properties(BasicProperties(cluster_id="a")) == b"\x00\x04\x01a"


def test_plan_lists_sizes() -> None:
    assert plan_of(0xFFFC) == (0, 0, -1, 1, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x00\x01",
        b"\x00\x02",
        b"\x80\x00",
        b"\x80\x00\x05abc",
        b"\x80\x00\x01ab",
        b"\x10\x00",
        b"\x00\x40\x00",
        b"\x20\x00\x00\x00\x00\x09",
        b"\x20\x00\x00\x00\x00\x03\x01aQ",
    ],
)
def test_broken_properties_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_properties(data)


@pytest.mark.parametrize(
    "properties",
    [BasicProperties(priority=256), BasicProperties(message_id="x" * 256), BasicProperties(timestamp=-1)],
)
def test_value_that_does_not_fit_is_our_own_mistake(properties: BasicProperties) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)


def test_value_of_another_type_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="priority cannot be 'high'"):
        encode_properties(BasicProperties(priority="high"))  # type: ignore[arg-type]  # that is the test


def test_types_in_headers_can_be_kept() -> None:
    written = encode_properties(BasicProperties(headers={"n": Typed("B", 1)}))
    assert decode_properties(written).headers == {"n": 1}
    assert decode_properties(written, typed=True).headers == {"n": Typed("B", 1)}


def test_another_implementation_agrees() -> None:
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    theirs = pamqp.commands.Basic.Properties(
        content_type="text/plain",
        headers={"a": 1},
        delivery_mode=2,
        priority=3,
        message_id="m",
        timestamp=moment,
        app_id="app",
    )
    ours = BasicProperties(
        content_type="text/plain",
        headers={"a": 1},
        delivery_mode=2,
        priority=3,
        message_id="m",
        timestamp=int(moment.timestamp()),
        app_id="app",
    )
    payload = pamqp.header.ContentHeader(0, 7, theirs).marshal()
    assert decode_properties(payload[12:]) == ours
    read = pamqp.header.ContentHeader()
    read.unmarshal(payload[:12] + encode_properties(ours))
    assert read.properties == theirs


@given(some, words)
def test_text_is_replaced_and_nothing_else(properties: BasicProperties, new: str | None) -> None:
    written = encode_properties(properties)
    replaced = replace_text(written, "reply_to", (properties.reply_to or "").encode(), new or "")
    if properties.reply_to is None:
        assert replaced is written
    else:
        assert replaced == encode_properties(msgspec.structs.replace(properties, reply_to=new or ""))


@given(some, st.sampled_from(("content_type", "reply_to", "message_id", "cluster_id")))
def test_one_text_is_read_alone(properties: BasicProperties, name: str) -> None:
    assert read_property(encode_properties(properties), name) == getattr(properties, name)


def test_another_text_is_not_replaced() -> None:
    written = encode_properties(BasicProperties(reply_to="a", app_id="b"))
    assert replace_text(written, "reply_to", b"b", "c") is written
