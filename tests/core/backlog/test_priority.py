from math import inf

from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head
from triomq.core.backlog import PriorityBacklog


def test_each_level_has_a_front_that_may_have_expired() -> None:
    backlog = PriorityBacklog(5)
    backlog.push(Head(), [b"high"], 4, 5.0, 5)
    backlog.push(Head(), [b"low"], 3, 2.0, 1)
    assert backlog.next_deadline() == 2.0
    assert (backlog.expired_level(1.0), backlog.expired_level(3.0), backlog.next_level) == (None, 1, 5)


@given(st.integers(0, 255), st.integers(1, 255))
def test_priority_above_the_highest_level_counts_as_that_level(priority: int, highest: int) -> None:
    backlog = PriorityBacklog(highest)
    backlog.push(Head(), [b"x"], 1, inf, priority)
    assert backlog.next_level == min(priority, highest)
