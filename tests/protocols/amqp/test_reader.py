"""Malformed input, row by row: the code, the text and the method that the close names."""

import struct

import pytest

from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Closed,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTuneOk,
    EndOfStream,
    Failed,
    PublishMix,
    PublishRun,
    QueueDeclareOk,
)

from .wire import HEADER, HEARTBEAT, OPENING, body, frame, header, method, running, sent, sent_methods

PUBLISH = method(1, BasicPublish("", "q"))

# Answers that several rows share: the code, the text, and the method that is blamed; or the text alone.
NO_METHOD = (505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0))
NO_HEADER = (
    505,
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
    (60, 40),
)
NO_BODY = (505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", (60, 40))
NOT_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
OUT_OF_TURN = "CHANNEL_ERROR - unexpected method in connection state running"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"

# What a client sends on a connection with channel 1 open → how it is answered; after RabbitMQ 3.10.8.
ROWS: dict[str, tuple[bytes, int, str, tuple[int, int]]] = {
    "frame larger than agreed": (
        struct.pack(">BHI", 3, 1, 200000),
        501,
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,200000,131064}",
        (0, 0),
    ),
    "bad frame end": (
        frame(1, 1, b"\0\x3c\0\x0a\0\0\0\0\0\0\0", b"\0"),
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,10,0,0,0,0,0,0,0>>: {invalid_frame_end_marker,0}",
        (0, 0),
    ),
    "bad end of an ack's frame": (
        method(1, BasicAck(1))[:-1] + b"\0",
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: {invalid_frame_end_marker,0}",
        (0, 0),
    ),
    "bad end of a publish's method frame": (
        PUBLISH[:-1] + b"\1" + header(1, 0),
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,40,0,0,0,1,113,0>>: {invalid_frame_end_marker,1}",
        (0, 0),
    ),
    "bad end of a body frame": (
        PUBLISH + header(1, 1) + body(1, b"x")[:-1] + b"\2",
        501,
        'FRAME_ERROR - type 3, all octets = <<"x">>: {invalid_frame_end_marker,2}',
        (0, 0),
    ),
    "unknown frame type": (frame(7, 1, b"x"), 501, 'FRAME_ERROR - type 7, all octets = <<"x">>: unknown_frame', (0, 0)),
    "heartbeat that says something": (
        frame(8, 0, b"x"),
        501,
        'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
        (0, 0),
    ),
    "heartbeat on a channel": (frame(8, 1, b""), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", (0, 0)),
    "content header on channel 0": (
        header(0, 0),
        505,
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
        (0, 0),
    ),
    "body without method": (body(1, b"x"), *NO_METHOD),
    "header without method": (header(1, 0), *NO_METHOD),
    "body on a channel that is not open": (body(9, b"x"), *NO_METHOD),
    "method where a header is due": (PUBLISH + method(1, BasicQos()), *NO_HEADER),
    "body where a header is due": (PUBLISH + body(1, b"x"), *NO_HEADER),
    "header of another class": (
        PUBLISH + header(1, 0, class_id=50),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        (60, 40),
    ),
    "header with a weight": (PUBLISH + header(1, 0, weight=1), *NO_HEADER),
    "header that is cut short": (
        PUBLISH + frame(2, 1, bytes(13)),
        501,
        "FRAME_ERROR - content header of 13 octets",
        (60, 40),
    ),
    "header without property flags": (
        PUBLISH + frame(2, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\4") + body(1, b"body"),
        501,
        "FRAME_ERROR - content header of 12 octets",
        (60, 40),
    ),
    "properties that are cut short": (
        PUBLISH + header(1, 0, b"\x80\x00\x05abc"),
        502,
        "SYNTAX_ERROR - content properties do not fill their frame as their flags say",
        (60, 40),
    ),
    "flags of no property": (
        PUBLISH + header(1, 0, b"\x80\x01\x00"),
        502,
        "SYNTAX_ERROR - property flags 0x8001 are not all of the basic class",
        (60, 40),
    ),
    "bad field type in headers": (
        PUBLISH + header(1, 0, b"\x20\x00\x00\x00\x00\x03\x01aQ"),
        502,
        "SYNTAX_ERROR - unknown field type 'Q'; known are tbBsUuIilLfdDSATFVx",
        (60, 40),
    ),
    "body longer than announced": (PUBLISH + header(1, 3) + body(1, b"xx") + body(1, b"xx"), *NO_BODY),
    "method where a body is due": (PUBLISH + header(1, 3) + method(1, BasicQos()), *NO_BODY),
    "header where a body is due": (PUBLISH + header(1, 3) + header(1, 3), *NO_BODY),
    "body after an empty content": (PUBLISH + header(1, 0) + body(1, b""), *NO_METHOD),
    "method on a channel that is not open": (method(9, BasicQos()), 504, NOT_OPEN, (60, 10)),
    "publish on a channel that is not open": (method(9, BasicPublish()), 504, NOT_OPEN, (60, 40)),
    "close of a channel that is not open": (method(9, ChannelClose(200, "")), 504, NOT_OPEN, (20, 40)),
    "channel opened twice": (method(1, ChannelOpen()), 504, "CHANNEL_ERROR - second 'channel.open' seen", (20, 10)),
    "channel.close-ok that answers nothing": (method(1, ChannelCloseOk()), 503, UNIMPLEMENTED, (20, 41)),
    "connection method on a channel": (method(1, ConnectionClose(200, "")), 503, UNIMPLEMENTED, (10, 50)),
    "channel method on channel 0": (method(0, ChannelOpen()), 504, OUT_OF_TURN, (20, 10)),
    "connection opened twice": (method(0, ConnectionOpen("/")), 504, OUT_OF_TURN, (10, 40)),
    "a server's method on channel 0": (method(0, ConnectionBlocked("no")), 504, OUT_OF_TURN, (10, 60)),
    "a server's method": (method(1, QueueDeclareOk("q")), 503, UNIMPLEMENTED, (50, 11)),
    "a server's content": (method(1, BasicDeliver("c", 1, False, "", "q")), 503, UNIMPLEMENTED, (60, 60)),
    "a server's answer to channel.open": (method(1, ChannelOpenOk()), 503, UNIMPLEMENTED, (20, 11)),
    "unknown class": (frame(1, 1, b"\0\x63\0\x0a"), 540, "NOT_IMPLEMENTED - unknown class 99", (99, 10)),
    "unknown class on channel 0": (
        frame(1, 0, b"\xf0\x3c\0\x0a"),
        540,
        "NOT_IMPLEMENTED - unknown class 61500",
        (61500, 10),
    ),
    "unknown method": (
        frame(1, 1, b"\0\x3c\0\xc7"),
        540,
        "NOT_IMPLEMENTED - unknown method 199 of class 60",
        (60, 199),
    ),
    "method frame without a method": (frame(1, 1, b"\0"), 501, "FRAME_ERROR - cannot decode <<0>>", (0, 0)),
    "truncated arguments": (frame(1, 1, b"\0\x3c\0\x0a\0\0"), 501, "FRAME_ERROR - cannot decode <<0,0>>", (60, 10)),
    "truncated arguments of a publish": (
        frame(1, 1, b"\0\x3c\0\x28\0\0\x09") + header(1, 0),
        501,
        "FRAME_ERROR - cannot decode <<0,0,9>>",
        (60, 40),
    ),
    "bad field type in arguments": (
        frame(1, 1, b"\0\x32\0\x0a\0\0\0\0\0\0\0\x03\x01aQ"),
        502,
        "SYNTAX_ERROR - unknown field type 'Q'; known are tbBsUuIilLfdDSATFVx in queue.declare",
        (50, 10),
    ),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "octet by octet"])
def test_malformed_input_is_answered_by_name(row: str, *, at_once: bool) -> None:
    data, code, text, blamed = ROWS[row]
    server = running()
    for piece in (data,) if at_once else (data[start : start + 1] for start in range(len(data))):
        server.receive_data(piece)
    assert server.events()[-1:] == [Failed(code, text, *blamed)]
    assert sent_methods(server) == [(0, ConnectionClose(code, text, *blamed))]


@pytest.mark.parametrize("header_octets", [b"HTTP", b"GET / HTTP/1.1\r\n", b"AMQP\0\0\x09\0", b"AMQP\3\1\0\0", b"A\0"])
def test_another_protocol_is_told_ours(header_octets: bytes) -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(header_octets)
    (failed,) = server.events()
    assert isinstance(failed, Failed)
    assert failed.code == 501
    assert sent(server) == HEADER
    assert server.outbox.finished
    server.receive_data(OPENING)
    assert server.events() == []
    assert sent(server) == b""


def test_header_that_begins_well_is_waited_for() -> None:
    server = AMQPEngine("server", now=0.0)
    for octet in HEADER[:-1]:
        server.receive_data(bytes([octet]))
    assert server.events() == []
    assert sent(server) == b""
    server.receive_data(HEADER[-1:])
    assert server.state == "starting"


def test_client_fails_when_the_server_wants_another_version() -> None:
    client = AMQPEngine("client", now=0.0)
    assert sent(client) == HEADER
    client.receive_data(b"AMQP\0\0\x09\0")
    (failed,) = client.events()
    assert isinstance(failed, Failed)
    assert sent(client) == b""
    assert client.outbox.finished


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (frame(1, 1, b"\0\x3c\0\x0a"), 505),
        (method(0, ConnectionTuneOk(1, 4096, 0)), 504),
        (frame(2, 0, b"x"), 505),
        (struct.pack(">BHI", 1, 0, 4097), 501),
    ],
    ids=["a channel's frame", "a later method", "a header frame", "a frame over 4096 octets"],
)
def test_the_handshake_takes_nothing_but_its_own(octets: bytes, code: int) -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(HEADER + octets)
    (failed,) = server.events()
    assert isinstance(failed, Failed)
    assert failed.code == code


