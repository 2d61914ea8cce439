"""What a peer may send, and what it gets that sends more or something else."""

import tracemalloc

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
from triomq.protocols.zmtp import Failed, LoginRequested, MessagesReceived, Settings

OLD = b"\xff" + bytes(8) + b"\x7f\x01"

MALFORMED = {
    "no signature": (b"GET / HTTP/1.1\r\n", "UNFIT"),
    "ZMTP 1.0": (b"\x01\x00" + bytes(8), "UNFIT"),
    "ZMTP 2.0": (OLD + bytes(53), "UNFIT"),
    "another mechanism": (PLAIN_GREETING, "UNFIT"),
    "a mechanism that is no text": (GREETING.replace(b"NULL", b"\xff\xfe\xfd\xfc"), "UNFIT"),
    "a message in place of READY": (GREETING + message(b"x"), "MALFORMED"),
    "a long message in place of READY": (GREETING + b"\x02" + (1 << 40).to_bytes(8, "big"), "MALFORMED"),
    "another command in place of READY": (GREETING + hello(), "MALFORMED"),
    "an unknown command in place of READY": (GREETING + command(b"WHAT"), "MALFORMED"),
    "a command of no octets": (GREETING + b"\x04\x00", "MALFORMED"),
    "a command without a name": (GREETING + b"\x04\x01\x00", "MALFORMED"),
    "a name longer than its command": (GREETING + b"\x04\x05\x09READ", "MALFORMED"),
    "no kind of socket": (GREETING + command(b"READY"), "UNFIT"),
    "a kind of socket that does not fit": (GREETING + ready(b"SUB"), "UNFIT"),
    "a kind of socket that is no text": (GREETING + ready(b"\xff\xff"), "UNFIT"),
    "a property without a name": (GREETING + command(b"READY", b"\0\0\0\0\1x"), "MALFORMED"),
    "a property without a value": (GREETING + command(b"READY", b"\4name\0\0\0"), "MALFORMED"),
    "a value longer than its command": (GREETING + command(b"READY", b"\4name\xff\xff\xff\xffx"), "MALFORMED"),
    "an identity of 256 octets": (GREETING + ready(identity=bytes(256)), "MALFORMED"),
    "a handshake of more than 4 KiB": (
        GREETING + command(b"READY", properties(Socket_Type=b"DEALER", X_much=bytes(4096))),
        "TOO_LARGE",
    ),
    "a handshake that only says that it will be": (GREETING + b"\x06" + (1 << 40).to_bytes(8, "big"), "TOO_LARGE"),
    "a frame with unknown flags": (GREETING + ready() + b"\x08\x00", "MALFORMED"),
    "a command with more to come": (GREETING + ready() + b"\x05\x05\x04PING", "MALFORMED"),
    "a long frame with unknown flags, begun": (GREETING + ready() + b"\x0a\x00", "MALFORMED"),
    "a frame of 16 MiB and one": (GREETING + ready() + b"\x02" + (1 + (1 << 24)).to_bytes(8, "big"), "TOO_LARGE"),
    "a frame of 2**64-1": (GREETING + ready() + b"\x03" + b"\xff" * 8, "TOO_LARGE"),
    "a command of 1,101 octets": (GREETING + ready() + b"\x06" + (1101).to_bytes(8, "big"), "TOO_LARGE"),
    "a PING without a time": (GREETING + ready() + command(b"PING", b"\0"), "MALFORMED"),
    "an ERROR without a reason": (GREETING + ready() + command(b"ERROR"), "MALFORMED"),
    "an ERROR with half a reason": (GREETING + ready() + command(b"ERROR", b"\x09no"), "MALFORMED"),
}


