from math import inf

from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Clock


def test_due_items_are_returned_once_earliest_first() -> None:
    clock: Clock[str] = Clock(lambda: 0.0)
    clock.set("late", 3.0)
    clock.set("early", 1.0)
    clock.set("middle", 2.0)
    assert clock.next_deadline == 1.0
    assert clock.take_due(2.0) == ["early", "middle"]
    assert clock.take_due(2.0) == []
    assert (clock.next_deadline, len(clock)) == (3.0, 1)


def test_earlier_of_two_deadlines_counts() -> None:
    clock: Clock[str] = Clock(lambda: 0.0)
    clock.set("who", 2.0)
    clock.set("who", 5.0)
    clock.set("who", 1.0)
    assert clock.take_due(1.0) == ["who"]
    assert clock.take_due(9.0) == []


def test_deadline_can_be_taken_back() -> None:
    clock: Clock[str] = Clock(lambda: 0.0)
    clock.set("who", 1.0)
    clock.forget("who")
    clock.forget("nobody")
    assert (clock.next_deadline, clock.take_due(9.0)) == (inf, [])


def test_clock_reports_only_earlier_deadlines() -> None:
    clock: Clock[str] = Clock(lambda: 0.0)
    heard: list[float] = []
    clock.on_earlier = lambda: heard.append(clock.next_deadline)
    for whom, deadline in [("a", 5.0), ("b", 6.0), ("c", 4.0), ("a", 3.0)]:
        clock.set(whom, deadline)
    assert heard == [5.0, 4.0, 3.0]


def test_deadlines_that_were_taken_back_do_not_pile_up() -> None:
    clock: Clock[int] = Clock(lambda: 0.0)
    for number in range(10_000):
        clock.set(number, 1000.0 + number)
        clock.forget(number)
    assert len(clock._heap) < 100


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=60), st.integers(0, 20))
def test_clock_tells_whom_a_plain_table_would_tell(settings: list[tuple[int, int]], now: int) -> None:
    clock: Clock[int] = Clock(lambda: 0.0)
    table: dict[int, float] = {}
    for whom, deadline in settings:
        clock.set(whom, deadline)
        table[whom] = min(deadline, table.get(whom, inf))
    assert clock.next_deadline == min(table.values(), default=inf)
    due = clock.take_due(now)
    assert sorted(due) == sorted(whom for whom, deadline in table.items() if deadline <= now)
    assert [table[whom] for whom in due] == sorted(table[whom] for whom in due)
