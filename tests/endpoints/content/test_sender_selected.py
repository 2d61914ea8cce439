"""Reading CC and BCC out of encoded properties."""

import pytest

from triomq.endpoints.content import Copies, InvalidProperties, copies_of
from triomq.endpoints.content.sender_selected import MOST_KEYS
from triomq.protocols import BasicProperties, Table, Typed, decode_properties, encode_properties


def encoded(headers: Table | None = None, **others: str) -> bytes:
    return encode_properties(BasicProperties(headers=headers, **others))  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [None, {}, {"a": "CC"}, {"XCC": "a"}, {"CCX": "a"}, {"nested": {"CC": "a"}}])
def test_without_the_headers_there_are_no_copies(headers: Table | None) -> None:
    assert copies_of(encoded(headers, app_id="CC")) == Copies(())


def test_the_keys_come_in_their_order_cc_first() -> None:
    copies = copies_of(encoded({"BCC": ["c"], "CC": ["a", "b"]}))
    assert copies.keys == ("a", "b", "c")


def test_taking_bcc_off_changes_nothing_else() -> None:
    others: Table = {"CC": ["a"], "byte": Typed("B", 7), "octets": b"\xff", "text": Typed("S", b"\xff")}
    copies = copies_of(encoded({"BCC": ["b"], **others}, app_id="app"))
    assert copies.properties == encoded(others, app_id="app")


def test_headers_without_bcc_stay_even_if_there_are_none_left() -> None:
    copies = copies_of(encoded({"BCC": []}))
    assert copies.keys == ()
    assert copies.properties is not None
    assert decode_properties(copies.properties).headers == {}


def test_key_that_is_no_utf8_is_read_as_a_routing_key_is() -> None:
    assert copies_of(encoded({"CC": [Typed("S", b"\xff"), b"\xff"]})).keys == ("\udcff",)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Typed("b", 1), "byte"),
        (Typed("B", 1), "unsignedbyte"),
        (Typed("s", 1), "short"),
        (Typed("L", 1), "long"),
        (1 << 31, "long"),
        (1, "signedint"),
        (1.5, "double"),
        (Typed("f", 1.5), "float"),
        ("a", "longstr"),
        (b"a", "binary"),
    ],
)
def test_value_that_is_no_array_is_refused_by_its_type(value: object, name: str) -> None:
    with pytest.raises(InvalidProperties) as caught:
        copies_of(encoded({"CC": value}))  # type: ignore[dict-item]
    assert str(caught.value) == f'invalid message: {{unacceptable_type_in_header,"CC",{name}}}'


def test_more_keys_than_are_allowed_are_refused() -> None:
    assert len(copies_of(encoded({"CC": ["a"] * (MOST_KEYS - 1), "BCC": ["b"]})).keys) == MOST_KEYS
    with pytest.raises(InvalidProperties, match="CC and BCC name 1001 routing keys; 1000 are allowed"):
        copies_of(encoded({"CC": ["a"] * MOST_KEYS, "BCC": ["b"]}))