def test_heartbeats_are_taken_at_any_time_and_tell_nothing() -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(HEADER + HEARTBEAT + HEARTBEAT)
    assert server.events() == []
    server = running()
    server.receive_data(HEARTBEAT * 3)
    assert server.events() == []


def test_after_a_failure_everything_but_the_answer_is_passed_over() -> None:
    server = running()
    server.receive_data(body(1, b"x") + PUBLISH + header(1, 1) + body(1, b"x") + body(1, b"x") + frame(1, 0, b"\0"))
    assert len(server.events()) == 1
    assert len(sent_methods(server)) == 1
    assert not server.outbox.finished
    server.receive_data(method(0, ConnectionCloseOk()) + PUBLISH)
    text = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    assert server.events() == [Closed(505, text, by_peer=False)]
    assert server.outbox.finished
    assert server.next_timer() is None


def test_closes_that_cross_are_both_answered() -> None:
    server = running()
    server.close(320, "shutting down")
    assert sent_methods(server) == [(0, ConnectionClose(320, "CONNECTION_FORCED - shutting down"))]
    server.receive_data(method(0, ConnectionClose(200, "bye")))
    assert sent_methods(server) == [(0, ConnectionCloseOk())]
    assert not server.outbox.finished
    server.receive_data(method(0, ConnectionCloseOk()))
    assert server.events() == [Closed(320, "CONNECTION_FORCED - shutting down", by_peer=False)]


