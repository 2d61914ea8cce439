"""The side that listens: what it lets in, what it answers, and how it ends."""

import pytest

from protocols.zmtp.wire import (
    GREETING,
    PLAIN_GREETING,
    command,
    happened,
    hello,
    initiate,
    message,
    opened,
    properties,
    ready,
    said,
    server,
)
from triomq.errors import LocalProtocolError
from triomq.protocols.zmtp import (
    EndOfStream,
    ErrorReceived,
    Failed,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
)


def test_server_says_its_greeting_before_it_has_heard_anything() -> None:
    greeting = said(server(mechanism="PLAIN"))
    assert greeting[:1] + greeting[9:12] == b"\xff\x7f\x03\x01"
    assert greeting[12:] == b"PLAIN".ljust(20, b"\0") + b"\1" + bytes(31)


def test_peer_that_says_nothing_of_itself_is_let_in_by_null() -> None:
    engine = server()
    engine.receive_data(GREETING)
    assert said(engine)[64:] == command(b"READY", properties(Socket_Type=b"ROUTER", Identity=b""))
    engine.receive_data(ready(b"REQ", b"me") + message(b"", b"hello"))
    assert happened(engine) == [Opened("REQ", b"me", (3, 1)), MessagesReceived([[b"", b"hello"]])]


def test_client_of_plain_is_let_in_when_its_password_was_judged() -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + hello())
    assert happened(engine) == [LoginRequested("ada", b"secret")]
    assert "secret" not in repr(LoginRequested("ada", b"secret"))
    said(engine)
    engine.receive_data(initiate(identity=b"me") + message(b"early"))  # ahead of its turn: it waits
    assert happened(engine) == []
    engine.accept()
    assert said(engine) == command(b"WELCOME") + command(b"READY", properties(Socket_Type=b"ROUTER", Identity=b""))
    assert happened(engine) == [Opened("DEALER", b"me", (3, 1)), MessagesReceived([[b"early"]])]


def test_wrong_password_is_answered_by_error() -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + hello())
    said(engine)
    engine.refuse()
    assert said(engine) == command(b"ERROR", b"\x03400")
    assert (engine.state, engine.outbox.finished) == ("closed", True)


def test_end_without_a_word_says_nothing() -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + hello())
    said(engine)
    engine.close()
    engine.accept()  # too late, and no mistake
    engine.send([b"late"])
    assert (said(engine), engine.outbox.finished, engine.is_open) == (b"", True, False)


def test_commands_that_come_too_early_are_our_own_mistake() -> None:
    engine = server(mechanism="PLAIN")
    for mistake in (engine.accept, engine.refuse, lambda: engine.send([b"x"])):
        with pytest.raises(LocalProtocolError, match="no place in state 'signature'"):
            mistake()


def test_message_goes_out_frame_by_frame() -> None:
    engine = opened()
    engine.send([b"", b"short", b"l" * 300, b"L" * 70_000])
    engine.send_all([[b"next"], [b""]])
    assert said(engine) == message(b"", b"short", b"l" * 300, b"L" * 70_000) + message(b"next") + message(b"")


def test_messages_keep_their_order_with_commands_between_their_frames() -> None:
    engine = opened()
    wire = b"\x01\x01a" + command(b"PING", b"\0\0there") + b"\x00\x01b" + message(b"c") + command(b"PONG")
    engine.receive_data(wire + message(b"d"))
    assert happened(engine) == [MessagesReceived([[b"a", b"b"], [b"c"]]), MessagesReceived([[b"d"]])]
    assert said(engine) == command(b"PONG", b"there")


def test_many_messages_are_read_some_at_a_time() -> None:
    engine = opened()
    engine.receive_data(message(b"x") * 5000 + message(b"last"))
    sizes = []
    while (events := engine.events()) or engine.has_more:
        sizes.append(sum(len(event.messages) for event in events if isinstance(event, MessagesReceived)))
    assert (sum(sizes), max(sizes)) == (5001, 1024)


def test_octets_that_come_while_messages_are_left_stand_behind_them() -> None:
    engine = opened()
    engine.receive_data(message(b"x") * 3000 + b"\x00\x04la")
    engine.receive_data(b"st")
    found = [m for event in happened(engine) if isinstance(event, MessagesReceived) for m in event.messages]
    assert found == [[b"x"]] * 3000 + [[b"last"]]


def test_context_of_a_ping_comes_back_up_to_16_octets() -> None:
    engine = opened()
    engine.receive_data(command(b"PING", b"\0\0" + b"0123456789abcdef-and-more"))
    assert said(engine) == command(b"PONG", b"0123456789abcdef")


