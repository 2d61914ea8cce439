"""The server's engine: requests one at a time, bodies when they are wanted, answers in order."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols import Engine
from triomq.protocols.http1 import (
    EndOfStream,
    Failed,
    HTTPServerEngine,
    RequestBody,
    RequestHead,
    ServerEvent,
    Settings,
)

from .wire import GET, Endpoint, chunked, engine, post, read, request, sent


def head(engine: HTTPServerEngine, data: bytes) -> RequestHead:
    event, *rest = read(engine, data)
    assert isinstance(event, RequestHead)
    assert not rest
    return event


# Requests


def test_server_engine_is_an_engine() -> None:
    found: Engine[ServerEvent] = engine()
    assert found.next_timer() == 5.0


def test_request_is_reported_with_what_its_head_says() -> None:
    got = head(engine(), request("GET /a/b%20c?x=1&y HTTP/1.1", "X-One: 1", "x-one:2", "Empty:"))
    assert (got.method, got.target, got.path, got.query) == ("GET", "/a/b%20c?x=1&y", "/a/b%20c", "x=1&y")
    assert got.headers == {"host": "h", "x-one": "1, 2", "empty": ""}
    assert (got.length, got.version, got.keep_alive, got.expects_continue) == (0, 1, True, False)


def test_representation_of_a_request_shows_no_password() -> None:
    assert "secret" not in repr(head(engine(), request("GET / HTTP/1.1", "Authorization: secret")))


def test_body_comes_when_it_is_wanted() -> None:
    server = engine()
    assert head(server, post(b"hello")).length == 5
    assert server.events() == []
    server.read_body(10)
    assert server.events() == [RequestBody(b"hello", True)]


def test_request_without_a_body_has_an_empty_one() -> None:
    server = engine()
    head(server, GET)
    server.read_body(0)
    assert server.events() == [RequestBody(b"", True)]


def test_body_is_gathered_whole() -> None:
    server = engine()
    head(server, post(b"hello")[:-4])
    server.read_body(10)
    assert server.events() == []
    assert read(server, b"el") == []
    assert server.unfinished == 3
    assert read(server, b"lo") == [RequestBody(b"hello", True)]
    assert server.unfinished == 0


def test_body_may_come_in_pieces() -> None:
    server = engine()
    head(server, post(b"hello")[:-4])
    server.read_body(10, pieces=True)
    assert server.events() == [RequestBody(b"h", False)]
    assert read(server, b"el") == [RequestBody(b"el", False)]
    assert read(server, b"lo") == [RequestBody(b"lo", True)]


def test_chunks_that_came_together_are_one_piece() -> None:
    server = engine()
    assert head(server, chunked(b"he", b"l", b"lo", trailer=b"Checksum: 1\r\n")).length is None
    server.read_body(10, pieces=True)
    assert server.events() == [RequestBody(b"hello", True)]


def test_next_request_is_looked_at_when_this_one_is_answered() -> None:
    server = engine()
    first = head(server, GET + post(b"x") + GET)
    assert server.request is first
    assert server.pipelined == len(post(b"x") + GET)
    server.answer(204)
    second = server.events()[0]
    assert isinstance(second, RequestHead)
    assert second.method == "POST"
    server.read_body(1)
    assert server.events() == [RequestBody(b"x", True)]
    server.answer(200)
    assert len(server.events()) == 1


def test_blank_line_before_a_request_is_ignored_once() -> None:
    assert len(Endpoint().feed(b"\r\n" + GET + b"\r\n" + GET).heads) == 2
    assert Endpoint().feed(b"\r\n\r\n" + GET).failed is not None


# Expect: 100-continue


def test_client_is_asked_for_the_body_when_that_is_wanted() -> None:
    server = engine()
    assert head(server, post(b"x", "Expect: 100-Continue")[:-1]).expects_continue
    assert sent(server) == b""
    server.read_body(1)
    assert sent(server) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert read(server, b"x") == [RequestBody(b"x", True)]


def test_client_is_not_asked_for_what_is_there_or_will_not_be() -> None:
    for data in (post(b"xy", "Expect: 100-continue")[:-1], post(b"", "Expect: 100-continue")):
        server = engine()
        head(server, data)
        server.read_body(2)
        assert sent(server) == b""


def test_client_of_http_1_0_is_never_asked() -> None:
    data = post(b"x", "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert not head(engine(), data[:-1]).expects_continue


def test_refusal_before_the_body_was_asked_for_ends_the_connection() -> None:
    server = engine()
    head(server, post(b"x", "Expect: 100-continue")[:-1])
    server.answer(401)
    assert sent(server).startswith(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n")
    assert server.outbox.finished


def test_other_expectations_are_refused_by_417() -> None:
    assert Endpoint().feed(request("GET / HTTP/1.1", "Expect: miracles")).failed is not None


# Bodies that nobody wants


def test_short_body_that_nobody_wants_is_dropped() -> None:
    server = engine()
    head(server, post(b"hello")[:-3])
    server.answer(401)
    assert b"Connection" not in sent(server)
    assert read(server, b"ll") == []
    assert head(server, b"o" + GET).method == "GET"


def test_long_body_that_nobody_wants_ends_the_connection() -> None:
    server = engine(Settings(max_discarded=4))
    head(server, post(b"hello")[:-5])
    server.answer(401)
    assert b"Connection: close" in sent(server)
    assert server.outbox.finished


def test_chunks_that_nobody_wants_end_the_connection() -> None:
    server = engine()
    head(server, chunked(b"x")[:-3])
    server.answer(401)
    assert server.outbox.finished


def test_body_that_is_longer_than_wanted_is_refused_unread() -> None:
    server = engine()
    head(server, post(b"hello")[:-5])
    server.read_body(4)
    assert server.events() == [Failed(413, "the body has 5 bytes; allowed are 4")]
    assert sent(server).startswith(b"HTTP/1.1 413 ")
    assert server.outbox.finished


@pytest.mark.parametrize("pieces", [False, True])
def test_chunks_that_are_longer_than_wanted_together_are_refused(pieces: bool) -> None:
    endpoint = Endpoint(most=4, pieces=pieces).feed(chunked(b"he", b"llo"))
    assert endpoint.failed == Failed(413, "the body has more than 4 bytes")
    assert endpoint.bodies == [b"hell" if pieces else b""]


# Answers


def test_answer_has_its_length_and_the_date() -> None:
    server = HTTPServerEngine(now=0.0, date=lambda: "today")
    head(server, GET)
    server.answer(200, b"hi", {"ETag": '"1"'})
    assert sent(server) == b'HTTP/1.1 200 OK\r\nDate: today\r\nETag: "1"\r\nContent-Length: 2\r\n\r\nhi'


def test_head_is_answered_without_the_body() -> None:
    server = engine()
    head(server, request("HEAD / HTTP/1.1"))
    server.answer(200, b"hi")
    assert sent(server) == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_neither_body_nor_length(status: int) -> None:
    server = engine()
    head(server, GET)
    server.answer(status, b"hi")
    assert b"Content-Length" not in (answer := sent(server))
    assert answer.endswith(b"\r\n\r\n")


def test_large_body_is_not_copied() -> None:
    server = engine()
    head(server, GET)
    body = bytes(100_000)
    server.answer(200, body)
    assert server.outbox.unsent > len(body)
    assert server.data_to_send()[1] is body


@pytest.mark.parametrize(
    ("line", "field", "keeps", "written"),
    [
        ("GET / HTTP/1.1", "X: y", True, b""),
        ("GET / HTTP/1.1", "Connection: close", False, b"Connection: close"),
        ("GET / HTTP/1.1", "Connection: TE, Close", False, b"Connection: close"),  # libwww-perl
        ("GET / HTTP/1.0", "X: y", False, b"Connection: close"),
        ("GET / HTTP/1.0", "Connection: Keep-Alive", True, b"Connection: keep-alive"),
    ],
)
def test_connection_stays_as_the_client_wants(line: str, field: str, keeps: bool, written: bytes) -> None:
    server = engine()
    head(server, request(line, field))
    server.answer(200)
    assert written in sent(server)
    assert server.outbox.finished is not keeps


def test_endpoint_may_end_the_connection_with_an_answer() -> None:
    server = engine()
    head(server, GET + GET)
    server.answer(503, close=True)
    assert b"Connection: close" in sent(server)
    assert server.events() == []
    assert server.outbox.finished


def test_answer_may_come_in_chunks() -> None:
    server = engine()
    head(server, GET + GET)
    server.begin_answer(200, {"Content-Type": "text/event-stream"})
    server.send_piece(b"one")
    server.send_piece(b"")
    server.send_piece(bytes(20_000))
    assert server.events() == []
    server.end_answer()
    front, _, rest = sent(server).partition(b"\r\n\r\n")
    assert front.endswith(b"Transfer-Encoding: chunked")
    assert rest == b"3\r\none\r\n4e20\r\n" + bytes(20_000) + b"\r\n0\r\n\r\n"
    assert len(server.events()) == 1


def test_answer_in_pieces_to_http_1_0_ends_with_the_connection() -> None:
    server = engine()
    head(server, request("GET / HTTP/1.0", "Connection: keep-alive"))
    server.begin_answer(200)
    server.send_piece(b"one")
    server.end_answer()
    assert sent(server) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none"
    assert server.outbox.finished


def test_head_is_answered_without_pieces() -> None:
    server = engine()
    head(server, request("HEAD / HTTP/1.1"))
    server.begin_answer(200)
    server.send_piece(b"one")
    server.end_answer()
    assert sent(server) == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_answer_in_pieces_before_the_body_was_read_ends_the_connection() -> None:
    server = engine()
    head(server, post(b"hello")[:-3])
    server.begin_answer(200)
    assert read(server, b"llo") == []
    server.end_answer()
    assert server.outbox.finished


@pytest.mark.parametrize(
    ("name", "value"), [("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\0"), ("X", "€"), ("X y", "z"), ("", "z")]
)
def test_header_that_cannot_be_written_is_a_mistake_of_our_own(name: str, value: str) -> None:
    server = engine()
    head(server, GET)
    with pytest.raises(LocalProtocolError, match="field_value"):
        server.answer(200, headers={name: value})
    server.answer(500)
    assert server.events() == []


def test_commands_without_a_request_are_mistakes_of_our_own() -> None:
    server = engine()
    for command in (lambda: server.answer(200), lambda: server.read_body(1), lambda: server.begin_answer(200)):
        with pytest.raises(LocalProtocolError, match="idle"):
            command()
    head(server, GET)
    for command in (server.end_answer, lambda: server.send_piece(b"x"), lambda: server.answer(100)):
        with pytest.raises(LocalProtocolError, match=r"judging|100"):
            command()


def test_commands_after_the_end_are_dropped() -> None:
    server = engine()
    head(server, GET)
    server.give_up()
    server.answer(200)
    server.begin_answer(200)
    server.send_piece(b"x")
    server.end_answer()
    server.read_body(1)
    server.give_up()
    assert sent(server) == b""
    assert read(server, GET) == []


# The end


def test_end_of_the_stream_between_requests_ends_the_connection() -> None:
    server = engine()
    assert read(server, b"") == [EndOfStream(0)]
    assert server.outbox.finished


def test_end_of_the_stream_in_the_middle_of_a_head_is_not_answered() -> None:
    server = engine()
    read(server, GET[:-1])
    assert read(server, b"") == [EndOfStream(0)]
    assert server.outbox.finished
    assert sent(server) == b""


def test_end_of_the_stream_in_the_middle_of_a_body_ends_the_connection() -> None:
    server = engine()
    head(server, post(b"hello")[:-1])
    server.read_body(10)
    assert server.events() == []
    assert read(server, b"") == [EndOfStream(1)]
    assert server.outbox.finished


def test_request_of_a_client_that_sends_no_more_is_answered() -> None:
    server = engine()
    head(server, GET)
    assert read(server, b"") == [EndOfStream(1)]
    assert not server.outbox.finished
    server.answer(200)
    assert b"Connection: close" in sent(server)
    assert server.outbox.finished


def test_requests_before_the_end_of_the_stream_are_all_answered() -> None:
    endpoint = Endpoint().feed(GET + GET + GET[:5], b"")
    assert endpoint.sent.count(b"200 OK") == 2
    assert endpoint.engine.outbox.finished


def test_end_of_the_stream_is_seen_behind_pipelined_requests() -> None:
    server = engine()
    head(server, GET + GET)
    assert read(server, b"") == [EndOfStream(1)]


# Faults


@pytest.mark.parametrize("how", ["PRI * HTTP/2.0", "GET / HTTP/2.0", "GET / HTTP/1.2", "GET / HTTP/0.9"])
def test_other_versions_are_answered_by_505(how: str) -> None:
    endpoint = Endpoint().feed(request(how))
    assert endpoint.failed is not None
    assert endpoint.failed.status == 505
    assert endpoint.sent.startswith(b"HTTP/1.1 505 HTTP Version Not Supported\r\n")


def test_upgrade_is_ignored() -> None:
    fields = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
    assert Endpoint().feed(request("GET / HTTP/1.1", *fields)).sent.startswith(b"HTTP/1.1 200 OK")


def test_fault_behind_a_request_waits_for_its_answer() -> None:
    server = engine()
    head(server, GET + b"nonsense\r\n")
    assert server.events() == []
    server.answer(200)
    (failed,) = server.events()
    assert isinstance(failed, Failed)
    assert b"400 Bad Request" in sent(server)


def test_fault_in_a_body_is_answered() -> None:
    server = engine()
    head(server, chunked(b"x").replace(b"1\r\nx", b"1;a=b\r\nx"))
    server.read_body(10)
    assert server.events() == [Failed(400, "a chunk has an extension; none is read here")]
    assert b"400 Bad Request" in sent(server)


def test_fault_in_a_body_that_is_dropped_is_not_answered_a_second_time() -> None:
    server = engine()
    head(server, post(b"x")[:-1])
    server.answer(401)
    sent(server)
    server.handle_timer(5.0)
    server.handle_timer(10.0)
    assert server.outbox.finished
    assert sent(server) == b""


# Time


def test_new_connection_without_a_request_is_let_go_in_silence() -> None:
    server = engine()
    server.handle_timer(5.0)
    assert not server.outbox.finished
    server.handle_timer(10.0)
    assert server.outbox.finished
    assert sent(server) == b""


def test_head_that_does_not_come_to_its_end_is_answered_by_408() -> None:
    server = engine()
    read(server, GET[:-1])
    server.handle_timer(10.0)
    assert server.events() == [Failed(408, "the head of the request comes too slowly")]
    assert sent(server).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_connection_without_another_request_is_let_go() -> None:
    server = Endpoint().feed(GET).engine
    for now in (5.0, 20.0, 35.0, 50.0, 65.0):
        assert server.next_timer() == now
        server.handle_timer(now)
        assert not server.outbox.finished
    server.handle_timer(80.0)
    assert server.outbox.finished


def test_body_that_comes_too_slowly_is_answered_by_408() -> None:
    server = engine()
    head(server, post(bytes(10_000))[:-9_000])
    server.read_body(10_000)
    server.events()
    server.handle_timer(5.0)
    read(server, bytes(2_500))
    server.handle_timer(10.0)
    assert not server.outbox.finished
    read(server, bytes(2_499))
    server.handle_timer(15.0)
    assert server.events() == [Failed(408, "the body of the request comes too slowly")]


def test_client_that_is_not_read_is_not_too_slow() -> None:
    server = engine()
    head(server, post(b"hello")[:-1])
    server.read_body(10)
    server.events()
    server.reading_paused = True
    for now in (5.0, 10.0, 100.0):
        server.handle_timer(now)
    server.reading_paused = False
    server.handle_timer(105.0)
    assert not server.outbox.finished


def test_client_that_waits_for_its_answer_needs_no_timer() -> None:
    server = engine()
    head(server, GET)
    assert server.next_timer() is None
    server.handle_timer(1_000.0)
    assert not server.outbox.finished
    server.answer(200)
    assert server.next_timer() == 1_005.0
