"""Names, numbers and times as they stand on the page."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.analytics.page import words


@given(st.text(), st.integers(10, 200))
def test_shown_name_is_printable_and_not_too_long(name: str, length: int) -> None:
    shown = words.shown(name, length)
    assert shown.strip("\u2068\u2069").isprintable()
    assert 0 < len(shown) <= length + 2  # the two that keep it apart from what is around it


def test_name_of_another_direction_is_kept_apart_from_numbers_beside_it() -> None:
    assert words.shown("שלום") == "\u2068שלום\u2069"


def test_long_name_has_its_beginning_and_its_end() -> None:
    assert words.shown("begin" + "x" * 100 + "end", 20) == "beginxxxxxxxx…xxxend"


def test_plotted_name_has_no_markup() -> None:
    assert words.plotted("<b>&lt;") == "&lt;b&gt;&amp;lt;"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0"),
        (1e-9, "< 1 µs"),
        (2.5e-5, "25.0 µs"),
        (0.0123, "12.3 ms"),
        (1, "1.00 s"),
        (90, "1.50 min"),
        (7200, "2.00 h"),
        (10 * 86400, "10.0 d"),
        (-2, "-2.00 s"),
    ],
)
def test_duration_is_in_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(None, "–"), (5, "5 B"), (1536, "1.5 KiB"), (5 * 2**40, "5.0 TiB")])
def test_size_is_in_the_unit_that_fits(count: int | None, text: str) -> None:
    assert words.size(count) == text


def test_moment_is_in_utc() -> None:
    east = timezone(timedelta(hours=5))
    assert words.moment(datetime(2026, 1, 31, 3, 4, 5, tzinfo=east)) == "2026-01-30 22:04:05"
    assert words.moment(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31 00:00:00"


def test_count_comes_with_its_noun() -> None:
    assert (words.some(1, "node"), words.some(2000, "node")) == ("1 node", "2,000 nodes")
