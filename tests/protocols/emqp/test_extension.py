"""The extension frame."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.emqp import NO_EXTENSION, Extension, decode_extension, encode_extension
from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.extension import LONGEST_PASSED_ON

WHOLE = Extension(
    capabilities=("jobs",), name="w", running=(("a", 1),), priority=0, delay=5, deadline=0, attempt=1,
    parent=("p", 2), unique="u", key="k", limit=1, rate=0.5, trace="00-1", keep=9, stream=True, tie=True,
    timezone="Europe/Oslo", missed="skip", state="failed", type="E", message="m", traceback="t", retry=False,
    duplicate_of="d", timeout=7, retries=2, backoff=(1, 2), number=3, item=True, grace=0, tree=True, follow=True,
    result=True,
)  # fmt: skip


def test_extension_comes_back_as_it_was() -> None:
    assert decode_extension(encode_extension(WHOLE)) == WHOLE
    assert encode_extension(NO_EXTENSION) == b'{"v":1}'
    assert encode_extension(Extension(priority=0, attempt=2)) == b'{"v":1,"priority":0,"attempt":2}'


def test_unknown_names_are_passed_over() -> None:
    assert decode_extension(b'{"v": 1, "key": "k", "colour": {"a": []}}') == Extension(key="k")
    assert decode_extension(b"{}") == NO_EXTENSION


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"[" * 50_000,
        b'{"v": 2}',
        b'{"v": "1"}',
        b'{"v": 1, "attempt": "2"}',
        b'{"v": 1, "priority": 1.5}',
        b'{"v": 1, "priority": 10}',
        b'{"v": 1, "delay": -1}',
        b'{"v": 1, "deadline": 10000000000000}',
        b'{"v": 1, "attempt": 2147483648}',
        b'{"v": 1, "rate": -0.5}',
        b'{"v": 1, "rate": 1e300}',
        b'{"v": 1, "backoff": [1]}',
        b'{"v": 1, "grace": null, "unique": "' + b"x" * 256 + b'"}',
        b'{"v": 1, "parent": ["p"]}',
        b'{"v": 1, "key": "' + b"x" * LONGEST_PASSED_ON + b'"}',
    ],
)
def test_frame_that_is_none_is_refused(frame: bytes) -> None:
    with pytest.raises(PeerError):
        decode_extension(frame)


@given(st.binary(max_size=50))
def test_any_frame_is_an_extension_or_refused(frame: bytes) -> None:
    with suppress(PeerError):
        assert isinstance(decode_extension(frame), Extension)
