"""Properties of messages: types of values, names, what is refused, and what SharpMessaging gets."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import PropertyValue, decode_properties, encode_properties, is_property_name
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.properties import read_properties, read_value, untyped_properties

MOMENT = datetime(2014, 10, 13, 11, tzinfo=UTC)

VALUES = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",))),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.just(UTC)),
)


def test_properties_of_the_specification_are_read() -> None:
    assert read_properties(b"first_name:jonas;twitter:jgauffin;") == {"first_name": "jonas", "twitter": "jgauffin"}
    assert read_properties(b"a:N1;b:D1413198000.0;c:THello%20%22world%22") == {
        "a": 1,
        "b": MOMENT,
        "c": 'Hello "world"',
    }


def test_properties_of_sharpmessaging_are_texts_whatever_they_begin_with() -> None:
    octets = b"first-name:Tj%C3%B6nas%20B%3Bc;"
    assert read_properties(octets, is_typed=False) == {"first-name": "Tjönas B;c"}
    assert read_properties(octets) == {"first-name": "jönas B;c"}
    assert read_properties(b"a:N5;", is_typed=False) == {"a": "N5"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N5", 5),
        ("N-5", -5),
        ("N+5", 5),
        ("N9223372036854775807", (1 << 63) - 1),
        ("N9223372036854775808", Decimal("9223372036854775808")),
        ("N0.5", 0.5),
        ("N1E+20", 1e20),
        ("N1e999", Decimal("1e999")),
        ("D0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("D-0.5", datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)),
        ("D1413198000.1234567", MOMENT + timedelta(microseconds=123_456)),
        ("T", ""),
        ("TN5", "N5"),
        ("Nabc", "Nabc"),
        ("N", "N"),
        ("N5x", "N5x"),
        ("N٣", "N٣"),
        ("Dxyz", "Dxyz"),
        ("D999999999999999", "D999999999999999"),
        ("plain%20text", "plain text"),
        ("", ""),
    ],
)
def test_value_has_its_type_before_it(text: str, value: PropertyValue) -> None:
    found = read_value(text, "it")
    assert found == value
    assert type(found) is type(value)


@given(st.dictionaries(st.from_regex("[a-z0-9_-]{1,20}", fullmatch=True), VALUES, max_size=5))
def test_any_properties_come_back(properties: dict[str, PropertyValue]) -> None:
    octets = encode_properties(properties)
    assert octets.isascii()
    assert decode_properties(octets) == properties


def test_properties_are_written_with_their_types() -> None:
    local = timezone(timedelta(hours=2))
    assert encode_properties({}) == b""
    assert encode_properties({"a": 10, "b": "ö;", "c": 0.25, "d": Decimal("1E+20"), "e": MOMENT}) == (
        b"a:N10;b:T%C3%B6%3B;c:N0.25;d:N100000000000000000000;e:D1413198000.0;"
    )
    assert encode_properties({"e": MOMENT.astimezone(local) + timedelta(microseconds=500)}) == b"e:D1413198000.0005;"


@pytest.mark.parametrize(
    "value", [True, None, b"octets", float("nan"), float("inf"), Decimal("NaN"), datetime(2014, 10, 13), [1]]
)
def test_value_without_a_type_cannot_be_written(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="is no value of a property"):
        encode_properties({"a": value})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["", "A", "a b", "ö", "a:b", "a;b"])
def test_name_that_nobody_can_read_is_not_written(name: str) -> None:
    assert not is_property_name(name)
    with pytest.raises(LocalProtocolError, match="is no name of a property"):
        encode_properties({name: 1})


def test_properties_are_as_long_as_their_length_says() -> None:
    assert is_property_name("first_name-1")
    with pytest.raises(LocalProtocolError, match="has room for 65535"):
        encode_properties({"a": "x" * 65533})


def test_names_are_read_in_any_case() -> None:
    assert read_properties(b"First-Name:N1;") == {"first-name": 1}


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"abc;", "has no ':'"),
        (b":N5;", "is no name of a property"),
        (b"a b:N5;", "is no name of a property"),
        (b"a:N1;A:N2;", "stands there twice"),
        (b"a:T%4;", "is no escape"),
        (b"a:T%ff;", "not UTF-8"),
        (b"a:T\xc3\xb6;", "not ASCII"),
    ],
)
def test_what_are_no_properties_is_refused(octets: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        read_properties(octets)
    assert caught.value.code == 400
    assert decode_properties(octets) == {}


def test_blanks_and_empty_items_are_passed_over() -> None:
    assert read_properties(b" a:N1 ;; b:N2") == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("octets", "untyped"),
    [
        (b"a:N10;", b"a:10;"),
        (b"a:TJ%C3%B6nas;", b"a:J%C3%B6nas;"),
        (b"a:D1413198000.0;", b"a:1413198000.0;"),
        (b"a:N1;b:N2;", b""),
        (b"", b""),
        (b"a:T" + b"x" * 260, b""),
    ],
)
def test_sharpmessaging_gets_one_property_without_a_type(octets: bytes, untyped: bytes) -> None:
    assert untyped_properties(octets) == untyped
