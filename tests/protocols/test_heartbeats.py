"""Heartbeats and silence, as moments."""

import pytest

from triomq.protocols.heartbeats import DueBeat, Heartbeats


def beat(timers: Heartbeats, now: float, *, heard: bool = False, said: bool = False) -> DueBeat | None:
    return timers.beat(now, silence=12.0, heard=heard, said=said)


def running() -> Heartbeats:
    timers = Heartbeats(100.0, 4.0)
    timers.running = True
    assert timers.next() == 100.0  # it began, and the time is wanted
    assert beat(timers, 100.0) is None
    return timers


def test_nothing_is_due_before_it_begins() -> None:
    timers = Heartbeats(100.0, 4.0)
    assert timers.next() is None
    assert beat(timers, 1000.0) is None


def test_heartbeat_is_due_after_own_silence_and_again() -> None:
    timers = running()
    assert beat(timers, 102.0, heard=True) is None
    assert beat(timers, 104.0, heard=True) == "heartbeat"
    assert beat(timers, 106.0, heard=True) is None
    assert beat(timers, 108.0, heard=True) == "heartbeat"


def test_heartbeat_is_late_by_half_an_interval_at_most() -> None:
    timers = running()
    beat(timers, 101.9, heard=True, said=True)  # before the tick
    assert [beat(timers, now, heard=True) for now in (102.0, 104.0, 106.0)] == [None, None, "heartbeat"]


def test_who_speaks_needs_no_heartbeat() -> None:
    timers = running()
    for now in range(102, 200, 2):
        assert beat(timers, float(now), heard=True, said=True) is None


def test_silence_counts_from_what_was_heard_last() -> None:
    timers = running()
    dues = [beat(timers, float(now), heard=now == 106, said=True) for now in range(102, 120, 2)]
    assert dues == [None] * 8 + ["silent"]


def test_call_that_is_early_does_no_harm() -> None:
    timers = running()
    assert timers.next() == 102.0
    assert beat(timers, 101.0) is None
    assert timers.next() == 102.0


@pytest.mark.parametrize("again", [False, True])
def test_timers_that_are_stopped_begin_anew(again: bool) -> None:
    timers = running()
    timers.running = False
    assert beat(timers, 500.0) is None
    assert timers.next() is None
    if again:
        timers.running = True
        assert beat(timers, 1000.0) is None
        assert beat(timers, 1002.0) is None
