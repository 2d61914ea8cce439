"""The dialog of a direct connection, from both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.dmp.wire import FULL, client, message, messages_in, sent, serving, short
from triomq.errors import LocalProtocolError
from triomq.protocols.dmp import (
    PROTOCOL_HEADER,
    DMPEngine,
    EndOfStream,
    Failed,
    LeasePresented,
    Ready,
    RefusalReceived,
    Target,
)
from triomq.protocols.dmp.engine import HELD_MAX


def server() -> DMPEngine:
    return DMPEngine("server", now=0.0)


# A server


def test_server_greets_and_asks_for_a_judgement_of_the_lease() -> None:
    engine = server()
    engine.receive_data(bytes.fromhex("414d51500a010001"))
    assert sent(engine) == b"\x0e200 OK DMP/0.1"
    engine.receive_data(b"\x05le")
    assert engine.events() == []
    engine.receive_data(b"ase")
    assert engine.events() == [LeasePresented("lease")]
    engine.accept_sink("somesink")
    assert sent(engine) == short(b'200 OK Ready to write to "somesink"')


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_any_split_of_the_dialog_is_understood(sizes: list[int]) -> None:
    data, engine, position, number = PROTOCOL_HEADER + short(b"x" * 255), server(), 0, 0
    while position < len(data):
        step = sizes[number % len(sizes)]
        engine.receive_data(data[position : position + step])
        position, number = position + step, number + 1
    assert engine.events() == [LeasePresented("x" * 255)]


def test_server_refuses_a_lease_and_has_no_more_to_say() -> None:
    engine = server()
    engine.receive_data(PROTOCOL_HEADER + short(b"lease") + message())
    sent(engine)
    engine.events()
    engine.refuse(402, "Lease is not valid")
    assert engine.outbox.finished
    assert sent(engine) == short(b"402 BAD-LEASE Lease is not valid")
    engine.accept_sink("late")
    engine.refuse(541, "late")
    assert sent(engine) == b""


def test_empty_lease_is_wrong() -> None:
    engine = server()
    engine.receive_data(PROTOCOL_HEADER + b"\0")
    assert engine.events() == [Failed(502, "the lease is empty")]
    assert sent(engine) == b"\x0e200 OK DMP/0.1" + short(b"502 SYNTAX-ERROR the lease is empty")


@pytest.mark.parametrize("version", [b"\x0a\x01\x00\x02", b"\x0a\x02\x00\x01", b"\x00\x00\x09\x01"])
def test_another_header_is_answered_with_ours(version: bytes) -> None:
    engine = server()
    engine.receive_data(b"AMQP" + version)
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert sent(engine) == PROTOCOL_HEADER
    assert engine.outbox.finished


def test_octets_sent_ahead_are_bounded() -> None:
    engine = server()
    engine.receive_data(PROTOCOL_HEADER + short(b"lease"))
    engine.receive_data(bytes(HELD_MAX))
    assert engine.events() == [LeasePresented("lease")]
    engine.receive_data(b"x")
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert failed.code == 503


def test_octets_of_a_feeds_client_are_dropped() -> None:
    engine = serving("feed")
    engine.receive_data(b"anything")
    assert engine.events() == []
    assert not engine.outbox.finished
    engine.refuse(530, "the broker is shutting down")
    assert sent(engine) == b""  # only messages can stand here


def test_the_end_of_a_sinks_stream_says_what_was_begun() -> None:
    engine = serving()
    engine.receive_data(message()[:5])
    engine.receive_data(b"")
    assert engine.events() == [EndOfStream(5)]
    assert engine.outbox.finished


# A client


def test_client_shows_its_lease_when_it_is_greeted() -> None:
    engine = DMPEngine("client", now=0.0, lease="lease", target="sink")
    assert sent(engine) == PROTOCOL_HEADER
    engine.receive_data(b"\x0d200 OK DP/0")
    assert sent(engine) == b""
    engine.receive_data(b".1")  # as the original says it
    assert sent(engine) == short(b"lease")
    engine.receive_data(short(b"200 OK Sink 'amq.direct' ready"))
    assert engine.events() == [Ready("200 OK Sink 'amq.direct' ready")]


def test_feeds_messages_may_come_with_the_answer() -> None:
    engine = DMPEngine("client", now=0.0, lease="lease", target="feed")
    engine.receive_data(short(b"200 OK DMP/0.1") + short(b"200 OK") + message() * 2)
    ready, *runs = engine.events()
    assert isinstance(ready, Ready)
    assert len(messages_in(runs)) == 2


@pytest.mark.parametrize("greetings", [0, 1, 2])
def test_refusal_ends_a_client_wherever_it_comes(greetings: int) -> None:
    engine = DMPEngine("client", now=0.0, lease="lease", target="sink")
    engine.receive_data(short(b"200 OK") * greetings + short(b"403 NO-ACCESS no") + b"more")
    assert [event for event in engine.events() if not isinstance(event, Ready)] == [
        RefusalReceived(403, "403 NO-ACCESS no")
    ]
    assert engine.outbox.finished


def test_feed_of_the_original_is_read() -> None:
    engine = DMPEngine("client", now=0.0, lease="F-000660C2435F46B4-auto.8", target="feed")
    assert sent(engine) == bytes.fromhex("414d51500a010001")
    engine.receive_data(bytes.fromhex("0d323030204f4b2044502f302e31"))
    assert sent(engine) == b"\x19F-000660C2435F46B4-auto.8"
    engine.receive_data(b"\x1a200 OK Feed 'auto.8' ready" + bytes(4) + FULL + bytes(4) + FULL)
    ready, *runs = engine.events()
    assert ready == Ready("200 OK Feed 'auto.8' ready")
    assert [(exchange, key, body) for exchange, key, _, _, body in messages_in(runs)] == [
        ("amq.direct", "auto.8", b"hello")
    ] * 2


@pytest.mark.parametrize(
    "refusal",
    [b"4402 BAD-LEASE Lease is not valid for this connection", b"$402 BAD-LEASE Lease already acquired"],
)
def test_refusal_of_the_original_is_understood(refusal: bytes) -> None:
    engine = DMPEngine("client", now=0.0, lease="lease", target="feed")
    engine.receive_data(bytes.fromhex("0d323030204f4b2044502f302e31") + refusal)
    assert engine.events() == [RefusalReceived(402, refusal[1:].decode())]


@pytest.mark.parametrize("answer", [short(b"hello"), short(b"999 WHAT"), b"\0", short(b"20\xff")])
def test_answer_that_is_none_ends_a_client(answer: bytes) -> None:
    engine = DMPEngine("client", now=0.0, lease="lease")
    sent(engine)
    engine.receive_data(answer)
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert failed.code == 502
    assert sent(engine) == b""  # a client says nothing more


def test_server_that_speaks_no_dmp_is_known_by_its_header() -> None:
    engine = DMPEngine("client", now=0.0, lease="lease")
    engine.receive_data(b"AMQP\x00\x00\x09\x01")
    assert engine.events() == [Failed(540, "the server does not speak DMP")]


def test_servers_second_200_on_a_sink_is_wrong() -> None:
    engine = client("sink")
    engine.receive_data(short(b"200 OK"))
    (failed,) = engine.events()
    assert isinstance(failed, Failed)


@pytest.mark.parametrize("target", ["sink", "feed"])
def test_both_roles_understand_each_other(target: Target) -> None:
    ours, theirs = DMPEngine("client", now=0.0, lease="lease", target=target), server()
    theirs.receive_data(sent(ours))
    ours.receive_data(sent(theirs))
    theirs.receive_data(sent(ours))
    assert theirs.events() == [LeasePresented("lease")]
    (theirs.accept_sink if target == "sink" else theirs.accept_feed)("it")
    ours.receive_data(sent(theirs))
    assert isinstance(ours.events()[0], Ready)
    writer, reader = (ours, theirs) if target == "sink" else (theirs, ours)
    writer.send_message("ex", "key", b"\0\0", b"body")
    reader.receive_data(sent(writer))
    assert messages_in(reader.events()) == [("ex", "key", b"\0\0", 0, b"body")]


# Mistakes of our own


def test_commands_have_their_time() -> None:
    with pytest.raises(LocalProtocolError, match=r"no place in state waiting"):
        server().accept_feed("early")
    with pytest.raises(LocalProtocolError, match="a server's command"):
        client("sink").refuse(402, "no")
    with pytest.raises(LocalProtocolError, match="state reading"):
        serving("sink").send_message("", "", b"\0\0", b"")


def test_lease_is_not_shown() -> None:
    assert "secret" not in repr(LeasePresented("secret"))
