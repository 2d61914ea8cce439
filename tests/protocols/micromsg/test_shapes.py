"""Shapes: found by their octets, remembered within bounds, and with what extensions say."""

import pytest

from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.shapes import LONGEST_REMEMBERED, REMEMBERED, ShapeTable


def front(properties: bytes, destination: bytes = b"queue") -> bytes:
    return bytes((len(destination),)) + destination + len(properties).to_bytes(2, "big") + properties


def test_same_octets_are_the_same_shape() -> None:
    table = ShapeTable({}, is_typed=True)
    found = table.find(front(b"a:N1;"), is_large=False)
    assert table.find(front(b"a:N1;"), is_large=False) is found
    assert (found.skip, found.replaced) == (9, b"")
    assert (found.shape.properties_stop, found.shape.body_start) == (7, 8)
    large = table.find(front(b"a:N1;"), is_large=True)
    assert (large.shape.properties_stop, large.shape.body_start) == (7, 11)


def test_remembered_shapes_are_bounded() -> None:
    table = ShapeTable({}, is_typed=True)
    first = table.find(front(b"a:N0;"), is_large=False)
    for number in range(1, REMEMBERED - 1):
        table.find(front(b"a:N%d;" % number), is_large=False)
    assert table.find(front(b"a:N0;"), is_large=False) is first
    table.find(front(b"b:N0;"), is_large=False)
    assert table.find(front(b"a:N0;"), is_large=False) is not first


def test_long_fronts_are_not_remembered() -> None:
    table = ShapeTable({}, is_typed=True)
    long = front(b"a:T" + b"x" * LONGEST_REMEMBERED)
    assert table.find(long, is_large=False) is not table.find(long, is_large=False)


@pytest.mark.parametrize(
    ("properties", "octets"),
    [
        (b"", b"content-type:Tapplication%2Fjson;"),
        (b"a:N1;", b"a:N1;content-type:Tapplication%2Fjson;"),
        (b"a:N1", b"a:N1;content-type:Tapplication%2Fjson;"),
        (b"content-type:Ttext;", b"content-type:Ttext;"),
        (b"Content-Type:Ttext;", b"Content-Type:Ttext;"),
    ],
)
def test_what_an_extension_says_is_a_property_unless_the_sender_says_it(properties: bytes, octets: bytes) -> None:
    table = ShapeTable({"content-type": "application/json"}, is_typed=True)
    found = table.find(front(properties), is_large=False)
    assert found.shape.properties == octets
    assert found.shape.properties_stop == 2 + len(octets)
    assert found.replaced == (b"" if octets == properties else len(octets).to_bytes(2, "big") + octets)


def test_types_are_remembered_apart_and_an_empty_one_is_none() -> None:
    table = ShapeTable({}, is_typed=True)
    plain = table.find(front(b""), is_large=False)
    table.set_type("A")
    typed = table.find(front(b""), is_large=False)
    assert typed.shape.values == {"type": "A"}
    table.set_type("B")
    assert table.find(front(b""), is_large=False).shape.values == {"type": "B"}
    table.set_type("A")
    assert table.find(front(b""), is_large=False) is typed
    table.set_type("")
    assert table.find(front(b""), is_large=False) is plain


def test_types_are_bounded() -> None:
    table = ShapeTable({}, is_typed=True)
    plain = table.find(front(b""), is_large=False)
    for number in range(REMEMBERED + 1):
        table.set_type(f"T{number}")
        assert table.find(front(b""), is_large=False).shape.values == {"type": f"T{number}"}
    table.set_type("")
    assert table.find(front(b""), is_large=False) is not plain


def test_properties_with_those_of_extensions_must_fit() -> None:
    table = ShapeTable({"content-type": "application/json"}, is_typed=True)
    with pytest.raises(PeerError, match="65535 fit"):
        table.find(front(b"a:T" + b"x" * 65520), is_large=False)
