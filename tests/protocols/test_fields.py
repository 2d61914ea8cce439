"""Field tables: every type, both ways, at any depth, against an independent implementation."""

import struct
from collections.abc import Callable
from decimal import Decimal

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols import FieldValue, Timestamp, Typed, decode_table, encode_table
from triomq.protocols.fields import VALUE_SIZES, TooManyFields, check_table, encode_short_string, read_table

names = st.text(max_size=20).filter(lambda text: len(text.encode()) < 256)
leaves: st.SearchStrategy[FieldValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=30),
    st.binary(max_size=30),
    st.builds(Timestamp, st.integers(0, 2**64 - 1)),
    st.builds(lambda scale, value: Decimal(value).scaleb(-scale), st.integers(0, 20), st.integers(-(2**31), 2**31 - 1)),
)
values: st.SearchStrategy[FieldValue] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(names, values, max_size=6)

_CODES: dict[str, tuple[str, int, int]] = {
    "b": (">b", -(2**7), 2**7 - 1),
    "B": (">B", 0, 2**8 - 1),
    "s": (">h", -(2**15), 2**15 - 1),
    "U": (">h", -(2**15), 2**15 - 1),
    "u": (">H", 0, 2**16 - 1),
    "I": (">i", -(2**31), 2**31 - 1),
    "i": (">I", 0, 2**32 - 1),
    "l": (">q", -(2**63), 2**63 - 1),
    "L": (">q", -(2**63), 2**63 - 1),
}
numbers = st.sampled_from(sorted(_CODES)).flatmap(
    lambda code: st.integers(*_CODES[code][1:]).map(lambda value: Typed(code, value))
)


def table_of(*fields: bytes) -> bytes:
    """Frame fields, each with its name and type octet, as a table."""
    octets = b"".join(fields)
    return struct.pack(">I", len(octets)) + octets


def test_of_two_fields_with_one_name_the_last_counts() -> None:
    assert decode_table(table_of(b"\x01at\x00", b"\x01bV", b"\x01at\x01")) == {"a": True, "b": None}


@given(tables)
def test_table_that_is_written_is_read_again(table: dict[str, FieldValue]) -> None:
    assert decode_table(encode_table(table)) == table


@given(st.dictionaries(names, values | numbers | st.lists(numbers, max_size=3), max_size=6))
def test_reading_with_types_and_writing_again_changes_no_octet(table: dict[str, FieldValue]) -> None:
    octets = encode_table(table)
    assert encode_table(decode_table(octets, typed=True)) == octets


@given(st.binary(max_size=60).map(lambda octets: struct.pack(">I", len(octets)) + octets))
@example(b"\x00\x00\x00\x05\x01aS\x00\x00")
def test_any_octets_are_a_table_or_are_refused(octets: bytes) -> None:
    try:
        table = decode_table(octets)
    except RemoteProtocolError:
        return
    assert decode_table(encode_table(decode_table(octets, typed=True))) == table or "nan" in repr(table)


@pytest.mark.parametrize("code", sorted(_CODES))
def test_each_integer_type_keeps_its_width_and_sign(code: str) -> None:
    form, low, high = _CODES[code]
    for value in (low, -1 if low else 0, high):
        octets = table_of(b"\x01n" + code.encode() + struct.pack(form, value))
        assert decode_table(octets) == {"n": value}
        assert encode_table({"n": Typed(code, value)}) == octets


def test_integer_takes_the_smaller_of_two_types() -> None:
    assert encode_table({"n": 5}) == table_of(b"\x01nI\x00\x00\x00\x05")
    assert encode_table({"n": -(2**31)})[6:7] == b"I"
    assert encode_table({"n": 2**31})[6:7] == b"l"


