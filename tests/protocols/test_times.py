"""Times in seconds, as programs give them, in the whole units of a wire."""

from math import inf, nan

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols import in_units


def test_time_is_rounded_down() -> None:
    assert in_units("wait", 1.2345, 1000, 10_000) == 1234
    assert in_units("wait", 10, 1000, 10_000) == 10_000


@pytest.mark.parametrize("seconds", [inf, -inf, nan, -0.001, 10.001, 1e300, 10**400])
def test_what_is_no_time_is_the_callers_error(seconds: float) -> None:
    with pytest.raises(LocalProtocolError, match=r"wait is .* it takes a number from 0 to 10"):
        in_units("wait", seconds, 1000, 10_000)
