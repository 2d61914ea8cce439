"""Deadlines, on a clock that the tests turn."""

from protocols.tap.wire import GREETING, LOGIN, framed, messages, sent, serving
from triomq.protocols.tap import Failed, TapClientEngine, TapServerEngine
from triomq.protocols.tap.timers import Timers


def test_client_that_never_logs_in_is_given_up() -> None:
    engine = TapServerEngine(now=0.0)
    engine.receive_data(GREETING)
    sent(engine)
    assert engine.next_timer() == 10.0
    engine.handle_timer(9.9)
    assert engine.events() == []
    engine.handle_timer(10.0)
    assert engine.events() == [Failed("TOO_SLOW", "the handshake was not over in time: it is at 'login'")]
    assert messages(sent(engine)) == [[3, "TOO_SLOW", "the handshake was not over in time: it is at 'login'"]]
    assert engine.outbox.finished
    assert engine.next_timer() is None


def test_server_that_never_greets_is_given_up() -> None:
    engine = TapClientEngine(now=0.0)
    sent(engine)
    engine.handle_timer(10.0)
    assert isinstance(engine.events()[0], Failed)
    assert sent(engine) == b""


def test_open_connection_may_be_silent_for_ever() -> None:
    engine = serving()
    assert engine.next_timer() is None
    engine.handle_timer(1e9)
    assert engine.events() == []


def test_frame_that_comes_in_drops_must_be_whole_in_time() -> None:
    engine = serving()
    engine.receive_data(framed(16, 1)[:5])
    assert engine.next_timer() == 0.0  # at once
    engine.handle_timer(100.0)
    assert engine.next_timer() == 160.0
    engine.handle_timer(160.0)
    assert engine.events() == [Failed("TOO_SLOW", "a frame was begun and not finished in time")]


def test_each_frame_has_its_own_time() -> None:
    engine, ping = serving(), framed(16, 1)
    engine.receive_data(ping[:5])
    for now in range(0, 300, 50):
        engine.handle_timer(float(now))
        engine.receive_data(ping[5:] + ping[:5])
    assert not any(isinstance(event, Failed) for event in engine.events())


def test_driver_that_does_not_read_makes_no_peer_slow() -> None:
    engine = serving()
    engine.receive_data(framed(16, 1)[:5])
    engine.reading_paused = True
    engine.handle_timer(0.0)
    assert engine.next_timer() is None


def test_judging_takes_no_time_of_a_frame_behind_it() -> None:
    engine = TapServerEngine(now=0.0)
    engine.receive_data(GREETING + LOGIN + framed(16, 1)[:5])
    engine.handle_timer(0.0)
    assert engine.next_timer() == 10.0
    engine.welcome()
    engine.handle_timer(5.0)
    assert engine.next_timer() == 65.0


def test_timers_that_have_nothing_to_wait_for_want_no_call() -> None:
    timers = Timers(0.0, 10.0, 60.0)
    timers.end_handshake()
    assert timers.next(0) is None
    assert timers.handle(1e9, 0) is None
