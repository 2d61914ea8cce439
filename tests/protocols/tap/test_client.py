"""The client's side: the handshake, requests, and what a server may say wrong."""

import pytest

from protocols.tap.wire import client, framed, messages, sent, talk
from triomq.errors import LocalProtocolError
from triomq.protocols.tap import (
    BoundsAnswered,
    DoneAnswered,
    EndOfStream,
    Failed,
    FetchAsked,
    GroupPosition,
    LeasedAnswered,
    LoginChallenged,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    RecordsAnswered,
    RequestRefused,
    ServerClosing,
    Settings,
    StreamsAnswered,
    TapClientEngine,
    TapServerEngine,
    Welcomed,
)

BOUNDS = PartitionBounds(5, 0, 10)


def test_client_greets_chooses_and_is_in() -> None:
    engine = TapClientEngine(now=0.0, settings=Settings(product="x"))
    assert messages(sent(engine)) == [[0, "tap", 1, "x"]]
    engine.receive_data(framed(0, "tap", 1, "triomq", ["PLAIN"]) + framed(1, b"more"))
    (greeting,) = engine.events()
    assert greeting.mechanisms == ("PLAIN",)  # type: ignore[union-attr]
    engine.log_in("PLAIN", b"", "shop")
    assert messages(sent(engine)) == [[1, "PLAIN", b"", "shop"]]
    assert engine.events() == [LoginChallenged(b"more")]  # which was there already, and waited for the turn to be its
    engine.respond(b"\0a\0b")
    assert messages(sent(engine)) == [[2, b"\0a\0b"]]
    engine.receive_data(framed(2, 65536))
    assert engine.events() == [Welcomed(65536)]
    assert engine.largest_frame == 65536


def test_both_sides_understand_each_other() -> None:
    client, server = TapClientEngine(now=0.0), TapServerEngine(now=0.0)
    talk(client, server)
    client.log_in("PLAIN", b"\0ada\0pw")
    assert talk(client, server) == ([], [LoginRequested("PLAIN", b"\0ada\0pw", "")])
    server.welcome()
    talk(client, server)
    numbers = [
        client.offsets("orders", "g"),
        client.fetch("orders", 1, 5, 0, 100, most_bytes=1000, wait=5),
        client.ack("orders", "g", {1: GroupPosition(5, 100)}),
        client.stage("orders", "w", 1, 2, 3, b"chunk"),
        client.commit("orders", "w", 1, {2: 3}),
        client.abort("orders", "w", 2),
        client.ping(),
        client.streams(),
        client.lease("jobs", "g", 100, 1000),
    ]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    _, asked = talk(client, server)
    assert asked[:2] == [OffsetsAsked(1, "orders", "g"), FetchAsked(2, "orders", 1, 5, 0, 100, 1000, 5)]
    server.bounds(1, [BOUNDS])
    server.records(2, BOUNDS, [b"a", b"b"])
    server.refuse(3, "OTHER_STREAM", "it is another one", BOUNDS)
    for number in (4, 5, 6, 7):
        server.done(number)
    server.streams(8, ["orders"])
    server.leased(9, BOUNDS, 5)
    answers, _ = talk(client, server)
    assert answers == [
        BoundsAnswered(1, (BOUNDS,)),
        RecordsAnswered(2, BOUNDS, memoryview(b"ab")),
        RequestRefused(3, "OTHER_STREAM", "it is another one", BOUNDS),
        *map(DoneAnswered, (4, 5, 6, 7)),
        StreamsAnswered(8, ("orders",)),
        LeasedAnswered(9, BOUNDS, 5),
    ]


def test_numbers_begin_anew_without_zero() -> None:
    engine = client()
    engine._last = (1 << 32) - 2
    assert [engine.ping(), engine.ping()] == [(1 << 32) - 1, 1]


def test_requests_that_come_too_late_are_dropped() -> None:
    engine = client()
    engine.receive_data(framed(3, "CLOSED", "the broker stops"))
    assert engine.events() == [ServerClosing("CLOSED", "the broker stops")]
    assert engine.outbox.finished
    assert engine.ping() == 0
    engine.log_in("PLAIN", b"")
    assert sent(engine) == b""