def test_where_frames_cannot_be_told_apart_the_engine_ends_at_once() -> None:
    server = running()
    server.receive_data(frame(1, 1, b"\0\x3c\0\x0a", b"\0") + method(0, ConnectionCloseOk()))
    assert server.outbox.finished
    server.receive_data(method(0, ConnectionCloseOk()))
    assert [type(event) for event in server.events()] == [Failed]


def test_frames_that_get_lost_while_closing_end_the_wait() -> None:
    server = running()
    server.close(200, "bye")
    server.receive_data(frame(1, 1, b"\0\x3c\0\x0a", b"\0"))
    assert server.events() == [Closed(200, "bye", by_peer=False)]
    assert server.outbox.finished


def test_events_before_a_failure_still_come() -> None:
    server = running()
    server.receive_data(PUBLISH + header(1, 0) + method(1, BasicConsume("q")) + body(1, b""))
    assert [type(event).__name__ for event in server.events()] == ["PublishRun", "Received", "Failed"]


def test_client_may_send_its_whole_opening_ahead() -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(OPENING + method(1, ChannelOpen()) + method(1, BasicPublish()) + header(1, 0))
    assert [type(event).__name__ for event in server.events()] == ["LoginRequested"]
    server.accept_login()
    assert [type(event).__name__ for event in server.events()] == ["OpenRequested"]
    server.open_connection()
    assert [type(event).__name__ for event in server.events()] == ["ChannelOpened", "PublishRun"]


def test_octets_sent_ahead_are_bounded() -> None:
    server = AMQPEngine("server", now=0.0)
    server.receive_data(OPENING)
    for _ in range(300):
        server.receive_data(bytes(1024))
    failed = server.events()[-1]
    assert isinstance(failed, Failed)
    assert failed.text == "RESOURCE_ERROR - more than 262144 octets were sent ahead of the handshake"
    assert server.outbox.finished


def test_the_end_of_the_stream_ends_the_engine() -> None:
    server = running()
    server.receive_data(PUBLISH[:-4])
    server.receive_data(b"")
    server.receive_data(b"")
    assert server.events() == [EndOfStream()]
    assert server.outbox.finished
    assert server.next_timer() is None
    server.receive_data(PUBLISH)
    assert server.events() == []


def test_frame_that_lacks_one_octet_is_waited_for() -> None:
    server = running()
    data = PUBLISH + header(1, 3) + body(1, b"abc")
    server.receive_data(data[:-1])
    assert server.events() == []
    server.receive_data(data[-1:])
    (run,) = server.events()
    assert isinstance(run, PublishRun)
    assert run.framing.body(run.contents[0]) == b"abc"


def test_payload_may_have_as_many_octets_as_frames() -> None:
    server, octets = running(), bytes(131072)
    cut = PUBLISH + header(1, 131074) + body(1, octets) + body(1, b"ab")
    server.receive_data(cut + (PUBLISH + header(1, 131072) + body(1, octets)) * 2)
    runs = [run for event in server.events() for run in (event.runs() if isinstance(event, PublishMix) else [event])]
    found = [run.framing.body(one) for run in runs if isinstance(run, PublishRun) for one in run.contents]
    assert list(map(bytes, found)) == [octets + b"ab", octets, octets]
