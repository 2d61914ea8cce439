"""The section ``trace`` of a configuration."""

import pytest

from triomq.errors import ConfigError
from triomq.tracelog import Trace


def test_first_pattern_that_fits_counts() -> None:
    trace = Trace(rate=0.01, queues={"orders.*": 1, "orders.eu": 0.5, "mail": 0})
    assert [trace.rate_of(name) for name in ("orders.eu", "mail", "other")] == [1, 0, 0.01]


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_rate_is_from_0_to_1(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate"):
        Trace(rate=rate)
    with pytest.raises(ConfigError, match=r"queues\.orders: found .*; a rate is from 0 to 1"):
        Trace(queues={"orders": rate})


def test_node_that_would_be_no_part_of_a_file_s_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"node: found 'a/b'; it may have letters"):
        Trace(node="a/b")
    assert Trace(node="a.b_1").node_name == "a.b_1"


def test_node_is_called_like_the_machine_by_default() -> None:
    assert Trace(node=Trace().node_name).node_name
