"""Messages of the control flow, as others write them and as we do."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.mtl.wire import MESSAGES, OPEN
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import STATUSES, FaultReason, Frames, is_data
from triomq.protocols.mtl.requests import MTLRequest, WireFault, read_reply, read_request, reply_frames, request_frames

OPENED = {"protocol": {"name": "MTL", "version": 1}, "virtual-host": "test-env"}


@pytest.mark.parametrize(
    "envelope",
    [(), (b"",), (b"\0\0\0\x07", b""), (b"proxy", b"\0\0\0\x07", b""), (*tuple(b"1234567"), b"")],
    ids=["DEALER", "REQ", "REQ_CORRELATE", "a proxy between", "eight frames"],
)
def test_envelope_is_mirrored_whatever_client_it_is_of(envelope: tuple[Any, ...]) -> None:
    frames = tuple(bytes((each,)) if isinstance(each, int) else each for each in envelope)
    request = read_request((*frames, b"Connection.Open", OPEN), 1000)
    assert request == MTLRequest(frames, "connection.open", OPENED)
    assert reply_frames(200, {}, request.envelope) == (*frames, b"200", b'{"status":"OK"}')


def test_reply_stands_as_the_specification_writes_it() -> None:
    code, body = reply_frames(201, {"profiles": ["test"]})
    assert (code, body) == (b"201", b'{"status":"Ready","profiles":["test"]}')


def test_reply_keeps_its_status_whatever_a_profile_says() -> None:
    assert read_reply(reply_frames(200, {"status": "lost", "messages": 3}), 1000).fields == {
        "status": "OK",
        "messages": 3,
    }


def test_names_are_compared_without_case() -> None:
    assert read_request((b"CONNECTION.oPEN", b"{}"), 1000).command == "connection.open"


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


NO_REQUESTS: list[tuple[Frames, FaultReason]] = [
    ((b"",), "frames"),
    ((b"Connection.Open",), "frames"),
    ((b"a", b"b", b"c"), "frames"),
    ((b"", b"Connection.Open", b"{}", b""), "frames"),
    ((b"x",) * 8 + (b"", b"Connection.Open", b"{}"), "envelope"),
    ((b"x",) * 40, "envelope"),
    ((b"", b"", b"{}"), "name"),
    ((b"N" * 256, b"{}"), "name"),
    (("Naïve".encode(), b"{}"), "name"),
    ((b"Connection.Open", b""), "json"),
    ((b"Connection.Open", b"null"), "json"),
    ((b"Connection.Open", b"[]"), "json"),
    ((b"Connection.Open", b'{"a": \xff}'), "json"),
    ((b"Connection.Open", b'{"a": "\xff"}'), "json"),
    ((b"Connection.Open", b'{"a": NaN}'), "json"),
    ((b"Connection.Open", b'{"a": Infinity}'), "json"),
    ((b"Connection.Open", b'{"a": 1e999}'), "json"),
    ((b"Connection.Open", deep(33)), "json"),
    ((b"Connection.Open", b'{"a":' + b"[" * 480), "json"),
    ((b"Connection.Open", b'{"a":' + b"[" * 100_000), "too-long"),
    ((b"Connection.Open", b'{"a": "' + b"x" * 1000 + b'"}'), "too-long"),
]
"""Messages that are dropped, and why."""


@pytest.mark.parametrize(("frames", "reason"), NO_REQUESTS)
def test_ill_formed_request_is_named(frames: Frames, reason: FaultReason) -> None:
    with pytest.raises(WireFault, match=reason):
        read_request(frames, 1000)


def test_two_frames_have_no_envelope() -> None:
    with pytest.raises(WireFault, match="json"):
        read_request((b"a", b""), 1000)
    with pytest.raises(WireFault, match="name"):
        read_request((b"", b"Connection.Open"), 1000)


def test_body_may_nest_as_deep_as_allowed() -> None:
    assert read_request((b"Connection.Open", deep(32)), 1000).command == "connection.open"


@pytest.mark.parametrize("code", [b"", b"20", b"2000", b"100", b"600", b"2x0", "２００".encode()])
def test_code_of_a_reply_is_three_digits(code: bytes) -> None:
    with pytest.raises(WireFault, match="code"):
        read_reply((b"", code, b"{}"), 1000)


def test_reply_that_cannot_be_written_is_our_own_mistake() -> None:
    for fields in ({"a": object()}, {"a": {1.5: 1, (1, 2): 3}}):
        with pytest.raises(LocalProtocolError, match="JSON"):
            reply_frames(200, fields)
    with pytest.raises(LocalProtocolError, match="no code"):
        reply_frames(299, {})
    for name in ("", "N" * 256, "Naïve"):
        with pytest.raises(LocalProtocolError, match="letters of ASCII"):
            request_frames(name, {})


@pytest.mark.parametrize("frames", MESSAGES.values(), ids=MESSAGES)
def test_data_is_told_from_control_on_a_shared_socket(frames: Frames) -> None:
    assert is_data(frames)
    assert not is_data((b"", *frames))


def test_control_is_told_from_data_on_a_shared_socket() -> None:
    for frames in [
        (b"Connection.Open", OPEN),
        (b"", b"Connection.Open", OPEN),
        (b"", b""),
        (b"\x01",),
        (),
        (b"\x0a", b""),
    ]:
        assert not is_data(frames)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=4)
envelopes = st.just(()) | st.lists(st.binary(min_size=1, max_size=4), max_size=7).map(lambda frames: (*frames, b""))


@given(envelopes, st.text("abcXYZ.-09", min_size=1), objects)
def test_what_is_written_is_read_again(envelope: Frames, name: str, fields: dict[str, Any]) -> None:
    frames = request_frames(name, fields, envelope)
    assert read_request(frames, 1 << 16) == MTLRequest(envelope, name.lower(), fields)


@given(envelopes, st.sampled_from(sorted(STATUSES)), objects)
def test_reply_that_is_written_is_read_again(envelope: Frames, code: int, fields: dict[str, Any]) -> None:
    reply = read_reply(reply_frames(code, fields, envelope), 1 << 16)
    assert (reply.envelope, reply.code, reply.fields) == (envelope, code, fields | {"status": STATUSES[code]})


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"", b"{}", b"200", b"Connection.Open"]), max_size=12))
def test_any_frames_are_a_message_or_a_fault(frames: list[bytes]) -> None:
    for read in (read_request, read_reply):
        try:
            found = read(frames, 1000)  # type: ignore[operator]
        except WireFault:
            continue
        assert msgspec.json.encode(found.fields if hasattr(found, "fields") else found.arguments)
