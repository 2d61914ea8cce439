"""Times of a conversation, told by the caller."""

from triomq.protocols.emqp.timers import Due, Timers


def handled(timers: Timers, now: float, *, heard: bool = False, said: bool = False) -> list[Due]:
    return timers.handle(now, silence=15.0, heard=heard, said=said)


def running() -> Timers:
    timers = Timers(100.0, 3.0, 1.0)
    timers.running = True
    assert timers.next() == 100.0  # a moment that may have passed: arm it
    assert handled(timers, 102.0) == []
    return timers


def test_nothing_is_due_before_something_begins() -> None:
    timers = Timers(0.0, 3.0, 1.0)
    assert timers.next() is None
    assert handled(timers, 1000.0) == []


def test_heartbeat_comes_every_interval_of_own_silence() -> None:
    timers = running()
    beats = [now / 2 for now in range(205, 240) if "heartbeat" in handled(timers, now / 2, heard=True)]
    assert beats == [105.0, 108.0, 111.0, 114.0, 117.0]


def test_what_is_said_puts_the_heartbeat_off_and_it_is_late_by_half_at_most() -> None:
    timers = running()
    assert handled(timers, 103.5, heard=True, said=True) == []
    assert handled(timers, 105.0, heard=True) == []
    assert handled(timers, 106.5, heard=True) == ["heartbeat"]
    # Said right after a tick, at 106.6: it is noticed at 108, and 4.4 s later is before the 5 s of released routers.
    assert handled(timers, 108.0, heard=True, said=True) == []
    assert handled(timers, 109.5, heard=True) == []
    assert handled(timers, 111.0, heard=True) == ["heartbeat"]


def test_silence_is_found_after_its_time_and_no_sooner() -> None:
    timers = running()
    moments = [102.0 + 1.5 * step for step in range(1, 11)]
    silent = [now for now in moments if "silent" in handled(timers, now, said=True)]
    assert silent == [117.0]


def test_whatever_is_heard_counts_as_life() -> None:
    timers = running()
    for step in range(1, 30):
        assert "silent" not in handled(timers, 102.0 + 14.0 * step, heard=True)


def test_seldom_calls_find_one_heartbeat_and_no_pile() -> None:
    timers = running()
    assert handled(timers, 112.0, heard=True) == ["heartbeat"]
    assert timers.next() == 113.5


def test_inform_is_repeated_until_it_is_stopped() -> None:
    timers = Timers(0.0, 3.0, 1.0)
    timers.informing = True
    assert timers.next() == 0.0
    assert handled(timers, 0.5) == []
    assert timers.next() == 1.5
    assert handled(timers, 1.0) == []
    assert handled(timers, 1.5) == ["inform"]
    assert handled(timers, 2.4) == []
    assert handled(timers, 2.5) == ["inform"]
    timers.informing = False
    assert timers.next() is None
    assert handled(timers, 9.0) == []
    timers.informing = True  # begins anew
    assert handled(timers, 10.0) == []
    assert timers.next() == 11.0
