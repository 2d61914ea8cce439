"""Layouts of properties: what is free may be anything, and what they say of names and of the mode is so."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import BasicProperties, Typed, decode_properties, encode_properties
from triomq.protocols.layouts import LONGEST, MOST_PARTS, Layout, layout_of
from triomq.protocols.properties import check_properties

from .test_properties import some


def shown(properties: BasicProperties) -> str:
    """Show which octets are free, each as a dot, and the fixed ones as they are."""
    encoded = encode_properties(properties)
    layout = layout_of(encoded)
    assert layout is not None
    text, position = "", 0
    for place, length in enumerate(layout.parts):
        part = encoded[position : position + length]
        text += "." * length if place % 2 else part.decode("latin-1")
        position += length
    return text[2:]


@given(properties=some, noise=st.binary(min_size=64, max_size=64))
def test_free_octets_may_be_anything(properties: BasicProperties, noise: bytes) -> None:
    encoded = bytearray(encode_properties(properties))
    layout = layout_of(bytes(encoded))
    if layout is None:
        return
    assert sum(layout.parts) == len(encoded)
    assert len(layout.parts) % 2 == 1
    position = 0
    for place, length in enumerate(layout.parts):
        if place % 2:
            encoded[position : position + length] = (noise * (length // 64 + 1))[:length]
        position += length
    changed = bytes(encoded)
    check_properties(changed, 0, len(changed))
    assert layout_of(changed) == layout
    decoded = decode_properties(changed)
    assert layout.delivery_mode == (properties.delivery_mode or 0) == (decoded.delivery_mode or 0)
    assert layout.names == {name.encode("utf-8", "surrogateescape") for name in decoded.headers or {}}
    assert (decoded.headers or {}).keys() == (properties.headers or {}).keys()


def test_lengths_names_and_types_are_fixed() -> None:
    assert shown(BasicProperties(content_type="a/b", message_id="xyz")) == "\x03...\x03..."
    assert shown(BasicProperties(headers={"n": 7, "s": "ab"})) == "\0\0\0\x10\x01nI....\x01sS\0\0\0\x02.."
    assert shown(BasicProperties(timestamp=1, priority=5)) == "........."


def test_delivery_mode_is_fixed_wherever_it_stands() -> None:
    assert shown(BasicProperties(delivery_mode=2)) == "\x02"
    assert shown(BasicProperties(content_type="a", delivery_mode=1, priority=1)) == "\x01.\x01."
    assert shown(BasicProperties(headers={}, delivery_mode=2, message_id="")) == "\0\0\0\0\x02\0"


def test_what_nests_is_free_in_its_values_alone() -> None:
    shape = "\0\0\0\x15\x01aA\0\0\0\x0et.F\0\0\0\x07\x01bI...."
    assert shown(BasicProperties(headers={"a": [True, {"b": 1}]})) == shape


def test_names_are_those_of_the_outer_table() -> None:
    layout = layout_of(encode_properties(BasicProperties(headers={"CC": ["a"], "x": {"BCC": 1}})))
    assert layout is not None
    assert layout.names == {b"CC", b"x"}


def test_every_type_of_field_has_its_length() -> None:
    values = {code: Typed(code, 1) for code in "bBsUuIilL"} | {"f": Typed("f", 1.0), "x": Typed("x", b"12"), "V": None}
    assert isinstance(layout_of(encode_properties(BasicProperties(headers=dict(values)))), Layout)


def test_long_properties_and_those_of_many_parts_have_no_layout() -> None:
    assert layout_of(encode_properties(BasicProperties(headers={"a": "x" * LONGEST}))) is None
    assert layout_of(encode_properties(BasicProperties(headers={str(one): 1 for one in range(MOST_PARTS)}))) is None
