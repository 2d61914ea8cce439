"""What is no head is refused, with its first fault; wherever the bytes are cut."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triomq.protocols.http1 import Settings

from .wire import Endpoint, request

TOO_MANY = [f"X-{number}: y" for number in range(100)]

REFUSED = [
    # Lines
    (b"GET / HTTP/1.1\nHost: h\r\n\r\n", 400, "the request line ends with LF alone"),
    (b"GET / HTTP/1.1\r\nHost: h\n\r\n", 400, "a line of the head ends with LF alone"),
    (b"GET / HTTP/1.1\r\nHost: h\r\n\n", 400, "a line of the head ends with LF alone"),
    (b"GET / HTTP/1.1\r\nX: a\rb\r\nHost: h\r\n\r\n", 400, "a control character in its value"),
    (request("GET / HTTP/1.1", "X: y", " z"), 400, "folded"),
    (request("GET / HTTP/1.1", "X: y", "\tz"), 400, "folded"),
    (request("GET / HTTP/1.1", "X : y"), 400, "a space between the name"),
    (request("GET / HTTP/1.1", ": y"), 400, "no header field"),
    (request("GET / HTTP/1.1", "X"), 400, "no header field"),
    (request("GET / HTTP/1.1", "X(: y"), 400, "no header field"),
    (request("GET / HTTP/1.1", "X: a\0b"), 400, "a control character"),
    (request("GET / HTTP/1.1", "X: a\x1bb"), 400, "a control character"),
    (request("GET / HTTP/1.1", "X: a\x7fb"), 400, "a control character"),
    # The request line
    (request("GET  / HTTP/1.1"), 400, "does not begin with its method"),
    (request("GET /  HTTP/1.1"), 400, "does not begin with its method"),
    (request("GET / HTTP/1.1 "), 400, "does not begin with its method"),
    (request(" GET / HTTP/1.1"), 400, "does not begin with its method"),
    (request("GET /"), 400, "does not begin with its method"),
    (request("GET /a b HTTP/1.1"), 400, "does not begin with its method"),
    (request("GET /\x80 HTTP/1.1"), 400, "does not begin with its method"),
    (request("GET / http/1.1"), 400, "does not begin with its method"),
    (request("GET / HTTP/1.10"), 400, "does not begin with its method"),
    (request("GET /#x HTTP/1.1"), 400, "fragment"),
    (b"AMQP\x00\x00\x09\x01", 400, "does not begin with its method"),
    (b"\x16\x03\x01\x02\x00", 400, "does not begin with its method"),
    (b"{}", 400, "does not begin with its method"),
    # Targets
    (request("GET a HTTP/1.1"), 400, "the target is neither"),
    (request("GET * HTTP/1.1"), 400, "the target is neither"),
    (request("GET h:80 HTTP/1.1"), 400, "the target is neither"),
    (request("GET ftp://h/ HTTP/1.1"), 400, "the target is neither"),
    (request("GET http:///a HTTP/1.1"), 400, "the target is neither"),
    (request("GET http://user@h/ HTTP/1.1"), 400, "the target is neither"),
    (request("GET http://h\\/ HTTP/1.1"), 400, "the target is neither"),
    (request("CONNECT h:80 HTTP/1.1"), 501, "CONNECT"),
    # Host
    (request(host=False), 400, "there is no Host"),
    (request("GET / HTTP/1.1", "Host: h"), 400, "host is there more than once"),
    (request("GET / HTTP/1.1", "Host: a/b", host=False), 400, "Host is not a name"),
    (request("GET / HTTP/1.1", "Host: a b", host=False), 400, "Host is not a name"),
    (request("GET / HTTP/1.1", "Host: a, b", host=False), 400, "Host is not a name"),
    (request("GET / HTTP/1.1", "Host: u@h", host=False), 400, "Host is not a name"),
    # The body's end
    (request("POST / HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"), 400, "both there"),
    (request("POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 1"), 400, "more than once"),
    (request("POST / HTTP/1.1", "Content-Length: 1, 1"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: +1"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: -1"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: 0x1"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: 1_0"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: \xb9"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length:"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Content-Length: 1" + 15 * "0"), 400, "not a number"),
    (request("POST / HTTP/1.1", "Transfer-Encoding: gzip"), 501, "not chunked alone"),
    (request("POST / HTTP/1.1", "Transfer-Encoding: gzip, chunked"), 501, "not chunked alone"),
    (request("POST / HTTP/1.1", "Transfer-Encoding: chunked, chunked"), 501, "not chunked alone"),
    (request("POST / HTTP/1.1", "Transfer-Encoding: chunked;a=b"), 501, "not chunked alone"),
    (request("POST / HTTP/1.1", "Transfer-Encoding: \x0bchunked"), 400, "a control character"),
    (request("POST / HTTP/1.1", "Transfer-Encoding:"), 501, "not chunked alone"),
    (request("POST / HTTP/1.1", *2 * ["Transfer-Encoding: chunked"]), 400, "more than once"),
    (request("POST / HTTP/1.0", "Transfer-Encoding: chunked"), 400, "HTTP/1.0 knows no Transfer-Encoding"),
    # What can be read in two ways
    (request("GET / HTTP/1.1", "Authorization: a", "authorization: b"), 400, "more than once"),
    (request("POST / HTTP/1.1", "Content-Type: a/b", "Content-Type: c/d"), 400, "more than once"),
    # Limits
    (request(f"GET /{8_180 * 'a'} HTTP/1.1"), 414, "the request line has more than 8192 bytes"),
    (request("GET / HTTP/1.1", f"X: {16_400 * 'a'}"), 431, "the head has more than 16384 bytes"),
    (request("GET / HTTP/1.1", *TOO_MANY), 431, "the head has more than 100 header fields"),
]


@pytest.mark.parametrize(("data", "status", "text"), REFUSED)
def test_head_that_is_none_is_refused_wherever_it_is_cut(data: bytes, status: int, text: str) -> None:
    whole = Endpoint().feed(data)
    assert whole.failed is not None
    assert whole.failed.status == status
    assert text in whole.failed.text
    assert not whole.heads
    assert whole.sent.startswith(b"HTTP/1.1 %d " % status)
    assert whole.engine.outbox.finished
    step = 1 if len(data) < 1_000 else 97
    for size in (1, 3) if step == 1 else (step,):
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert Endpoint().feed(*pieces).found == whole.found


@pytest.mark.parametrize(
    "line", ["GET / HTTP/1.1", "GET / HTTP/1.0", "FOO / HTTP/1.1", "OPTIONS * HTTP/1.1", "M-SEARCH /*?x HTTP/1.1"]
)
def test_any_method_is_the_endpoints_business(line: str) -> None:
    assert Endpoint().feed(request(line)).failed is None


@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        ("http://other", "other", "/", ""),
        ("http://other/a?b?c", "other", "/a", "b?c"),
        ("HTTPS://[::1]:80/a", "[::1]:80", "/a", ""),
        ("http://other?x", "other", "/", "x"),
        ("/a?b", "h", "/a", "b"),
        ("//a", "h", "//a", ""),
    ],
)
def test_host_is_the_targets_where_that_has_one(target: str, host: str, path: str, query: str) -> None:
    (head,) = Endpoint().feed(request(f"GET {target} HTTP/1.1")).heads
    assert (head.headers["host"], head.path, head.query) == (host, path, query)


def test_http_1_0_needs_no_host() -> None:
    assert len(Endpoint().feed(request("GET / HTTP/1.0", host=False)).heads) == 1


@pytest.mark.parametrize("host", ["", "h", "h:80", "h:", "127.0.0.1", "[::1]", "[::1]:80", "a_b.c-d"])
def test_host_may_be_a_name_or_an_address(host: str) -> None:
    assert Endpoint().feed(request("GET / HTTP/1.1", f"Host: {host}", host=False)).failed is None


def test_cookies_are_joined_by_semicolons() -> None:
    (head,) = Endpoint().feed(request("GET / HTTP/1.1", "Cookie: a=1", "Cookie: b=2")).heads
    assert head.headers["cookie"] == "a=1; b=2"


def test_clients_that_offer_codings_are_served() -> None:
    fields = ("TE: deflate,gzip;q=0.3", "Connection: TE, close", "Content-Type:")  # libwww-perl
    (head,) = Endpoint().feed(request("POST / HTTP/1.1", *fields)).heads
    assert (head.headers["te"], head.headers["content-type"], head.length) == ("deflate,gzip;q=0.3", "", 0)


def test_limits_are_the_largest_that_pass() -> None:
    settings = Settings(max_line=64, max_head=96, max_fields=3)
    line = f"GET /{(64 - 16) * 'a'} HTTP/1.1"
    assert len(line) == 62
    data = request(line, "X: y", f"Y: {(96 - 64 - 9 - 6 - 7) * 'b'}")
    assert len(data) == 96
    assert Endpoint(settings).feed(data).failed is None
    for longer in (data.replace(b"a ", b"aa "), data.replace(b"b\r", b"bb\r"), data.replace(b"X: y", b"X:y\r\nZ:")):
        assert Endpoint(settings).feed(longer).failed is not None


LINES = ["POST /a HTTP/1.1", "POST /b?c HTTP/1.1", "POST /a HTTP/1.0", "POST http://o/ HTTP/1.1", "POST /a#b HTTP/1.1"]
LENGTHS = ["0", "1", "01", "17", "", " 1", "1 ", "+1", "1, 1", "0x1", 16 * "0", "\xb9"]
AROUND = [
    "Host: h",
    "host: i",
    "X: Content-Length: 1",
    "content-length: 1",
    "Transfer-Encoding: chunked",
    "Connection: close",
]

heads = st.tuples(
    st.sampled_from(LINES),
    st.lists(st.sampled_from(AROUND), max_size=2),
    st.none() | st.sampled_from(LENGTHS),
    st.lists(st.sampled_from(AROUND), max_size=2),
)


def head_of(line: str, above: list[str], length: str | None, below: list[str]) -> bytes:
    return request(line, *above, *([] if length is None else [f"Content-Length: {length}"]), *below, host=False)


@given(heads, st.sampled_from(LINES), st.none() | st.sampled_from(LENGTHS))
@example(("POST /a HTTP/1.1", ["Host: h"], "1", []), "POST /a HTTP/1.1", "")
@example(("POST http://o/ HTTP/1.1", ["Host: h"], None, []), "POST /a HTTP/1.1", None)
def test_head_with_the_fields_of_the_one_before_means_the_same_as_alone(
    first: tuple[str, list[str], str | None, list[str]], line: str, length: str | None
) -> None:
    _, above, _, below = first
    second = head_of(line, above, length, below)
    alone, behind = Endpoint().feed(second), Endpoint().feed(head_of(*first))
    if behind.failed is None and behind.heads[0].keep_alive:
        size = behind.heads[0].length
        behind.feed((b"0\r\n\r\n" if size is None else bytes(size)) + second)
        assert (behind.found[0][1:], behind.failed) == (alone.found[0], alone.failed)
        assert [head.keep_alive for head in behind.heads[1:]] == [head.keep_alive for head in alone.heads]


@pytest.mark.parametrize(("max_line", "status"), [(64, 414), (96, 431)])
def test_limits_hold_for_heads_with_the_fields_of_the_one_before(max_line: int, status: int) -> None:
    longest = request(f"GET /{48 * 'a'} HTTP/1.1", f"X: {16 * 'x'}")
    assert len(longest) == 96
    shorter, longer = (longest.replace(b" /a", start) for start in (b" /", b" /aa"))
    found = Endpoint(Settings(max_line=max_line, max_head=96)).feed(shorter, longest, longer)
    assert len(found.heads) == 2
    assert found.failed is not None
    assert found.failed.status == status
