"""Properties from AMQP to the core and back."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Codecs, Head, Properties, QueueMessage, traits_of
from triomq.endpoints.content import AMQP_CODEC, amend_amqp, from_amqp, headers_of, to_amqp, type_name
from triomq.properties import decode_core, encode_core
from triomq.protocols import (
    MOST_VALUES,
    NO_PROPERTIES,
    BasicProperties,
    Timestamp,
    Typed,
    decode_properties,
    encode_properties,
)

# Short strings hold 255 octets; a character of these has at most four.
short = st.none() | st.text(max_size=63)
moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
numbers = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.text() | st.binary() | moments,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=63), inner, max_size=4),
    max_leaves=12,
)
properties = st.builds(
    Properties,
    content_type=short,
    content_encoding=short,
    headers=st.none() | st.dictionaries(st.text(max_size=63), values, max_size=5),
    persistent=st.booleans(),
    priority=st.none() | st.integers(0, 255),
    correlation_id=short,
    reply_to=short,
    expiration=st.none() | st.integers(0, 10**12).map(lambda milliseconds: milliseconds / 1000),
    message_id=short,
    timestamp=st.none() | moments,
    type=short,
    user_id=short,
    app_id=short,
)


@given(properties)
def test_properties_of_the_core_become_the_same_ones_of_amqp(said: Properties) -> None:
    assert from_amqp(to_amqp(said)) == said


@given(properties)
def test_properties_that_come_over_amqp_can_be_stored_in_the_cores_own_form(said: Properties) -> None:
    assert decode_core(encode_core(from_amqp(to_amqp(said)))) == said


def test_headers_for_which_there_is_no_room_are_left_out() -> None:
    said = Properties(type="order", headers={"large": "x" * 1000})
    assert from_amqp(to_amqp(said, room=2000)) == said
    assert from_amqp(to_amqp(said, room=1000)) == Properties(type="order")
    assert from_amqp(to_amqp(Properties(type="order"), room=5)) == Properties(type="order")


def test_no_properties_are_transient_as_amqp_has_it() -> None:
    assert from_amqp(NO_PROPERTIES) == Properties(persistent=False)


def test_the_defaults_of_this_process_are_persistent() -> None:
    assert decode_properties(to_amqp(Properties())) == BasicProperties(delivery_mode=2)


def test_types_of_the_wire_become_plain_values() -> None:
    headers = {
        "byte": Typed("B", 7),
        "short": Typed("s", -7),
        "long": 7,
        "float": Typed("f", 0.5),
        "decimal": Decimal("1.50"),
        "moment": Timestamp(86400),
        "octets": b"\xff",
        "list": [Typed("B", 1), Timestamp(0), {"deep": Typed("d", 2.5)}],
        "nothing": None,
    }
    encoded = encode_properties(BasicProperties(headers=headers))
    plain = {
        "byte": 7,
        "short": -7,
        "long": 7,
        "float": 0.5,
        "decimal": Decimal("1.50"),
        "moment": datetime(1970, 1, 2, tzinfo=UTC),
        "octets": b"\xff",
        "list": [1, datetime(1970, 1, 1, tzinfo=UTC), {"deep": 2.5}],
        "nothing": None,
    }
    assert from_amqp(encoded).headers == plain
    assert headers_of(encoded) == plain


def test_moment_beyond_the_calendar_is_no_moment() -> None:
    encoded = encode_properties(BasicProperties(timestamp=2**64 - 1, headers={"t": Timestamp(2**63)}))
    assert from_amqp(encoded) == Properties(persistent=False, timestamp=None, headers={"t": None})


def many_headers(count: int) -> bytes:
    fields = b"".join(b"\x04%04xt\x01" % number for number in range(count))
    return b"\x29\x00" + len(fields).to_bytes(4, "big") + fields + b"\x05" + b"\x0510000"


def test_headers_are_looked_into_up_to_so_many() -> None:
    few, many = many_headers(MOST_VALUES), many_headers(MOST_VALUES + 1)
    expected = {f"{number:04x}": True for number in range(MOST_VALUES)}
    for encoded in (few, many):
        assert from_amqp(encoded).headers == headers_of(encoded) == expected
        assert from_amqp(encoded).priority == 5


def test_headers_that_are_too_many_to_be_looked_into_are_kept_when_some_are_set() -> None:
    many = many_headers(MOST_VALUES + 1)
    for headers in ({"0001": "new", "x": [1]}, {}):
        amended, flags = amend_amqp(many, headers, drop_expiration=True)
        found = decode_properties(amended)
        assert found.headers == {f"{number:04x}": True for number in range(MOST_VALUES + 1)} | headers
        assert (found.priority, found.expiration, flags) == (5, None, 0x2800)


def test_headers_nested_by_the_thousand_are_read_as_far_as_it_makes_sense() -> None:
    table = b""
    for _ in range(10_000):
        table = b"\1aF" + len(table).to_bytes(4, "big") + table
    encoded = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    value, depth = from_amqp(encoded).headers, 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert (value, depth) == (None, 66)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60000", 60.0), ("0", 0.0), ("+1", 0.001), ("-0", 0.0), ("soon", None), ("-1", None), ("١", None)],
)
def test_expiration_is_read_as_milliseconds(text: str, seconds: float | None) -> None:
    assert from_amqp(encode_properties(BasicProperties(expiration=text))).expiration == seconds


@given(st.binary(max_size=60))
def test_string_that_is_no_text_survives(octets: bytes) -> None:
    text = octets.decode("utf-8", "surrogateescape")
    assert from_amqp(encode_properties(BasicProperties(message_id=text))).message_id == text


# What AMQP cannot say must not reach an encoder in a consumer's connection, which would have to crash.


@pytest.mark.parametrize(
    "said",
    [
        Properties(message_id="x" * 256),
        Properties(priority=256),
        Properties(priority=-1),
        Properties(timestamp=datetime(1969, 12, 31, tzinfo=UTC)),
        Properties(expiration=float("inf")),
        Properties(expiration=float("nan")),
        Properties(type="\ud800"),
    ],
    ids=["long text", "priority", "negative priority", "moment", "never", "no number", "no text"],
)
def test_property_that_amqp_cannot_encode_is_left_out(said: Properties) -> None:
    assert from_amqp(to_amqp(said)) == Properties()


def test_expiration_that_is_past_is_over_at_once() -> None:
    assert decode_properties(to_amqp(Properties(expiration=-5.0))).expiration == "0"


def test_header_that_amqp_cannot_encode_is_left_out_and_the_others_stay() -> None:
    headers = {
        "large": 2**63,
        "x" * 256: 1,
        "early": datetime(1970, 1, 1, tzinfo=UTC) - timedelta(days=1),
        "exact": Decimal("1E+400"),
        "deep": {"list": [1, 2**70]},
        "good": [1, {"a": "b"}],
    }
    assert from_amqp(to_amqp(Properties(app_id="a", headers=headers))) == Properties(
        app_id="a", headers={"good": [1, {"a": "b"}]}
    )


def test_value_without_a_type_on_the_wire_becomes_text() -> None:
    assert from_amqp(to_amqp(Properties(headers={"set": complex(1, 2)}))).headers == {"set": "(1+2j)"}


def test_the_codec_has_a_number_that_records_may_carry_for_ever() -> None:
    codecs = Codecs()
    codecs.register(AMQP_CODEC, from_amqp, amend_amqp)
    encoded = encode_properties(BasicProperties(app_id="a"))
    head = Head(properties_stop=len(encoded), body_start=len(encoded), traits=traits_of(codec=1))
    assert codecs.decode(QueueMessage(head, encoded + b"body")).app_id == "a"


def test_types_have_the_names_that_clients_know() -> None:
    values = [True, 1, 1.0, "a", b"a", [], {}, None, datetime.now(UTC)]
    assert [type_name(value) for value in values] == [
        "bool",
        "signedint",
        "double",
        "longstr",
        "binary",
        "array",
        "table",
        "void",
        "timestamp",
    ]
