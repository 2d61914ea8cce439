"""Percent escapes are read strictly, and written for all that has a meaning of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.escapes import escape, unescape


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_comes_back(text: str) -> None:
    written = escape(text)
    assert written.isascii()
    assert not set(written) & set(" ;,:=<>")
    assert unescape(written, "it") == text


def test_plus_is_a_plus() -> None:
    assert unescape("a+b%2B", "it") == "a+b+"


@pytest.mark.parametrize("text", ["%", "a%4", "%zz", "%4g%41"])
def test_spoilt_escape_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match=r"it: '%.*is no escape"):
        unescape(text, "it")


def test_escaped_octets_are_utf_8() -> None:
    with pytest.raises(PeerError, match="it: the escaped octets are not UTF-8"):
        unescape("%C3", "it")


def test_text_that_is_no_unicode_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written in UTF-8"):
        escape("\ud800")
