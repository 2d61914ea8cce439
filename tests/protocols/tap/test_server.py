"""The server's side: the handshake, requests, and answers in their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.tap.wire import GREETING, LOGIN, framed, messages, sent, serving
from triomq.errors import LocalProtocolError
from triomq.protocols.tap import (
    AckAsked,
    ChallengeAnswered,
    EndOfStream,
    Failed,
    FetchAsked,
    GroupPosition,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    PingAsked,
    Settings,
    StageAsked,
    TapServerEngine,
)
from triomq.protocols.tap.engine import HELD_MAX

BOUNDS = PartitionBounds(5, 0, 10)


def server(**settings: object) -> TapServerEngine:
    return TapServerEngine(now=0.0, settings=Settings(**settings))  # type: ignore[arg-type]


# The handshake


def test_server_greets_with_its_mechanisms_and_lets_a_client_in() -> None:
    engine = server(mechanisms=("SCRAM-SHA-256", "PLAIN"), product="triomq 1")
    engine.receive_data(GREETING)
    assert messages(sent(engine)) == [[0, "tap", 1, "triomq 1", ["SCRAM-SHA-256", "PLAIN"]]]
    engine.receive_data(LOGIN)
    assert engine.events() == [LoginRequested("PLAIN", b"\0guest\0abc", "")]
    engine.challenge(b"more")
    assert messages(sent(engine)) == [[1, b"more"]]
    engine.receive_data(framed(2, b"answer"))
    assert engine.events() == [ChallengeAnswered(b"answer")]
    engine.welcome()
    assert messages(sent(engine)) == [[2, 16 * 1024 * 1024]]
    assert engine.state == "open"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_any_split_of_a_conversation_is_understood(sizes: list[int]) -> None:
    data, engine, position, number = GREETING + LOGIN + framed(16, 1), server(), 0, 0
    heard = []
    while position < len(data):
        step = sizes[number % len(sizes)]
        engine.receive_data(data[position : position + step])
        position, number = position + step, number + 1
        while events := engine.events():
            heard += events
            if isinstance(events[-1], LoginRequested):
                engine.welcome()
    assert heard == [LoginRequested("PLAIN", b"\0guest\0abc"), PingAsked(1)]


def test_server_answers_a_later_version_with_its_own() -> None:
    engine = server()
    engine.receive_data(framed(0, "tap", 7, "", "what version 7 has here"))
    assert messages(sent(engine))[0][2] == 1
    assert engine.state == "login"


def test_what_is_sent_ahead_of_the_judgement_waits_for_it() -> None:
    engine = server()
    engine.receive_data(GREETING + LOGIN + framed(16, 1))
    assert len(engine.events()) == 1
    assert engine.unfinished == 7
    engine.welcome()
    assert engine.events() == [PingAsked(1)]
    assert engine.unfinished == 0


def test_too_much_sent_ahead_ends_the_connection() -> None:
    engine = server()
    engine.receive_data(GREETING + LOGIN)
    engine.events()
    engine.receive_data(bytes(HELD_MAX))
    assert engine.events() == []
    engine.receive_data(b"\0")
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert "sent ahead" in failed.text


def test_denied_client_hears_why() -> None:
    engine = server()
    engine.receive_data(GREETING + LOGIN)
    sent(engine)
    engine.close("DENIED", "no such user")
    assert messages(sent(engine)) == [[3, "DENIED", "no such user"]]
    assert engine.outbox.finished
    engine.welcome()
    engine.close("CLOSED", "late")
    assert sent(engine) == b""


@pytest.mark.parametrize(
    "data",
    [b"AMQP\0\0\x09\x01", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", framed(0, "tip", 1), framed(16, 1), LOGIN],
)
def test_other_protocols_hear_that_this_is_none_of_theirs(data: bytes) -> None:
    engine = server()
    engine.receive_data(data)
    (failed,) = engine.events()
    assert isinstance(failed, Failed)
    assert failed.code == "MALFORMED"
    assert messages(sent(engine)) == [[3, "MALFORMED", failed.text]]
    assert engine.outbox.finished


def test_frames_are_small_until_the_client_is_in() -> None:
    engine = server()
    engine.receive_data((4097).to_bytes(4, "big"))
    (failed,) = engine.events()
    assert failed == Failed("MALFORMED", "a frame has 4097 bytes; at most 4096 are allowed here")


# Requests


def test_requests_are_events_in_their_order() -> None:
    engine = serving()
    engine.receive_data(
        framed(16, 1)
        + framed(17, 2, "orders")
        + framed(18, 3, "orders", 0, None, 5)
        + framed(19, 4, "o", "g", {0: (5, 6)})
    )
    assert engine.events() == [
        PingAsked(1),
        OffsetsAsked(2, "orders"),
        FetchAsked(3, "orders", 0, None, 5),
        AckAsked(4, "o", "g", {0: GroupPosition(5, 6)}),
    ]


def test_staged_chunk_is_bytes_of_its_own() -> None:
    engine = serving()
    data = bytearray(framed(20, 1, "o", False, "w", 1, 2, 3, b"chunk"))
    engine.receive_data(bytes(data))
    (staged,) = engine.events()
    assert staged == StageAsked(1, "o", False, "w", 1, 2, 3, b"chunk")


def test_answers_go_out_under_their_numbers() -> None:
    engine = serving()
    engine.receive_data(framed(16, 9) + framed(17, 8, "o") + framed(18, 7, "o", 0, None, 5) + framed(16, 6))
    engine.done(9)
    engine.bounds(8, [BOUNDS])
    engine.records(7, BOUNDS, [b"abc", b"de"])
    engine.refuse(6, "FORBIDDEN", "no")
    assert messages(sent(engine)) == [
        [16, 9],
        [17, 8, [[5, 0, 10, None]]],
        [18, 7, [5, 0, 10, None], b"abcde"],
        [19, 6, "FORBIDDEN", "no", None],
    ]


def test_records_may_be_written_by_somebody_else() -> None:
    engine = serving()
    engine.receive_data(framed(18, 7, "o", 0, None, 5) + framed(16, 8))
    head = engine.records_head(7, BOUNDS)
    body = head + b"\xc6\0\0\0\x03abc"
    assert messages(len(body).to_bytes(4, "big") + body) == [[18, 7, [5, 0, 10, None], b"abc"]]
    engine.records_written(7, BOUNDS)
    engine.done(8)
    assert messages(sent(engine)) == [[16, 8]]
    engine.close("CLOSED", "bye")
    engine.records_written(9, BOUNDS)


@pytest.mark.parametrize("wrong", [lambda engine: engine.done(2), lambda engine: engine.bounds(1, [])])
def test_answer_out_of_order_is_our_own_mistake(wrong) -> None:  # type: ignore[no-untyped-def]
    engine = serving()
    engine.receive_data(framed(16, 1) + framed(16, 2))
    with pytest.raises(LocalProtocolError):
        wrong(engine)


def test_answer_to_nothing_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        serving().done(1)


def test_long_reason_is_cut() -> None:
    engine = serving()
    engine.receive_data(framed(16, 1))
    engine.refuse(1, "REFUSED", "x" * 5000)
    assert len(sent(engine)) < 1100


# What is none


@pytest.mark.parametrize(
    "data",
    [
        framed(),
        framed(99, 1),
        framed(16, "one"),
        framed(0, "tap", 1),
        framed(1, "PLAIN", b""),
        framed(17, 1, "x" * 256),
        b"\0\0\0\0",
        b"\0\0\0\x01\xc1",
        b"\0\0\0\x05" + b"\xa4\xff\xff\xff\xff",
        b"\0\0\xff\xff" + b"\x91" * 0xFFFF,
        b"\0\0\0\x08\x93\x11\x01\xa3\xff\xfe\xfd\xa0",
        b"\0\0\0\x08\x94\x13\x01\xdf\xff\xff\xff\xff",
        framed(16, 1) + framed(16, 1)[:4] + b"\xff\xff\xff",
    ],
)
def test_what_is_no_message_ends_the_connection(data: bytes) -> None:
    engine = serving()
    engine.receive_data(data)
    *_, failed = engine.events()
    assert isinstance(failed, Failed)
    assert failed.code == "MALFORMED"
    assert messages(sent(engine)) == [[3, "MALFORMED", failed.text]]
    engine.receive_data(framed(16, 1))
    engine.done(1)
    assert engine.events() == []
    assert sent(engine) == b""


def test_frame_larger_than_the_welcome_said_is_refused_by_its_length() -> None:
    engine = serving(Settings(max_frame=100_000))
    engine.receive_data((100_001).to_bytes(4, "big"))
    (failed,) = engine.events()
    assert failed == Failed("MALFORMED", "a frame has 100001 bytes; at most 100000 are allowed here")


def test_end_of_the_stream_tells_what_was_not_whole() -> None:
    engine = serving()
    engine.receive_data(framed(16, 1)[:5])
    engine.receive_data(b"")
    assert engine.events() == [EndOfStream(5)]
    assert engine.outbox.finished
    engine.receive_data(b"more")
    assert engine.events() == []


@pytest.mark.parametrize("size", [1000, 1 << 33])
def test_limits_that_no_request_fits_into_are_refused(size: int) -> None:
    with pytest.raises(LocalProtocolError, match="max_frame"):
        Settings(max_frame=size)
