"""What another parser refuses is refused here, and what is accepted means the same to all; wherever it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracles import Found, Verdict, by_h11, by_llhttp, by_us
from .wire import Endpoint, cuts, request

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"]
TARGETS = [
    *("/", "/a?b", "/a%20b", "//x", "/a|b", "http://h/", "http://h", "*"),
    *("a", "/a#b", "h:80", "http://u@h/", "/\xff"),
]
VERSIONS = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "http/1.1", "HTTP/0.9"]
FIELDS = [
    *("Content-Length: 2", "Content-Length: 02", "Content-Length: 0", "Content-Length: 2, 2", "Content-Length: +2"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: Chunked", "Transfer-Encoding: gzip, chunked"),
    *("Transfer-Encoding: identity", "Host: h", "Host:", "Connection: close", "Connection: Upgrade", "Upgrade: h2c"),
    *("X: y", "X:", "X : y", " X: y", "X: \xe9", "X: a\tb", "X-\xe9: a", ":x", "x: a, b", "Cookie: a=1"),
    *("Expect: 100-continue", "TE: deflate,gzip;q=0.3", "Content-Type: text/xml", "Authorization: Basic abc"),
]
BODIES = [
    *(b"", b"ab", b"2\r\nab\r\n0\r\n\r\n", b"2;x=y\r\nab\r\n0\r\n\r\n", b"2\nab\n0\n\n", b"0\r\n\r\n"),
    *(b"1\r\na\r\n1\r\nb\r\n0\r\nX: y\r\n\r\n", b"02\r\nab\r\n0\r\n\r\n", b"2 \r\nab\r\n0\r\n\r\n"),
    b"A\r\n0123456789\r\n00\r\n\r\n",
]
NOISE = [b"\r", b"\n", b"\r\n", b"\r\n ", *(bytes([octet]) for octet in b" \t\0:,;\x01\x0b\x7f\x80\x85\xa00a#/")]

mostly_first = st.sampled_from([0, 0, 0, 1])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Requests that are mostly in order, with a fault here and there."""
    target = TARGETS[0] if draw(mostly_first) == 0 else draw(st.sampled_from(TARGETS))
    version = VERSIONS[0] if draw(mostly_first) == 0 else draw(st.sampled_from(VERSIONS))
    fields = draw(st.lists(st.sampled_from(FIELDS), max_size=3))
    data = request(f"{draw(st.sampled_from(METHODS))} {target} {version}", *fields, body=draw(st.sampled_from(BODIES)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.sampled_from([b"", *NOISE])) + data[at + draw(st.integers(0, 1)) :]
    return data


places = st.lists(st.integers(0, 300), max_size=3)


def comparable(verdict: Verdict) -> Verdict:
    """Pass over what differs by design: see ``docs/topics/http.rst``."""
    if isinstance(verdict, str):
        return verdict
    headers = {name: value.lower() if name == "transfer-encoding" else value for name, value in verdict.headers.items()}
    if verdict.target.lower().startswith("http"):
        headers["host"] = ""  # it is the target's
    return verdict._replace(headers=headers)


@given(requests(), places)
def test_requests_are_the_same_wherever_they_are_cut(data: bytes, at: list[int]) -> None:
    assert Endpoint().feed(*cuts(data, at)).found == Endpoint().feed(data).found
    pieces = Endpoint(pieces=True).feed(*cuts(data, at))
    assert pieces.found[:2] == Endpoint(pieces=True).feed(data).found[:2]


@given(requests(), places)
def test_request_that_is_accepted_is_the_same_to_h11(data: bytes, at: list[int]) -> None:
    ours = by_us(data, at)
    if isinstance(ours, Found):
        assert comparable(by_h11(data, at)) == comparable(ours)


@given(requests(), places)
def test_request_that_is_accepted_is_the_same_to_llhttp(data: bytes, at: list[int]) -> None:
    ours = by_us(data, at)
    if isinstance(ours, Found) and ours.method in METHODS:  # llhttp has a list of methods
        assert comparable(by_llhttp(data, at)) == comparable(ours)


@pytest.mark.parametrize("parser", [by_us, by_h11, by_llhttp])
def test_parsers_agree_on_what_is_in_order(parser: object) -> None:
    for data in (request("GET /a?b HTTP/1.1", "X: y"), request("POST / HTTP/1.1", "Content-Length: 2", body=b"ab")):
        assert isinstance(parser(data, [7]), Found)  # type: ignore[operator]  # one of three functions


# The table of differences in ``docs/topics/http.rst``

CHUNKED = ("POST / HTTP/1.1", "Transfer-Encoding: chunked")
DIFFERENCES = [
    ("lines that end with LF alone", b"GET / HTTP/1.1\nHost: h\n\n", "refused", "accepted", "refused"),
    ("folded fields", request("GET / HTTP/1.1", "X: y", " z"), "refused", "accepted", "refused"),
    (
        "Content-Length beside chunks",
        request(*CHUNKED, "Content-Length: 2", body=b"0\r\n\r\n"),
        *("refused", "accepted", "refused"),
    ),
    (
        "the same Content-Length twice",
        request("POST / HTTP/1.1", "Content-Length: 2", "Content-Length: 2", body=b"ab"),
        *("refused", "accepted", "refused"),
    ),
    ("extensions of chunks", request(*CHUNKED, body=b"1;x=y\r\na\r\n0\r\n\r\n"), "refused", "accepted", "accepted"),
    (
        "spaces behind a chunk's size",
        request(*CHUNKED, body=b"1 \r\na\r\n0\r\n\r\n"),
        "refused",
        "accepted",
        "refused",
    ),
    ("control characters in a value", request("GET / HTTP/1.1", "X: a\x01b"), "refused", "accepted", "refused"),
    ("HTTP/2.0 in the request line", request("GET / HTTP/2.0"), "refused", "accepted", "accepted"),
    ("a fragment in the target", request("GET /a#b HTTP/1.1"), "refused", "accepted", "accepted"),
    ("a target that is no path", request("GET a HTTP/1.1"), "refused", "accepted", "refused"),
    ("no Host", request(host=False), "refused", "refused", "accepted"),
    ("a second Host", request("GET / HTTP/1.1", "Host: i"), "refused", "refused", "accepted"),
    ("a second Authorization", request("GET / HTTP/1.1", *2 * ["Authorization: a"]), "refused", "accepted", "accepted"),
    ("two spaces in the request line", request("GET  / HTTP/1.1"), "refused", "refused", "accepted"),
    (
        "gzip, chunked",
        request("POST / HTTP/1.1", "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
        *("refused", "refused", "accepted"),
    ),
    ("a blank line before a request", b"\r\n" + request(), "accepted", "refused", "accepted"),
    ("a method of one's own", request("FOO / HTTP/1.1"), "accepted", "accepted", "refused"),
]


@pytest.mark.parametrize(("what", "data", "us", "h11", "llhttp"), DIFFERENCES, ids=[row[0] for row in DIFFERENCES])
def test_parsers_differ_as_the_documentation_says(what: str, data: bytes, us: str, h11: str, llhttp: str) -> None:
    verdicts = (parser(data, []) for parser in (by_us, by_h11, by_llhttp))
    assert [verdict if verdict == "refused" else "accepted" for verdict in verdicts] == [us, h11, llhttp]
