"""Statuses, and values that others have chosen."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.http1 import field_value
from triomq.protocols.http1.codes import STATUS_LINES
from triomq.protocols.http1.outbox import encode_fields


def test_status_has_its_words() -> None:
    assert STATUS_LINES[507] == "HTTP/1.1 507 Insufficient Storage\r\n"


def test_value_of_anybody_is_one_line() -> None:
    assert field_value("text/plain\r\nX: y") == "text/plain  X: y"
    assert field_value(" Gr\xfc\xdfe, \u20ac \x85\x7f") == "Gr\xfc\xdfe, ?"


@given(st.text())
def test_value_of_anybody_can_be_written(text: str) -> None:
    assert encode_fields({"X": field_value(text)}).count("\r\n") == 1
