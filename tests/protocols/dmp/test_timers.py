"""Deadlines and null messages, on a clock that the tests turn."""

import pytest

from protocols.dmp.wire import client, message, sent, serving
from triomq.protocols.dmp import (
    NULL,
    PROTOCOL_HEADER,
    DMPEngine,
    EndOfStream,
    Event,
    Failed,
    MessageRun,
    Settings,
    Silent,
    Target,
)


def pass_time(engine: DMPEngine, until: float, *, start: float = 0.0, step: float = 0.5) -> list[Event]:
    """Turn the clock, and let the engine look whenever it wants to."""
    found: list[Event] = []
    now = start
    while now < until:
        now += step
        timer = engine.next_timer()
        if timer is not None and timer <= now:
            engine.handle_timer(now)
        found += engine.events()
    return found


def test_lease_that_never_comes_is_given_up() -> None:
    engine = DMPEngine("server", now=0.0)
    engine.receive_data(PROTOCOL_HEADER)
    sent(engine)
    assert pass_time(engine, 4.5) == []
    assert pass_time(engine, 5.0, start=4.5) == [Failed(402, "the lease was not there in time")]
    assert b"402 BAD-LEASE" in sent(engine)
    assert engine.next_timer() is None


def test_server_that_never_answers_is_given_up() -> None:
    engine = DMPEngine("client", now=0.0, lease="lease")
    assert len(pass_time(engine, 5.0)) == 1
    assert engine.outbox.finished


def test_quiet_feed_is_kept_alive_by_null_messages() -> None:
    engine = serving("feed")
    pass_time(engine, 21)
    assert sent(engine) in (NULL * 3, NULL * 4)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0])
def test_null_messages_keep_their_pace_however_seldom_the_driver_looks(step: float) -> None:
    engine = serving("feed", Settings(heartbeat=1.0))
    pass_time(engine, 20, step=step)
    assert 16 <= len(sent(engine)) // len(NULL) <= 20  # late by a fifth at most


def test_busy_feed_sends_no_null_messages() -> None:
    engine = serving("feed")
    for now in range(20):
        engine.send_whole([message()], len(message()))
        pass_time(engine, now + 1, start=now)
    assert sent(engine) == message() * 20


def test_without_a_heartbeat_there_is_none() -> None:
    engine = serving("feed", Settings(heartbeat=0))
    assert pass_time(engine, 60) == []
    assert sent(engine) == b""
    assert engine.next_timer() is None


def test_client_gives_up_a_feed_after_three_silent_intervals() -> None:
    engine = client("feed")
    assert pass_time(engine, 15) == []
    assert pass_time(engine, 18, start=15) == [Silent()]
    assert engine.outbox.finished


def test_null_messages_keep_a_client() -> None:
    engine = client("feed")
    for now in range(0, 100, 5):
        engine.receive_data(NULL)
        assert pass_time(engine, now + 5, start=now) == []


def test_sink_may_be_silent_for_ever() -> None:
    for engine in (serving("sink"), client("sink")):
        assert pass_time(engine, 1000) == []
        assert sent(engine) == b""


def test_message_that_comes_in_drops_must_be_whole_in_time() -> None:
    engine = serving()
    data, found = message(bytes(1000)), []
    for now, octet in enumerate(data[:200]):
        engine.receive_data(bytes((octet,)))
        found += pass_time(engine, now + 1, start=now)
    (failed,) = found
    assert isinstance(failed, Failed)
    assert failed.code == 503


def test_each_message_has_its_own_time() -> None:
    engine, found = serving(), []
    for now in range(0, 300, 30):
        engine.receive_data(message()[8:] + message()[:8] if now else message()[:8])
        found += pass_time(engine, now + 30, start=now)
    assert all(isinstance(event, MessageRun) for event in found)
    assert len(found) == 9


@pytest.mark.parametrize("target", ["sink", "feed"])
def test_message_that_the_end_cut_off_is_not_waited_for(target: Target) -> None:
    engine = serving() if target == "sink" else client("feed")
    engine.receive_data(message()[:8])
    engine.receive_data(b"")
    assert engine.events() == [EndOfStream(8)]
    assert engine.next_timer() is None
    assert not pass_time(engine, 200)
    assert not sent(engine)
