"""Ages as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.declaring.ages import read_age, write_age


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("24h", 86400), ("1D", 86400), ("2M", 60 * 86400), ("1Y", 365 * 86400), ("007s", 7)],
)
def test_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert read_age(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "0s", "1w", "1H", "-1h", "1.5h", " 1h", "1h ", "1h30m", "9" * 19 + "s"])
def test_anything_else_is_none(text: str) -> None:
    assert read_age(text) is None


def test_age_is_written_in_the_largest_unit_of_whole_ones() -> None:
    written = [write_age(seconds) for seconds in (0.2, 30, 90, 3600, 86400 * 7, 86400 * 30, 86400 * 365, 10.5)]
    assert written == ["1s", "30s", "90s", "1h", "7D", "1M", "1Y", "11s"]


@given(st.integers(1, 10**12))
def test_age_that_is_written_is_read_as_the_same(seconds: int) -> None:
    assert read_age(write_age(seconds)) == seconds
