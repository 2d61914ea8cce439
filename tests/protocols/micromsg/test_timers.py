"""Deadlines, acks and heartbeats, on a clock that the tests turn."""

import pytest

from protocols.micromsg.wire import ack, client, extension, handshake, message, named, sent, serving
from triomq.protocols.micromsg import Failed, MicroMsgServer, Settings, Silent
from triomq.protocols.micromsg.timers import Timers


@pytest.mark.parametrize("data", [b"", b"\1\0", handshake(), handshake() + handshake()[:5]])
def test_handshake_that_is_not_over_in_time_is_the_end_without_a_word(data: bytes) -> None:
    engine = MicroMsgServer(now=100.0)
    if data:
        engine.receive_data(data)
        sent(engine)
    assert engine.next_timer() == 110.0
    engine.handle_timer(109.9)
    assert engine.events() == []
    engine.handle_timer(110.0)
    (event,) = engine.events()
    assert isinstance(event, Failed)
    assert event.code == 408
    assert (sent(engine), engine.next_timer(), engine.outbox.finished) == (b"", None, True)


def test_log_in_belongs_to_the_handshake() -> None:
    settings = Settings(required=named("x-sasl"), optional=())
    engine = MicroMsgServer(now=0.0, settings=settings)
    engine.receive_data(handshake(b"x-sasl") + handshake(b"x-sasl"))
    engine.events()
    engine.handle_timer(10.0)
    assert isinstance(engine.events()[0], Failed)


def test_open_connection_may_be_silent_for_ever_without_heartbeats() -> None:
    engine = serving(b"batch-ack")
    assert engine.next_timer() is None
    engine.handle_timer(1e6)
    assert engine.state == "open"


def test_frame_that_comes_in_drops_must_be_whole_in_time() -> None:
    engine = serving(b"batch-ack")
    data = message(1, bytes(100))
    engine.receive_data(data[:1])
    assert engine.next_timer() == 0.0
    engine.handle_timer(1.0)
    for place in range(1, 20):
        engine.receive_data(data[place : place + 1])
        engine.handle_timer(1.0 + place)
    assert engine.next_timer() == 31.0
    engine.handle_timer(31.0)
    (event,) = engine.events()
    assert isinstance(event, Failed)
    assert event.text == "a frame is not whole, and its time is over"
    assert sent(engine) == b""


def test_each_frame_has_its_own_time() -> None:
    engine = serving(b"batch-ack")
    data = message(1)
    for number in range(1, 5):
        engine.receive_data(data[:5] if number == 1 else data[5:] + message(number)[:5])
        engine.handle_timer(number * 20.0)
        data = message(number)
    assert len(engine.events()) == 3
    assert engine.next_timer() == 110.0


def test_message_in_several_frames_has_time_for_each() -> None:
    engine = serving(b"batch-ack")
    for number in range(5):
        engine.receive_data(message(1, continued=True))
        engine.handle_timer(number * 20.0)
    assert engine.state == "open"
    engine.handle_timer(110.0)
    assert isinstance(engine.events()[0], Failed)


def test_frame_is_not_late_while_nobody_reads() -> None:
    engine = serving(b"batch-ack")
    engine.receive_data(message(1)[:5])
    engine.handle_timer(0.0)
    engine.reading_paused = True
    engine.handle_timer(100.0)
    engine.reading_paused = False
    engine.handle_timer(101.0)
    assert engine.next_timer() == 131.0


def test_ack_waits_for_more_to_acknowledge_but_not_long() -> None:
    engine = serving(b"batch-ack:max-count=100")
    engine.receive_data(message(1) + message(2))
    engine.accept(1)
    assert engine.next_timer() == 0.0
    engine.handle_timer(5.0)
    assert engine.next_timer() == 5.05
    engine.accept(2)
    engine.handle_timer(5.04)
    assert sent(engine) == b""
    engine.handle_timer(5.05)
    assert sent(engine) == ack(1, 2)
    engine.handle_timer(6.0)
    assert engine.next_timer() is None
    assert sent(engine) == b""


def test_heartbeat_goes_where_nothing_else_does() -> None:
    engine = serving(b"x-heartbeat:interval=1000;batch-ack")
    engine.handle_timer(0.0)
    assert sent(engine) == b""
    engine.handle_timer(0.5)
    engine.receive_data(message(1))
    engine.handle_timer(1.0)
    assert sent(engine) == extension(1, b"")
    engine.send_messages("queue", b"", [b"x"])
    engine.handle_timer(1.5)
    sent(engine)
    engine.handle_timer(2.0)
    assert sent(engine) == b""


def test_peer_that_is_silent_for_three_intervals_is_gone() -> None:
    engine = client(b"x-heartbeat:interval=10000;batch-ack")
    now = 0.0
    while engine.state == "open" and now < 100:
        engine.handle_timer(now)
        now = engine.next_timer() or now
        if now == 20.0:
            engine.receive_data(extension(2, b""))
    assert engine.events() == [Silent()]
    assert 50.0 <= now <= 55.0
    assert engine.outbox.finished


def test_peer_is_not_silent_while_nobody_reads() -> None:
    engine = client(b"x-heartbeat:interval=10000")
    engine.reading_paused = True
    for now in range(0, 200, 5):
        engine.handle_timer(float(now))
    assert engine.state == "open"


def test_timers_are_armed_by_what_they_are_told() -> None:
    timers = Timers(0.0, 10.0, 30.0, 0.05)
    assert timers.next(0, 0) == 10.0
    timers.end_handshake()
    assert timers.next(0, 0) is None
    assert timers.next(7, 0) == 0.0
    assert timers.handle(1.0, 7, 0, heard=False, said=False) == []
    assert timers.next(7, 0) == 31.0
    assert timers.handle(31.0, 7, 3, heard=False, said=False) == ["frame"]
    assert timers.handle(31.05, 0, 3, heard=False, said=False) == ["ack"]
    assert timers.next(0, 3) == 31.05
