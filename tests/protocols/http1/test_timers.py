"""Deadlines: what is waited for is looked at now and then."""

from triomq.protocols.http1 import Settings
from triomq.protocols.http1.timers import LOOK, Timers

SETTINGS = Settings(head_timeout=10, idle_timeout=60, body_rate=100)


def test_deadline_counts_from_when_it_was_first_seen() -> None:
    timers = Timers(0.0, SETTINGS)
    assert not timers.look(5.0, "first", 0, 0)
    assert timers.next == 5.0 + LOOK
    assert timers.look(10.0, "first", 0, 0)


def test_another_request_has_a_time_of_its_own() -> None:
    timers = Timers(0.0, SETTINGS)
    for now, count in ((9.0, 1), (18.0, 2), (27.0, 3)):
        assert not timers.look(now, "head", count, 0)
    assert timers.look(37.0, "head", 3, 0)


def test_body_needs_its_rate_from_one_look_to_the_next() -> None:
    timers = Timers(0.0, SETTINGS)
    assert not timers.look(5.0, "body", 1, 10)
    assert not timers.look(10.0, "body", 1, 510)
    assert timers.look(15.0, "body", 1, 1_009)


def test_nobody_is_late_who_is_to_bring_nothing() -> None:
    timers = Timers(0.0, SETTINGS)
    assert not timers.look(5.0, "", 1, 0)
    assert not timers.look(5_000.0, "", 1, 0)


def test_time_that_is_forgiven_begins_anew() -> None:
    timers = Timers(0.0, SETTINGS)
    timers.look(5.0, "body", 1, 10)
    timers.forgive(100.0)
    assert not timers.look(105.0, "body", 1, 10)
    assert timers.look(110.0, "body", 1, 10)