@pytest.mark.parametrize("octets", [pytest.param(wire, id=name) for name, (wire, _) in MALFORMED.items()])
def test_what_is_malformed_ends_the_connection_without_a_word(octets: bytes) -> None:
    code = next(code for wire, code in MALFORMED.values() if wire is octets)
    ends = []
    for step in (len(octets), 1):
        engine = server()
        for place in range(0, len(octets), step):
            engine.receive_data(octets[place : place + step])
        (failed,) = [event for event in happened(engine) if isinstance(event, Failed)]
        said_all = said(engine)
        assert (failed.code, engine.state, engine.outbox.finished) == (code, "closed", True)
        ends.append((failed, said_all))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x03ad", b"\x03ada", b"\x03ada\x09secret", b"\x03ada\x06secret+", b"\x01\xff\x01x"],
    ids=["nothing", "half a name", "no password", "half a password", "something more", "a name that is no text"],
)
def test_hello_that_is_malformed_ends_the_connection(data: bytes) -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + command(b"HELLO", data))
    (event,) = happened(engine)
    assert isinstance(event, Failed)
    assert event.code == "MALFORMED"


def test_longest_log_in_fits_before_the_connection_is_open() -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + hello(b"u" * 255, b"p" * 255))
    assert isinstance(happened(engine)[0], LoginRequested)
    engine.accept()
    engine.receive_data(initiate(identity=b"i" * 255) + message(bytes(100_000)))
    assert engine.is_open


def test_peer_that_sends_messages_right_behind_its_handshake_is_let_in() -> None:
    engine = server()
    engine.receive_data(GREETING + ready() + message(bytes(200_000)) + message(b"x"))
    assert [[len(frame) for frame in m] for m in happened(engine)[1].messages] == [[200_000], [1]]  # type: ignore[union-attr]


