"""Headers: names and numbers with commas between them, and what else has been found in their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import NO_HEADERS, Headers, make_headers, parse_headers
from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.headers import LONGEST


def test_headers_stand_in_the_order_of_the_released_client() -> None:
    headers = make_headers(timeout=5, retry_count=2, guarantee=True, reply_requested=True)
    assert headers.frame == b"reply-requested,guarantee,retry-count:2,timeout:5"
    assert make_headers(nohaste=True, run_count=3).frame == b"nohaste,run_count:3"


def test_no_headers_are_an_empty_frame() -> None:
    assert make_headers() is NO_HEADERS
    assert parse_headers(b"") is NO_HEADERS
    assert Headers() == NO_HEADERS
    assert NO_HEADERS.frame == b""


@given(
    st.builds(
        make_headers,
        reply_requested=st.booleans(),
        guarantee=st.booleans(),
        retry_count=st.integers(0, 2**31 - 1),
        timeout=st.integers(0, 2**31 - 1),
        nohaste=st.booleans(),
        run_count=st.integers(0, 2**31 - 1),
    )
)
def test_headers_come_back_as_they_were(headers: Headers) -> None:
    assert parse_headers(headers.frame) == headers
    assert headers.replying().reply_requested
    assert parse_headers(headers.replying().frame) == headers.replying()


def test_reply_can_be_asked_for_on_the_way_to_a_worker() -> None:
    assert make_headers(guarantee=True).replying().frame == b"reply-requested,guarantee"
    assert NO_HEADERS.replying().frame == b"reply-requested"
    asked = make_headers(reply_requested=True)
    assert asked.replying() is asked


@pytest.mark.parametrize(
    ("frame", "headers"),
    [
        (b" guarantee , timeout: 7 ,,", make_headers(guarantee=True, timeout=7)),
        (b"{}", NO_HEADERS),
        (b"[]", NO_HEADERS),
        (b'["guarantee", "timeout:7"]', make_headers(guarantee=True, timeout=7)),
        (b'{"guarantee": true, "nohaste": false, "timeout": 7}', make_headers(guarantee=True, timeout=7)),
    ],
)
def test_other_spellings_are_read_and_written_as_a_list(frame: bytes, headers: Headers) -> None:
    assert parse_headers(frame) == headers


def test_unknown_headers_are_carried() -> None:
    headers = parse_headers(b"colour:red,guarantee,x")
    assert headers.guarantee
    assert headers.frame == b"colour:red,guarantee,x"


def test_timeout_goes_on_in_whole_seconds() -> None:
    headers = parse_headers(b"timeout:0.25")
    assert (headers.timeout, headers.frame) == (0.25, b"timeout:1")
    assert make_headers(timeout=2.5).frame == b"timeout:3"


@pytest.mark.parametrize(
    "frame",
    [
        b"timeout:abc",
        b"timeout:",
        b"timeout:-1",
        b"timeout:1e3",
        b"timeout:99999999999",
        b"timeout:\xd9\xa3",  # a digit, but none that a released worker reads
        b"retry-count:1.5",
        b"run_count:many",
        b'{"timeout": "soon"}',
        b'{"guarantee": [1]}',
        b"[1",
        b"[" * 4000,
        b"\xff",
        b"x" * (LONGEST + 1),
    ],
)
def test_wrong_headers_are_refused(frame: bytes) -> None:
    with pytest.raises(PeerError):
        parse_headers(frame)


@pytest.mark.parametrize("name", [b"x-timeout:abc", b"no-reply-requested", b"x:nohaste", b"my-run_count:x", b"timeout"])
def test_header_that_released_workers_would_misread_is_refused(name: bytes) -> None:
    if name == b"timeout":
        assert parse_headers(name).timeout == 0  # it needs the colon to be misread
        return
    with pytest.raises(PeerError, match="would take it for another"):
        parse_headers(b"guarantee," + name)


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_any_frame_is_headers_or_refused(frame: bytes) -> None:
    try:
        headers = parse_headers(frame)
    except PeerError:
        return
    assert parse_headers(headers.frame) == headers or headers.timeout % 1 or headers.interval % 1
    headers.frame.decode()


@pytest.mark.parametrize(
    "wrong", [{"timeout": -1}, {"timeout": float("nan")}, {"retry_count": -1}, {"run_count": 2**31}]
)
def test_number_that_cannot_be_written_is_a_mistake(wrong: dict[str, int]) -> None:
    with pytest.raises(LocalProtocolError, match="must be from 0"):
        make_headers(**wrong)  # type: ignore[arg-type]
