"""Timers: never early, a little late, each once, and nothing left behind."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.base.wheel import SLOT, Wheel


class Clock:
    """Turns a wheel when it wants to be, and writes down what is called."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.wheel = Wheel(lambda: self.now, self.come_nearer)
        self.called: list[tuple[object, float]] = []
        self.nearer = 0

    def come_nearer(self) -> None:
        self.nearer += 1

    def set(self, key: object, when: float) -> None:
        self.wheel.set(key, when, lambda now: self.called.append((key, now)))

    def run(self, until: float) -> None:
        while self.wheel.next <= until:
            self.now = max(self.now, self.wheel.next)
            while self.wheel.turn(3):
                pass
        self.now = until


@given(st.lists(st.floats(0, 1000), max_size=50), st.floats(0, 1e6))
def test_each_timer_is_called_once_never_early_and_a_little_late(times: list[float], start: float) -> None:
    clock = Clock(start)
    for key, seconds in enumerate(times):
        clock.set(key, start + seconds)
    clock.run(start + 2000)
    assert sorted(key for key, _ in clock.called) == list(range(len(times)))
    for key, now in clock.called:
        assert -1e-6 <= now - (start + times[key]) <= SLOT + min(times[key] / 32, 16 * SLOT) + 1e-6
    assert clock.wheel.next == inf
    assert len(clock.wheel) == 0


def test_timer_that_is_set_again_is_called_at_its_new_time_alone() -> None:
    clock = Clock()
    clock.set("a", 1.0)
    clock.set("a", 2.0)
    clock.set("b", 3.0)
    clock.set("b", 2.5)
    clock.set("c", 1.5)
    clock.set("c", inf)
    clock.run(10.0)
    assert clock.called == [("a", 2.0), ("b", 2.5)]


def test_timer_that_is_removed_is_not_called_though_it_is_due_in_this_very_turn() -> None:
    clock = Clock()
    clock.wheel.set("a", 1.0, lambda now: clock.wheel.discard("b"))
    clock.wheel.set("b", 1.0, lambda now: clock.wheel.discard("a"))
    clock.wheel.discard("unknown")
    clock.run(1.0)
    assert len(clock.wheel) == 0


def test_timer_that_sets_itself_for_now_lets_time_go_on() -> None:
    clock = Clock()

    def again(now: float) -> None:
        clock.called.append(("a", now))
        clock.wheel.set("a", now, again)

    clock.wheel.set("a", 1.0, again)
    clock.run(2.0)
    assert len(clock.called) == round(1.0 / SLOT) + 1


def test_late_turn_calls_all_that_is_due() -> None:
    clock = Clock()
    for key in range(5):
        clock.set(key, key)
    clock.now = 3.5
    assert clock.wheel.turn(3)
    assert not clock.wheel.turn(3)
    assert [key for key, _ in clock.called] == [0, 1, 2, 3]


def test_callback_comes_when_the_next_timer_comes_nearer() -> None:
    clock = Clock()
    clock.set("a", 5.0)
    clock.set("b", 7.0)
    assert clock.nearer == 1
    clock.set("c", 3.0)
    assert clock.nearer == 2


def test_timers_that_are_far_off_are_due_together() -> None:
    clock = Clock()
    for number in range(1000):
        clock.set(number, 30 + number / 1000)
    clock.run(40.0)
    assert len({now for _, now in clock.called}) <= 3


def test_timers_that_come_and_go_leave_no_more_behind_than_slots() -> None:
    clock = Clock()
    for _ in range(1000):
        clock.set(object(), 1e6)
        clock.wheel.discard(next(iter(clock.wheel._where)))
    assert (len(clock.wheel), len(clock.wheel._order), len(clock.wheel._slots)) == (0, 1, 1)