def test_server_that_ends_before_we_have_chosen_may_say_why() -> None:
    engine = TapClientEngine(now=0.0)
    engine.receive_data(framed(0, "tap", 1, "", ["PLAIN"]) + framed(3, "TOO_SLOW", "it took too long"))
    assert len(engine.events()) == 1
    engine.receive_data(b"")
    assert engine.events() == [ServerClosing("TOO_SLOW", "it took too long")]
    assert engine.outbox.finished


@pytest.mark.parametrize("held", [b"", b"\0\0", framed(2, 5), b"\0\0\0\x01\xc1", b"\xff" * 8])
def test_what_is_no_close_is_not_read_at_the_end(held: bytes) -> None:
    engine = TapClientEngine(now=0.0)
    engine.receive_data(framed(0, "tap", 1, "", ["PLAIN"]) + held)
    engine.events()
    engine.receive_data(b"")
    assert isinstance(engine.events()[0], EndOfStream)


def test_server_may_close_instead_of_greeting() -> None:
    engine = TapClientEngine(now=0.0)
    engine.receive_data(framed(3, "MALFORMED", "?"))
    assert engine.events() == [ServerClosing("MALFORMED", "?")]


@pytest.mark.parametrize(
    "ask",
    [
        lambda engine: engine.offsets(""),
        lambda engine: engine.offsets("x" * 256),
        lambda engine: engine.offsets("x", "", -1),
        lambda engine: engine.fetch("o", -1, None, 0, most_bytes=1),
        lambda engine: engine.fetch("o", 0, None, 1 << 63, most_bytes=1),
        lambda engine: engine.ack("o", "g", dict.fromkeys(range(5000), GroupPosition(None, 0))),
        lambda engine: engine.stage("o", "w", -1, 0, 0, b""),
        lambda engine: engine.stage("o", "w", 0, 0, 0, bytes(70_000)),
        lambda engine: engine.commit("o", "w", 1, {1: -1}),
        lambda engine: engine.fetch("o", 0, 1 << 70, 0, most_bytes=1),
    ],
)
def test_request_that_a_server_would_not_read_is_our_own_mistake(ask) -> None:  # type: ignore[no-untyped-def]
    engine = client(max_frame=65536)
    with pytest.raises(LocalProtocolError):
        ask(engine)
    assert sent(engine) == b""
    assert engine.ping() == 1


def test_requests_before_the_welcome_are_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        TapClientEngine(now=0.0).ping()


@pytest.mark.parametrize(
    "data",
    [
        framed(16, 1),  # an answer to nothing
        framed(99),
        framed(0, "tap", 1, "", []),
        framed(2, 5),
        b"\xff\xff\xff\xff",
    ],
)
def test_server_that_breaks_the_rules_is_left(data: bytes) -> None:
    engine = client()
    engine.receive_data(data)
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert engine.outbox.finished
    assert sent(engine) == b""


@pytest.mark.parametrize("answer", [framed(16, 2), framed(17, 1, []), framed(18, 1, (1, 0, 0), b"")])
def test_wrong_answer_is_a_fault(answer: bytes) -> None:
    engine = client()
    engine.ping()
    engine.receive_data(answer)
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert "the next one to be answered is 1" in failed.text


def test_other_versions_are_not_spoken() -> None:
    engine = TapClientEngine(now=0.0)
    engine.receive_data(framed(0, "tap", 2, "", ["PLAIN"]))
    assert engine.events() == [Failed("MALFORMED", "the server speaks version 2, and we speak 1")]


def test_end_of_the_stream_is_an_event() -> None:
    engine = client()
    engine.receive_data(b"")
    assert engine.events() == [EndOfStream()]


def test_chunks_are_a_view_into_what_has_come() -> None:
    engine = client()
    engine.fetch("o", 0, None, 0, most_bytes=1)
    data = framed(18, 1, (1, 0, 9), bytes(100_000))
    engine.receive_data(data)
    (answer,) = engine.events()
    assert isinstance(answer, RecordsAnswered)
    assert answer.chunks == bytes(100_000)