@pytest.mark.parametrize("chunk", [1, 4096])
def test_client_that_sends_on_while_its_password_is_judged_is_cut_off(chunk: int) -> None:
    engine = server(mechanism="PLAIN")
    engine.receive_data(PLAIN_GREETING + hello())
    for _ in range(5000 // chunk):
        engine.receive_data(bytes(chunk))
        assert engine.unfinished <= 4096 + chunk
    assert [type(event) for event in happened(engine)] == [LoginRequested, Failed]


def test_message_of_many_large_frames_ends_at_the_length_that_is_too_much() -> None:
    engine = opened(max_message=1_000_000)
    for _ in range(9):
        engine.receive_data(b"\x03" + (100_000).to_bytes(8, "big") + bytes(100_000))
    assert (happened(engine), engine.unfinished) == ([], 900_000)
    engine.receive_data(b"\x03" + (100_001 - 9 * 256).to_bytes(8, "big"))
    (event,) = happened(engine)
    assert isinstance(event, Failed)
    assert (event.code, engine.unfinished) == ("TOO_LARGE", 0)


def test_message_of_too_many_frames_is_cut_and_its_peer_goes_on() -> None:
    engine = opened()
    engine.receive_data(message(*[b""] * 30_000) + message(*[b"x"] * 65) + message(b"next"))
    found = [m for event in happened(engine) if isinstance(event, MessagesReceived) for m in event.messages]
    assert found == [[b""] * 64, [b"x"] * 64, [b"next"]]


def test_message_of_empty_frames_that_never_ends_takes_no_memory_and_ends_in_time() -> None:
    engine = opened()
    chunk = b"\x01\x00" * 30_000
    tracemalloc.start()
    for _ in range(2):
        engine.receive_data(chunk)
        assert happened(engine) == []
    engine.receive_data(chunk)
    (event,) = happened(engine)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(event, Failed)
    assert (event.code, peak < 500_000) == ("TOO_LARGE", True)


def test_pieces_of_two_octets_take_no_multiple_of_their_size() -> None:
    engine = opened()
    size = 1_000_000
    engine.receive_data(b"\x02" + size.to_bytes(8, "big"))
    tracemalloc.start()
    for _ in range(size // 2 - 1):
        engine.receive_data(b"ab")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size - 100 <= engine.unfinished <= size + 9
    assert peak < 2 * size
    engine.receive_data(b"ab")
    assert happened(engine) == [MessagesReceived([[b"ab" * (size // 2)]])]


# Time


def test_handshake_has_to_be_over_in_time() -> None:
    engine = server(handshake_timeout=5.0)
    engine.receive_data(GREETING)
    assert engine.next_timer() == 5.0
    engine.handle_timer(4.9)
    assert happened(engine) == []
    engine.handle_timer(5.0)
    assert happened(engine) == [Failed("TOO_SLOW", "the handshake was not over in time: it is at 'ready'")]
    assert engine.next_timer() is None


def test_open_connection_without_heartbeats_has_no_timers() -> None:
    assert opened().next_timer() is None


def test_message_that_was_begun_has_to_end_in_time() -> None:
    engine = opened(message_timeout=20.0)
    engine.receive_data(message(b"whole") + b"\x01\x01a")
    happened(engine)
    assert engine.next_timer() == 0.0
    engine.handle_timer(100.0)
    assert engine.next_timer() == 120.0
    engine.receive_data(b"\x00\x01b" + b"\x01\x01c")  # another one has begun
    happened(engine)
    engine.handle_timer(119.0)
    assert engine.next_timer() == 139.0
    engine.reading_paused = True  # our side's doing
    engine.handle_timer(150.0)
    assert (happened(engine), engine.next_timer()) == ([], None)
    engine.reading_paused = False
    engine.handle_timer(151.0)
    engine.handle_timer(171.0)
    assert happened(engine) == [Failed("TOO_SLOW", "a message was begun and not finished in time")]


def test_peer_that_is_silent_is_asked_and_ends_within_twice_the_heartbeat() -> None:
    engine = opened(heartbeat=10.0)
    now, asked, ended = 0.0, [], None
    while ended is None:
        due = engine.next_timer()
        assert due is not None
        now = max(now, due)
        engine.handle_timer(now)
        if said(engine):
            asked.append(now)
        if events := happened(engine):
            ended = (now, events)
    assert ended == (15.0, [Failed("SILENT", "the peer says nothing, and answers no PING")])
    assert asked == [5.0, 10.0]


def test_peer_that_answers_stays() -> None:
    engine = opened(heartbeat=10.0)
    now = 0.0
    for _ in range(40):
        now = max(now, engine.next_timer() or 0.0)
        engine.handle_timer(now)
        if said(engine):
            engine.receive_data(command(b"PONG"))
    assert (happened(engine), now > 100.0) == ([], True)


def test_silence_is_not_held_against_a_peer_that_is_not_read() -> None:
    engine = opened(heartbeat=10.0)
    engine.handle_timer(0.0)
    engine.reading_paused = True
    for now in range(0, 100, 5):
        engine.handle_timer(float(now))
    assert (happened(engine), said(engine)) == ([], b"")


def test_silence_is_not_held_against_a_peer_that_may_not_know_ping() -> None:
    engine = server(heartbeat=10.0)
    engine.receive_data(GREETING.replace(b"\x03\x01", b"\x03\x00") + ready())
    happened(engine)
    for now in range(0, 100, 5):
        engine.handle_timer(float(now))
    assert happened(engine) == []
    engine.receive_data(command(b"PONG"))  # it does
    for now in range(100, 130, 5):
        engine.handle_timer(float(now))
    assert [type(event) for event in happened(engine)] == [Failed]


def test_time_to_live_of_a_ping_is_how_long_silence_is_borne() -> None:
    engine = opened()
    engine.receive_data(command(b"PING", (20).to_bytes(2, "big")))
    assert engine.next_timer() == 0.0
    engine.handle_timer(50.0)
    engine.handle_timer(51.0)
    assert happened(engine) == []
    engine.handle_timer(52.0)
    assert [event.code for event in happened(engine) if isinstance(event, Failed)] == ["SILENT"]


@pytest.mark.parametrize("wrong", [{"identity": bytes(256)}, {"identity": b"\0a"}, {"user": "ü" * 200}])
def test_settings_that_cannot_be_written_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        Settings(**wrong)  # type: ignore[arg-type]
    assert "secret" not in repr(Settings(user="ada", password="secret"))
