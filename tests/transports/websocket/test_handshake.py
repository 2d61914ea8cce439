"""The opening handshake as bytes: what is accepted, what is refused and how, whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.websocket_words import BINARY, KEY, TOKEN, frame, request
from triomq.transports import WebSocket
from triomq.transports.websocket import ClientHandshake, ServerHandshake
from triomq.transports.websocket.handshake import Answer


def answer(*data: bytes, config: WebSocket | None = None, subprotocols: tuple[str, ...] = ("amqp",)) -> Answer | None:
    handshake = ServerHandshake(config or WebSocket(), subprotocols)
    found: Answer | None = None
    for piece in data:
        assert found is None, "it went on behind its answer"
        found = handshake.receive(piece)
    return found


def answered(*data: bytes, config: WebSocket | None = None) -> Answer:
    found = answer(*data, config=config)
    assert found is not None
    return found


def head_of(found: Answer) -> list[str]:
    return found.reply.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def test_request_is_answered_with_the_token_of_its_key() -> None:
    found = answered(request())
    assert head_of(found) == [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {TOKEN}",
    ]
    assert (found.refusal, found.rest) == ("", b"")


@given(st.integers(0, len(request())))
def test_request_may_come_in_pieces(place: int) -> None:
    whole = request()
    pieces = [piece for piece in (whole[:place], whole[place:]) if piece]
    assert answered(*pieces).refusal == ""


def test_what_comes_behind_the_request_is_kept() -> None:
    assert answered(request() + b"\x82\x80abcd").rest == b"\x82\x80abcd"


def test_request_of_a_browser_is_accepted_without_its_compression() -> None:
    found = answered(
        request(
            "Connection: keep-alive, Upgrade",
            "Origin: https://example.org",
            "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
            "Cookie: a=b",
            target="/?token=1",
            without="Connection",
        ),
        config=WebSocket(allow_origins=("https://example.org",)),
    )
    assert found.refusal == ""
    assert b"xtensions" not in found.reply


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("amqp",), "amqp"),
        (("mqtt, amqp",), "amqp"),
        (("mqtt", "amqp"), "amqp"),
        (("mqtt",), None),
        (("AMQP",), None),  # names of subprotocols are told apart by case
    ],
)
def test_subprotocol_is_named_where_it_was_asked_for(offered: tuple[str, ...], chosen: str | None) -> None:
    found = answered(request(*(f"Sec-WebSocket-Protocol: {names}" for names in offered)))
    lines = [line for line in head_of(found) if line.startswith("Sec-WebSocket-Protocol")]
    assert lines == ([] if chosen is None else [f"Sec-WebSocket-Protocol: {chosen}"])


BAD = {
    "no HTTP": (b"AMQP\0\0\x09\x01\r\n\r\n", 400, "expected an HTTP/1.1 request"),
    "HTTP/1.0": (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "HTTP/1.1 without a body"),
    "no Host": (request(without="Host"), 400, "Host"),
    "a body": (request("Content-Length: 3") + b"abc", 400, "without a body"),
    "chunks": (request("Transfer-Encoding: chunked"), 400, "without a body"),
    "POST": (request(method="POST"), 405, "begins with a GET"),
    "another path": (request(target="/other"), 404, "nothing but WebSocket at /"),
    "a page": (request(without="Connection"), 426, "this port speaks WebSocket"),
    "no upgrade": (request(without="Upgrade"), 426, "this port speaks WebSocket"),
    "another upgrade": (request("Upgrade: h2c", without="Upgrade"), 426, "this port speaks WebSocket"),
    "an old version": (
        request("Sec-WebSocket-Version: 8", without="Sec-WebSocket-Version"), 426, "found version 8",
    ),
    "no version": (request(without="Sec-WebSocket-Version"), 426, "found version none"),
    "no key": (request(without="Sec-WebSocket-Key"), 400, "16 octets in base64"),
    "two keys": (request(f"Sec-WebSocket-Key: {KEY}"), 400, "16 octets in base64"),
    "a short key": (request("Sec-WebSocket-Key: YWJj", without="Sec-WebSocket-Key"), 400, "16 octets in base64"),
    "a key of other signs": (request("Sec-WebSocket-Key: \xe9\xe9", without="Sec-WebSocket-Key"), 400, "base64"),
    "a page of another origin": (request("Origin: https://evil.example"), 403, "pages of https://evil.example may not"),
    "a file": (request("Origin: null"), 403, "pages of null may not"),
    "a long head": (request("Cookie: " + "c" * 20_000), 431, "expected an HTTP/1.1 request"),
    "an endless head": (request("Cookie: " + "c" * 20_000)[:18_000], 431, "expected an HTTP/1.1 request"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_request_is_refused_with_a_status_and_a_text(name: str) -> None:
    data, status, text = BAD[name]
    found = answered(data)
    head, _, body = found.reply.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert text in body.decode()
    assert body.endswith(b"\n")
    assert fields["Content-Length"] == str(len(body))
    assert fields["Connection"] in ("close", "Upgrade")
    assert found.refusal.startswith(f"{status}, ")


def test_refusals_say_what_would_be_right() -> None:
    assert "Upgrade: websocket" in head_of(answered(request(without="Upgrade")))
    assert "Sec-WebSocket-Version: 13" in head_of(answered(request(without="Sec-WebSocket-Version")))
    assert "Allow: GET" in head_of(answered(request(method="PUT")))


@pytest.mark.parametrize(
    ("allowed", "origin", "accepted"),
    [
        ((), None, True),
        ((), "https://example.org", False),
        (("https://example.org",), "https://example.org", True),
        (("https://example.org",), "http://example.org", False),
        (("https://example.org",), "https://example.org.evil.example", False),
        (("https://example.org", "http://localhost:8000"), "http://localhost:8000", True),
        (("*",), "https://any.example", True),
        (("*",), "null", True),
    ],
)
def test_page_connects_if_its_origin_is_allowed(allowed: tuple[str, ...], origin: str | None, accepted: bool) -> None:
    fields = [] if origin is None else [f"Origin: {origin}"]
    found = answered(request(*fields), config=WebSocket(allow_origins=allowed))
    assert (found.refusal == "") is accepted


def test_path_is_the_configured_one() -> None:
    config = WebSocket(path="/amqp")
    assert answered(request(target="/amqp"), config=config).refusal == ""
    assert answered(request(target="/"), config=config).refusal.startswith("404")


def test_client_and_server_agree() -> None:
    client = ClientHandshake("localhost:15670", "/amqp", "amqp")
    server = answered(client.request + frame(BINARY, b"early"), config=WebSocket(path="/amqp"))
    assert (server.refusal, server.rest) == ("", frame(BINARY, b"early"))
    half = len(server.reply) // 2
    assert client.receive(server.reply[:half]) is None
    assert client.receive(server.reply[half:] + b"\x82\0") == Answer(rest=b"\x82\0")


GOOD_ANSWER = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"AMQP\0\0\x09\x01\r\n\r\n", "illegal status line"),
        (b"", "it hung up"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nnot here", "404 Not Found, not here"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 40_000, "200 OK, xxx"),
        (GOOD_ANSWER.encode() + b"\r\n", "does not accept the key"),
        (GOOD_ANSWER.encode() + f"Sec-WebSocket-Accept: {TOKEN}\r\n\r\n".encode(), "does not accept the key"),
        (GOOD_ANSWER.replace("websocket", "h2c").encode() + b"\r\n", "does not upgrade"),
        (b"HTTP/1.1 101 x\r\nCookie: " + b"c" * 20_000, "too long"),
    ],
)
def test_client_says_what_is_wrong_with_an_answer(answer: bytes, fault: str) -> None:
    found = ClientHandshake("localhost", "/", "amqp").receive(answer)
    assert found is not None
    assert fault in found.refusal


@pytest.mark.parametrize(
    ("field", "fault"),
    [("Sec-WebSocket-Protocol: mqtt", "another subprotocol"), ("Sec-WebSocket-Extensions: x", "an extension")],
)
def test_client_takes_nothing_that_it_has_not_asked_for(field: str, fault: str) -> None:
    client = ClientHandshake("localhost", "/", "amqp")
    found = client.receive(answered(client.request).reply.replace(b"Sec-WebSocket-Protocol: amqp", field.encode()))
    assert found is not None
    assert fault in found.refusal


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    found = answer(data)
    assert found is None or found.refusal


@given(st.data())
def test_no_damaged_request_raises(data: st.DataObject) -> None:
    whole = bytearray(request("Sec-WebSocket-Protocol: amqp", "Origin: http://a"))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=5)):
        whole[place] = data.draw(st.integers(0, 255))
    answer(bytes(whole))


@given(st.binary(max_size=200))
def test_no_answer_raises(data: bytes) -> None:
    found = ClientHandshake("localhost", "/", "amqp").receive(data)
    assert found is None or found.refusal


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "amqp"}, "path: found 'amqp'"),
        ({"path": "/a?b"}, "path: found '/a?b'"),
        ({"allow_origins": ("example.org",)}, "allow_origins: found 'example.org'"),
        ({"allow_origins": ("https://example.org/",)}, "allow_origins: found 'https://example.org/'"),
        ({"allow_origins": ("https://Example.org",)}, "allow_origins: found 'https://Example.org'"),
        ({"max_frame_size": 10}, "max_frame_size"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(Exception, match=said.replace("?", r"\?")):
        WebSocket(**options)  # type: ignore[arg-type]
