"""Dates of HTTP, against RFC 9110's examples and the standard library's reading of them."""

from email.utils import formatdate, parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols import http_date, parse_http_date


@pytest.mark.parametrize(
    "text",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
    ids=["fixdate", "RFC 850", "asctime"],
)
def test_date_is_read_in_each_of_three_forms(text: str) -> None:
    assert parse_http_date(text) == 784111777


@given(st.integers(0, 4_000_000_000) | st.floats(0, 4e9))
def test_date_is_written_as_the_standard_library_writes_it(seconds: float) -> None:
    assert http_date(seconds) == formatdate(int(seconds), usegmt=True)


@given(st.integers(-62135596800, 253402300799))
def test_date_that_is_written_is_read_as_the_same_second(seconds: int) -> None:
    assert parse_http_date(http_date(seconds)) == seconds


@given(st.integers(0, 4_000_000_000))
def test_date_means_what_the_standard_library_reads_in_it(seconds: int) -> None:
    assert parsedate_to_datetime(http_date(seconds)).timestamp() == seconds


def test_two_digits_of_a_year_are_of_1970_to_2069() -> None:
    assert parse_http_date("Thursday, 01-Jan-70 00:00:00 GMT") == 0
    assert parse_http_date("Tuesday, 01-Jan-69 00:00:00 GMT") == parse_http_date("Tue, 01 Jan 2069 00:00:00 GMT")


def test_leap_second_is_the_second_behind_the_minute() -> None:
    assert parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT")


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "1994-11-06T08:49:37Z", "784111777", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 nov 1994 08:49:37 GMT", "Sun, ٠٦ Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
    ],
)  # fmt: skip
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_http_date(text) is None


@given(st.text(max_size=40))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_http_date(text)


def test_time_beyond_the_year_9999_has_no_date() -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        http_date(1 << 64)
