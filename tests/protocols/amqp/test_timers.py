"""Deadlines and heartbeats with plain numbers as time."""

from triomq.protocols.amqp.timers import Timers


def test_the_first_deadline_counts_from_the_beginning() -> None:
    timers = Timers(100.0, 5.0)
    assert timers.next() == 105.0
    assert timers.handle(104.9) == []
    assert timers.handle(105.0) == ["deadline"]
    assert timers.next() is None


def test_the_handshake_s_deadline_counts_from_the_beginning_too() -> None:
    timers = Timers(100.0, 5.0)
    timers.expect_since_start(10.0)
    assert timers.next() == 110.0


def test_deadline_without_a_clock_is_armed_by_the_next_call() -> None:
    timers = Timers(100.0, 5.0)
    timers.expect_nothing()
    timers.expect_within(3.0)
    assert timers.next() == 100.0
    assert timers.handle(200.0) == []
    assert timers.next() == 203.0
    assert timers.handle(203.0) == ["deadline"]


def ticking(interval: int) -> Timers:
    timers = Timers(0.0, 5.0)
    timers.expect_nothing()
    timers.beat(interval)
    timers.handle(0.0)
    return timers


def test_silence_of_ours_makes_a_heartbeat_each_half_an_interval() -> None:
    timers = ticking(4)
    timers.has_sent = True  # at 0.5, say
    due = [(now, what) for now in range(9) for what in timers.handle(now)]
    assert due == [(2, "heartbeat"), (4, "heartbeat"), (6, "heartbeat"), (8, "lost")]


def test_heartbeat_comes_within_three_quarters_of_an_interval_whenever_we_spoke_last() -> None:
    timers = ticking(4)
    assert timers.handle(1.0) == ["heartbeat"]
    timers.has_sent = True  # at 1.01, say
    assert timers.next() == 3.0
    assert timers.handle(3.0) == []
    assert timers.handle(4.0) == ["heartbeat"]


def test_traffic_of_ours_makes_heartbeats_needless() -> None:
    timers = ticking(4)
    for now in range(1, 7):
        timers.has_sent = timers.has_received = True
        assert timers.handle(now) == []


def test_two_intervals_of_silence_lose_the_peer() -> None:
    timers = ticking(4)
    for now in (1.0, 3.0, 5.0, 7.0):
        assert timers.next() == now
        assert timers.handle(now) == ["heartbeat"]
    assert timers.next() == 8.0
    assert timers.handle(8.0) == ["lost"]


def test_octet_within_two_intervals_keeps_the_peer() -> None:
    timers = ticking(1)
    for tick in range(1, 50):
        timers.has_received |= tick % 7 == 0
        assert "lost" not in timers.handle(tick / 4)


def test_peer_that_we_do_not_read_is_not_silent() -> None:
    timers = ticking(4)
    timers.paused = True
    for now in range(1, 30, 2):
        assert timers.handle(now) == ["heartbeat"]
    timers.paused = False
    assert "lost" not in timers.handle(31.0)


def test_call_that_comes_late_counts_as_one_look() -> None:
    timers = ticking(4)
    assert timers.handle(1000.0) == ["heartbeat"]
    assert timers.next() == 1002.0


def test_call_that_comes_early_does_nothing() -> None:
    timers = ticking(4)
    assert timers.handle(0.5) == []
    assert timers.next() == 1.0


def test_interval_of_zero_has_no_heartbeats() -> None:
    timers = ticking(0)
    assert timers.next() is None
    assert timers.handle(1e9) == []


def test_of_a_deadline_and_a_tick_the_nearer_one_is_next() -> None:
    timers = ticking(4)
    timers.expect_within(0.5)
    assert timers.next() == 0.0
    timers.handle(0.0)
    assert timers.next() == 0.5
    timers.expect_within(50)
    timers.handle(0.25)
    assert timers.next() == 1.0


def test_after_the_end_nothing_is_expected() -> None:
    timers = ticking(4)
    timers.stop()
    assert timers.next() is None