def test_types_that_python_cannot_tell_apart_are_named_on_request() -> None:
    octets = table_of(
        b"\x01nB\x07", b"\x01mI\x00\x00\x00\x07", b"\x01ff\x00\x00\x00\x00", b"\x01aA\x00\x00\x00\x02b\x01"
    )
    assert decode_table(octets) == {"n": 7, "m": 7, "f": 0.0, "a": [1]}
    assert decode_table(octets, typed=True) == {"n": Typed("B", 7), "m": 7, "f": Typed("f", 0.0), "a": [Typed("b", 1)]}


def test_long_string_is_text_where_it_can_be() -> None:
    octets = table_of(b"\x01aS\x00\x00\x00\x02\xc3\xa6", b"\x01bS\x00\x00\x00\x01\xff", b"\x01cx\x00\x00\x00\x01a")
    assert decode_table(octets) == {"a": "æ", "b": b"\xff", "c": b"a"}
    assert decode_table(octets, typed=True)["b"] == Typed("S", b"\xff")


def test_name_that_is_not_utf_8_comes_out_as_it_came_in() -> None:
    octets = table_of(b"\x02\xff\xfeV")
    assert encode_table(decode_table(octets)) == octets


def test_decimal_keeps_its_scale() -> None:
    octets = table_of(b"\x01dD\x02\x00\x00\x00\x64")
    assert str(decode_table(octets)["d"]) == "1.00"
    assert encode_table({"d": Decimal("1.00")}) == octets
    assert encode_table({"d": Decimal("12E+2")}) == table_of(b"\x01dD\x00\x00\x00\x04\xb0")
    assert decode_table(encode_table({"d": Decimal("-0.5")})) == {"d": Decimal("-0.5")}


@pytest.mark.parametrize("kind", ["F", "A"])
def test_tables_nested_as_deep_as_a_frame_holds_are_read_and_written(kind: str) -> None:
    depth = 131072 // 7
    octets = b""
    key = b"\x01k" if kind == "F" else b""
    for _ in range(depth):
        octets = key + kind.encode() + struct.pack(">I", len(octets)) + octets if octets else key + b"V"
    octets = table_of(octets if kind == "F" else b"\x01k" + octets)
    table = decode_table(octets, typed=True)
    assert encode_table(table) == octets
    assert check_table(octets, 0) == len(octets)


def test_depth_can_be_bounded() -> None:
    octets = encode_table({"a": {"b": {"c": 1}}})
    assert read_table(octets, deepest=2)[0] == {"a": {"b": {"c": 1}}}
    with pytest.raises(RemoteProtocolError, match="deeper than 1"):
        read_table(octets, deepest=1)


def test_values_can_be_bounded_with_those_inside_of_others() -> None:
    octets = encode_table({"a": {"b": 1}, "c": [1, 2]})
    assert read_table(octets, most=5)[0] == {"a": {"b": 1}, "c": [1, 2]}
    with pytest.raises(TooManyFields):
        read_table(octets, most=4)


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"", "middle"),
        (b"\x00\x00", "middle"),
        (b"\x00\x00\x00\x09", "longer than what holds it"),
        (table_of(b"\x01aQ"), "unknown field type 'Q'"),
        (table_of(b"\x01a"), "middle"),
        (table_of(b"\x01aI\x00"), "middle"),
        (table_of(b"\x01aS\x00\x00\x00\x09abc"), "longer than the table"),
        (table_of(b"\x01aT\x00"), "longer than the table"),
        (table_of(b"\x09aV"), "middle"),
        (table_of(b"\x01aF\x00\x00\x00\x09"), "longer than what holds it"),
        (table_of(b"\x01aA\x00\x00\x00\x02I\x00") + b"abc", "longer than the table"),
        (table_of() + b"x", "1 octets stand behind"),
    ],
)
def test_broken_octets_are_refused_with_a_reason(octets: bytes, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        decode_table(octets)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        2**63,
        Typed("B", 256),
        Typed("B", "x"),
        Typed("Q", 1),
        Typed("F", {}),
        Typed("S", 5),
        Typed("T", 5),
        Typed("D", 5),
        Decimal("NaN"),
        Decimal("1E+12"),
        Decimal("1E-300"),
        Decimal(2**31),
        Timestamp(-1),
        "\ud800",
        {"k" * 256: 1},
    ],
)
def test_value_that_does_not_fit_is_our_own_mistake(value: FieldValue) -> None:
    if value == Typed("F", {}):
        assert encode_table({"v": value}) == encode_table({"v": {}})
        return
    with pytest.raises(LocalProtocolError):
        encode_table({"v": value})


