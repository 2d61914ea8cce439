"""The client's side: what it sends first, logs in with, asks and hears."""

import pytest

from protocols.micromsg.wire import client, error, extension, handshake, message, named, pair, sent, talk
from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    CommandAnswered,
    ErrorReceived,
    Failed,
    HandshakeCompleted,
    MicroMsgClient,
    MicroMsgServer,
    SASLAccepted,
    SASLChallenged,
    SASLStarted,
    Settings,
    SubscribeAsked,
)

WITH_SASL = Settings(optional=(*DEFAULT_OPTIONAL, *named("x-sasl")))


def test_client_begins_with_what_it_knows() -> None:
    engine = MicroMsgClient(now=0.0, settings=Settings(identity="me", required=named("json"), window=5))
    expected = b"batch-ack:max-count=5;ack;pub-sub;x-heartbeat:interval=10000;x-reply"
    assert sent(engine) == handshake(b"json", expected, identity=b"me")


def test_client_logs_in() -> None:
    one = MicroMsgClient(now=0.0, settings=WITH_SASL)
    other = MicroMsgServer(now=0.0, settings=Settings(required=named("x-sasl"), mechanisms=("SCRAM-SHA-256", "PLAIN")))
    heard, _ = talk(one, other)
    (completed,) = heard
    assert isinstance(completed, HandshakeCompleted)
    (sasl,) = (each for each in completed.extensions if each.name == "x-sasl")
    assert sasl.properties["mechanisms"] == "SCRAM-SHA-256 PLAIN"
    assert one.state == other.state == "login"
    one.start_login("PLAIN", b"\0guest\0guest")
    assert talk(one, other)[1] == [SASLStarted("PLAIN", b"\0guest\0guest")]
    other.challenge(b"more")
    assert talk(one, other)[0] == [SASLChallenged(b"more")]
    one.respond(b"this")
    talk(one, other)
    other.welcome(b"last")
    assert talk(one, other)[0] == [SASLAccepted(b"last")]
    one.send_messages("queue", b"", [b"x"])
    assert len(talk(one, other)[1]) == 1


def test_client_sends_nothing_before_it_is_in() -> None:
    engine = client(b"x-sasl;pub-sub", WITH_SASL)
    for call in (
        lambda: engine.send_messages("queue", b"", [b"x"]),
        lambda: engine.subscribe("topic/a"),
        lambda: engine.respond(b""),
    ):
        with pytest.raises(LocalProtocolError, match="has no place in state 'login'"):
            call()


@pytest.mark.parametrize("data", [extension(1, b"\1PLAIN\0"), extension(1, b""), message(1)])
def test_server_that_breaks_the_log_in_is_left(data: bytes) -> None:
    engine = client(b"x-sasl", WITH_SASL)
    engine.start_login("PLAIN")
    engine.receive_data(data)
    (event,) = engine.events()
    assert isinstance(event, Failed)


def test_server_has_no_commands() -> None:
    engine = client(b"pub-sub")
    engine.receive_data(b"\1\3abc")
    (event,) = engine.events()
    assert isinstance(event, Failed)
    assert "COMMAND has no place" in event.text


def test_commands_need_pub_sub() -> None:
    engine = client(b"batch-ack")
    with pytest.raises(LocalProtocolError, match="has no pub-sub"):
        engine.subscribe("topic/a")


def test_commands_are_numbered_and_end_at_65535() -> None:
    engine = client(b"pub-sub;x-reply")
    numbers = [engine.unsubscribe("a") for _ in range(65537)]
    assert numbers[:2] == [1, 2]
    assert numbers[-3:] == [65535, 1, 2]


def test_long_command_is_large() -> None:
    one, other = pair()
    one.subscribe("t" * 300)
    assert talk(one, other)[1] == [SubscribeAsked(1, "t" * 300)]


def test_answer_is_heard() -> None:
    engine = client(b"pub-sub;x-reply")
    engine.receive_data(extension(2, b"\0\x01404 none"))
    assert engine.events() == [CommandAnswered(1, 404, "none")]
    engine.receive_data(extension(2, b"nonsense"))
    assert isinstance(engine.events()[0], Failed)


def test_error_in_the_place_of_a_reply_is_heard() -> None:
    for data in (error(b"501 no json here"), b"\x0c\0\0\0\x1050" + b"1 no json here"):
        engine = MicroMsgClient(now=0.0)
        for octet in data:
            engine.receive_data(bytes((octet,)))
        assert engine.events() == [ErrorReceived(501, "no json here")]
        assert engine.outbox.finished


def test_commands_that_come_too_late_are_dropped() -> None:
    engine = client(b"pub-sub")
    engine.receive_data(b"")
    sent(engine)
    assert engine.subscribe("topic/a") == 0
    engine.start_login("PLAIN")
    engine.respond(b"")
    assert sent(engine) == b""
