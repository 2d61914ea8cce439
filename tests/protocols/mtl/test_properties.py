"""Tables of Contents: names with hyphens, AMQP's types, and what becomes of what nobody knows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.mtl.wire import TEXT_PLAIN
from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols import BasicProperties, FieldValue, Table, Timestamp, Typed, encode_table
from triomq.protocols.mtl import (
    EMPTY_TABLE,
    ContentProperties,
    InvalidContent,
    content_entries,
    content_of,
    decode_content,
    encode_content,
    is_content_table,
)

ALL = ContentProperties(
    basic=BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"trace": "0f3a", "count": 3},
        delivery_mode=2,
        priority=5,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="shop",
        cluster_id="sender",
    ),
    address="rec.pets.cats",
    exchange="news",
    redelivered=True,
)
NAMED: Table = {
    "content-type": "text/plain",
    "content-encoding": "gzip",
    "correlation-id": "c",
    "reply-to": "r",
    "expiration": "60000",
    "message-id": "m",
    "type": "order",
    "user-id": "guest",
    "app-id": "shop",
    "sender": "sender",
    "delivery-mode": 2,
    "priority": 5,
    "timestamp": Timestamp(1_700_000_000),
    "headers": {"trace": "0f3a", "count": 3},
    "address": "rec.pets.cats",
    "exchange": "news",
    "redelivered": True,
}


def test_names_are_amqps_with_hyphens() -> None:
    assert content_entries(ALL) == NAMED
    assert content_of(NAMED) == ALL


def test_golden_table_is_read_and_written() -> None:
    properties = ContentProperties(basic=BasicProperties(content_type="text/plain"))
    assert decode_content(TEXT_PLAIN) == properties
    assert encode_content(properties) == TEXT_PLAIN


def test_empty_table_is_no_properties() -> None:
    assert encode_content(ContentProperties()) == EMPTY_TABLE == b"\0\0\0\0"
    assert decode_content(EMPTY_TABLE) == ContentProperties()


def test_names_that_nobody_knows_are_headers_and_give_way_to_those() -> None:
    read = decode_content(encode_table({"colour": "red", "size": Typed("B", 7), "headers": {"colour": "blue"}}))
    assert read.basic.headers == {"colour": "blue", "size": Typed("B", 7)}
    assert decode_content(encode_table({"colour": "red"})).basic.headers == {"colour": "red"}


def test_headers_may_be_empty_and_are_not_absent_then() -> None:
    assert decode_content(encode_table({"headers": {}})).basic.headers == {}


def test_numbers_may_be_of_any_type_that_has_them() -> None:
    for code in "bBsuIilL":
        read = decode_content(encode_table({"priority": Typed(code, 9), "timestamp": Typed(code, 7)}))
        assert (read.basic.priority, read.basic.timestamp) == (9, 7)


def test_text_that_is_no_utf8_leaves_as_it_came() -> None:
    table = encode_table({"message-id": Typed("S", b"\xff\xfe")})
    assert encode_content(decode_content(table)) == table


WRONG: list[tuple[str, FieldValue]] = [
    *((name, 7) for name in ("content-type", "message-id", "address", "exchange", "sender", "expiration")),
    *((name, b"octets") for name in ("content-type", "address")),
    *((name, "ä" * 128) for name in ("content-type", "address", "user-id")),
    *((name, wrong) for name in ("delivery-mode", "priority") for wrong in (256, -1, "2", True, 1.0)),
    *(("timestamp", wrong) for wrong in (-1, "now", 1.5, None)),
    ("headers", "trace"),
    ("headers", ["trace"]),
    ("redelivered", 1),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_property_of_another_type_is_named(name: str, value: FieldValue) -> None:
    with pytest.raises(InvalidContent, match=name):
        decode_content(encode_table({name: value}))


def test_octets_that_are_no_table_are_told_from_wrong_properties() -> None:
    for octets in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\0x"):
        with pytest.raises(RemoteProtocolError) as caught:
            decode_content(octets)
        assert not isinstance(caught.value, InvalidContent)


def test_value_that_does_not_fit_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        encode_content(ContentProperties(basic=BasicProperties(headers={"n": 1 << 70})))


@pytest.mark.parametrize(
    ("table", "taken"),
    [
        (EMPTY_TABLE, True),
        (encode_content(ALL), True),
        (encode_table({"headers": {"": 1}}), False),
        (encode_table({"headers": {"a": [{"b\n": 1}]}}), False),
        (encode_table({"content-type": "x" * 256}), False),
        (b"\0\0\0\1", False),
        (EMPTY_TABLE + b"x", False),
    ],
)
def test_table_that_readers_drop_is_known_beforehand(table: bytes, taken: bool) -> None:
    assert is_content_table(table) is taken


short_texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=60)
headers: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text("abc-", min_size=1, max_size=5),
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5) | st.binary(max_size=5),
    max_size=4,
)
octet = st.integers(0, 255)
basics = st.builds(
    BasicProperties,
    **{name: st.none() | short_texts for name in ("content_type", "reply_to", "message_id", "cluster_id", "app_id")},
    headers=st.none() | headers,
    delivery_mode=st.none() | octet,
    priority=st.none() | octet,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
)
contents = st.builds(
    ContentProperties,
    basic=basics,
    address=st.none() | short_texts,
    exchange=st.none() | short_texts,
    redelivered=st.booleans(),
)


@given(contents)
def test_properties_are_read_as_they_were_written(properties: ContentProperties) -> None:
    read = decode_content(encode_content(properties))
    told = read.basic.headers
    plain = told if told is None else {name: v.value if isinstance(v, Typed) else v for name, v in told.items()}
    assert content_entries(read).keys() == content_entries(properties).keys()
    assert plain == properties.basic.headers
    assert (read.address, read.exchange, read.redelivered) == (
        properties.address,
        properties.exchange,
        properties.redelivered,
    )
    assert encode_content(read) == encode_content(properties)
