"""The client's engine: answers belong to requests in their order, and end as their heads say."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols import Engine
from triomq.protocols.http1 import (
    ClientEvent,
    EndOfStream,
    Failed,
    HTTPClientEngine,
    HTTPServerEngine,
    RequestBody,
    RequestHead,
    ResponseBody,
    ResponseHead,
    ServerEvent,
)

HOST = {"Host": "h"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def asked(*methods: str, most: int = 1_000, pieces: bool = False) -> HTTPClientEngine:
    engine = HTTPClientEngine()
    for method in methods:
        engine.send_request(method, "/", HOST, most=most, pieces=pieces)
    engine.data_to_send()
    return engine


def read(engine: HTTPClientEngine, *pieces: bytes) -> list[ClientEvent]:
    for piece in pieces:
        engine.receive_data(piece)
    return engine.events()


def bodies(events: list[ClientEvent]) -> list[bytes]:
    return [event.data for event in events if isinstance(event, ResponseBody)]


def test_client_engine_is_an_engine() -> None:
    engine: Engine[ClientEvent] = HTTPClientEngine(now=1.0)
    engine.handle_timer(1e9)
    assert engine.next_timer() is None


def test_request_is_written_with_its_length() -> None:
    engine = HTTPClientEngine()
    engine.send_request("POST", "/a?b", HOST, b"body")
    assert b"".join(engine.data_to_send()) == b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
    engine.send_request("POST", "/", HOST)
    assert b"Content-Length: 0\r\n" in b"".join(engine.data_to_send())
    engine.send_request("GET", "/", HOST)
    assert b"".join(engine.data_to_send()) == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert engine.unanswered == 3


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/a b"), ("GET", ""), ("G T", "/"), ("GET", "/\r\n"), ("", "/")]
)
def test_request_that_cannot_be_written_is_a_mistake_of_our_own(method: str, target: str) -> None:
    with pytest.raises(LocalProtocolError, match="request line"):
        HTTPClientEngine().send_request(method, target, HOST)


def test_header_that_cannot_be_written_is_a_mistake_of_our_own() -> None:
    with pytest.raises(LocalProtocolError, match="field_value"):
        HTTPClientEngine().send_request("GET", "/", {"X": "a\r\nY: b"})


def test_answer_is_head_and_body() -> None:
    head, body = read(asked("GET"), OK)
    assert isinstance(head, ResponseHead)
    assert (head.status, head.reason, head.length, head.version) == (200, "OK", 2, 1)
    assert head.headers == {"content-length": "2"}
    assert body == ResponseBody(b"ok", True)


def test_answers_come_in_the_order_of_requests() -> None:
    engine = asked("HEAD", "GET", "GET")
    events = read(engine, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + OK + OK.replace(b"ok", b"no"))
    assert bodies(events) == [b"", b"ok", b"no"]
    assert engine.unanswered == 0


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body(status: bytes) -> None:
    assert bodies(read(asked("GET", "GET"), b"HTTP/1.1 " + status + b"\r\nETag: 1\r\n\r\n" + OK)) == [b"", b"ok"]


def test_body_may_come_in_chunks() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    engine = asked("GET")
    assert bodies(read(engine, head, b"2\r\no", b"k\r\n0\r\n", b"\r\n")) == [b"ok"]
    assert bodies(read(asked("GET", pieces=True), head, b"1\r\no\r\n", b"1\r\nk\r\n", b"0\r\n\r\n")) == [
        b"o",
        b"k",
        b"",
    ]


def test_body_may_end_with_the_stream() -> None:
    events = read(asked("GET"), b"HTTP/1.0 200\r\n\r\no", b"k", b"")
    assert bodies(events) == [b"ok"]
    assert events[-1] == EndOfStream(0)


def test_interim_answers_are_passed_over() -> None:
    assert bodies(read(asked("GET"), b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK)) == [
        b"ok"
    ]


def test_server_that_closes_behind_an_answer_leaves_requests_unanswered() -> None:
    engine = asked("GET", "GET")
    *_, end = read(engine, OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert end == EndOfStream(1)
    assert engine.outbox.finished
    with pytest.raises(LocalProtocolError, match="another one"):
        engine.send_request("GET", "/", HOST)


@pytest.mark.parametrize("had", [b"", b"HTTP/1.1 2", OK[:-1]])
def test_end_of_the_stream_in_the_middle_of_an_answer_is_told(had: bytes) -> None:
    *_, end = read(asked("GET"), *([had] if had else []), b"")
    assert end == EndOfStream(1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/2 200\r\n", "does not begin"),
        (b"SSH-2.0", "does not begin"),
        (b"HTTP/1.1 99 x\r\n\r\n", "does not begin"),
        (b"HTTP/1.1 200 OK\nX: y\n\n", "does not begin"),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", "folded"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not a number"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\n", "extension"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + bytes(1001), "more than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + 17_000 * b"y", "more than 16384 bytes"),
        (OK + OK, "nobody has asked"),
    ],
)
def test_answer_that_is_none_ends_the_connection(data: bytes, text: str) -> None:
    for pieces in ([data], [data[at : at + 7] for at in range(0, len(data), 7)]):
        engine = asked("GET")
        failed = read(engine, *pieces)[-1]
        assert isinstance(failed, Failed)
        assert text in failed.text
        assert engine.outbox.finished


def test_both_engines_understand_each_other() -> None:
    client, server = HTTPClientEngine(), HTTPServerEngine(now=0.0)
    for number in range(3):
        client.send_request("POST", f"/{number}", HOST, b"%d" % number)
    server.receive_data(b"".join(client.data_to_send()))
    while events := server.events():
        for event in events:
            answer_in_pieces(server, event)
    client.receive_data(b"".join(server.data_to_send()))
    assert bodies(client.events()) == [b"0", b"1", b"2"]


def answer_in_pieces(server: HTTPServerEngine, event: ServerEvent) -> None:
    match event:
        case RequestHead():
            server.read_body(10)
        case RequestBody(data):
            server.begin_answer(200)
            server.send_piece(data)
            server.end_answer()