def test_pings_of_a_peer_that_reads_nothing_are_not_answered() -> None:
    engine = opened()
    engine.send([bytes(70_000)])
    waiting = engine.outbox.unsent
    for _ in range(100):
        engine.receive_data(command(b"PING", b"\0\0" + bytes(16)) * 100)
        happened(engine)
    assert engine.outbox.unsent == waiting


def test_answers_to_pings_that_are_left_unread_are_bounded() -> None:
    engine = opened()
    for _ in range(1000):
        engine.receive_data(command(b"PING", b"\0\0" + bytes(16)) * 100)
        happened(engine)
    assert 64 * 1024 < engine.outbox.unsent < 66 * 1024


def test_command_that_nobody_knows_is_dropped_once_the_connection_is_open() -> None:
    engine = opened()
    engine.receive_data(command(b"JOIN", b"group") + command(b"READY") + command(b"\xff\xfe") + message(b"x"))
    assert happened(engine) == [MessagesReceived([[b"x"]])]


def test_error_of_a_peer_ends_the_connection() -> None:
    engine = opened()
    engine.receive_data(command(b"ERROR", b"\x03bad") + message(b"x"))
    assert happened(engine) == [ErrorReceived("bad")]
    assert engine.outbox.finished


def test_end_of_the_stream_tells_what_was_left() -> None:
    engine = opened()
    engine.receive_data(b"\x01\x03abc\x00\x09four")
    assert engine.unfinished == 9
    engine.receive_data(b"")
    assert happened(engine) == [EndOfStream(9)]
    assert engine.unfinished == 0


# Subscriptions


@pytest.mark.parametrize(
    ("subscribe", "cancel"),
    [
        (lambda topic: command(b"SUBSCRIBE", topic), lambda topic: command(b"CANCEL", topic)),
        (lambda topic: message(b"\1" + topic), lambda topic: message(b"\0" + topic)),
    ],
    ids=["commands of 3.1", "messages of 3.0"],
)
def test_subscriptions_are_asked_for_kept_and_counted(subscribe: object, cancel: object) -> None:
    assert callable(subscribe)
    assert callable(cancel)
    engine = opened(b"SUB", socket_type="XPUB")
    engine.receive_data(subscribe(b"a.") + subscribe(b"") + subscribe(b"no") + subscribe(b"a."))
    found = happened(engine)
    assert found == [TopicSubscribed(topic) for topic in (b"a.", b"", b"no", b"a.")]
    assert [engine.keep(topic) for topic in (b"a.", b"", b"a.")] == [True, True, False]
    assert set(engine.topics) == {b"a.", b""}
    engine.receive_data(cancel(b"a.") + cancel(b"no") + cancel(b"a."))
    assert happened(engine) == [TopicCancelled(topic) for topic in (b"a.", b"no", b"a.")]
    assert [engine.drop(topic) for topic in (b"a.", b"no", b"a.")] == [False, False, True]
    assert engine.topics == (b"",)


def test_subscriptions_mean_nothing_to_a_router() -> None:
    engine = opened()
    engine.receive_data(command(b"SUBSCRIBE", b"a") + command(b"CANCEL", b"a") + message(b"\1a"))
    assert happened(engine) == [MessagesReceived([[b"\1a"]])]


def test_messages_of_a_subscriber_are_dropped() -> None:
    engine = opened(b"XSUB", socket_type="XPUB")
    engine.receive_data(message(b"hello") + message(b"\1a", b"b") + message(b""))
    assert happened(engine) == []


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([b"%d" % number for number in range(1001)], "TOO_MANY"),
        ([b"%d" % number + bytes(1000) for number in range(70)], "TOO_MANY"),
        ([b"z" * 1025], "TOO_LARGE"),
        ([b"z" * 20_000_000], "TOO_LARGE"),
    ],
    ids=["1,001 topics", "70 KB of topics", "one of 1,025 octets", "one of 20 MB"],
)
def test_subscriptions_have_limits(topics: list[bytes], code: str) -> None:
    for say in (lambda topic: command(b"SUBSCRIBE", topic), lambda topic: message(b"\1" + topic)):
        engine = opened(b"SUB", socket_type="XPUB")
        codes = []
        for topic in topics:
            engine.receive_data(say(topic))
            for event in happened(engine):
                if isinstance(event, TopicSubscribed):
                    engine.keep(event.topic)
                else:
                    assert isinstance(event, Failed)
                    codes.append(event.code)
        codes += [event.code for event in happened(engine) if isinstance(event, Failed)]
        assert codes in ([code], ["TOO_LARGE"])
        assert engine.outbox.finished
        assert engine.keep(b"late") is engine.drop(b"late") is False