def test_short_string_holds_255_octets() -> None:
    assert encode_short_string("a" * 255) == b"\xff" + b"a" * 255
    with pytest.raises(LocalProtocolError, match="255"):
        encode_short_string("æ" * 128)


PLAIN: dict[str, FieldValue] = {
    "yes": True,
    "small": 5,
    "large": 2**40,
    "real": 1.5,
    "text": "æøå",
    "list": [1, "two", [3.0]],
    "inner": {"nothing": None, "deep": {"er": False}},
}


def test_another_implementation_reads_what_we_write() -> None:
    size, table = pamqp.decode.field_table(encode_table(PLAIN))
    assert size == len(encode_table(PLAIN))
    assert table == PLAIN
    read = pamqp.decode.field_table(encode_table({"d": Decimal("2.50"), "x": b"\xff\x00"}))[1]
    assert read["d"] == Decimal("2.50")
    assert bytes(read["x"]) == b"\xff\x00"


def test_we_read_what_another_implementation_writes() -> None:
    assert decode_table(pamqp.encode.field_table(PLAIN)) == PLAIN  # type: ignore[arg-type]  # its alias is narrower
    octets = pamqp.encode.field_table({"x": bytearray(b"\xff"), "d": Decimal("3.25"), "n": 70000, "s": 300})
    assert decode_table(octets) == {"x": b"\xff", "d": Decimal("3.25"), "n": 70000, "s": 300}


CODES = st.sampled_from(b"tbBsUuIilLfdDSATFVxz")


@st.composite
def nearly_tables(draw: st.DrawFn) -> bytes:
    """Draw what is a table, or would be one but for an octet or a length."""

    def container(named: bool, depth: int) -> bytes:
        inside = b""
        for _ in range(draw(st.integers(0, 4))):
            code = draw(CODES)
            key = encode_short_string(draw(st.text("ab", max_size=2))) if named else b""
            if code in b"AF":
                value = container(code == ord("F"), depth + 1) if depth < 3 else struct.pack(">I", 0)
            elif code in b"Sx":
                text = draw(st.binary(max_size=3))
                value = struct.pack(">I", len(text)) + text
            else:
                value = draw(st.binary(min_size=VALUE_SIZES.get(code, 0), max_size=VALUE_SIZES.get(code, 0)))
            inside += key + bytes((code,)) + value
        return struct.pack(">I", max(0, len(inside) + draw(st.sampled_from([0] * 9 + [-1, 1])))) + inside

    return container(True, 0)


def verdict(read: Callable[[], int]) -> int | type[Exception]:
    try:
        return read()
    except RemoteProtocolError as error:
        return type(error)


@given(nearly_tables(), st.integers(0, 12))
def test_checking_a_table_finds_what_reading_it_does(octets: bytes, most: int) -> None:
    assert verdict(lambda: check_table(octets, 0)) == verdict(lambda: read_table(octets)[1])
    checked, read = verdict(lambda: check_table(octets, 0, most)), verdict(lambda: read_table(octets, most=most)[1])
    assert checked == read or TooManyFields in (checked, read)  # which of two faults comes first may differ


@pytest.mark.parametrize("value", [[None] * 5, {str(number): number for number in range(5)}, [[]] * 5, ["a"] * 5])
def test_values_of_a_table_are_counted_also_where_it_is_only_checked(value: FieldValue) -> None:
    octets = encode_table({"a": value})
    assert check_table(octets, 0, 6) == len(octets)
    with pytest.raises(TooManyFields):
        check_table(octets, 0, 5)
