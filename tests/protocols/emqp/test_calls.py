"""Calls of functions as released clients write them, and schedules of these."""

import json

import pytest

from protocols.emqp.wire import CALL
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import call_problem, complete_call, schedule_key
from triomq.protocols.emqp.calls import read_timing, with_timing
from triomq.protocols.emqp.codes import PeerError


@pytest.mark.parametrize(
    "message",
    [
        CALL,
        b'["eval", {"callable": "f", "path": "m"}]',  # the first word is never looked at
        b'["run", {"callable": "f", "path": "m:C", "class_args": [1], "more": 1}, "more"]',
    ],
)
def test_call_that_released_workers_can_run_has_no_problem(message: bytes) -> None:
    assert call_problem(message) == ""


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "no call"),
        (b"\xff", "no call"),
        (b"[" * 100_000, "no call"),
        (b"true", "no call"),
        (b'["run"]', "no call"),
        (b'["run", []]', "no call"),
        (b'["run", {"callable": "f"}]', "no call"),
        (b'["run", {"callable": "f", "path": 1}]', "no call"),
        (b'["run", {"callable": "f", "path": "m", "args": 1, "kwargs": []}]', "args and kwargs cannot be passed"),
    ],
)
def test_problem_of_a_message_is_named(message: bytes, problem: str) -> None:
    assert problem in call_problem(message)


def test_call_is_completed_to_six_keys() -> None:
    whole = json.loads(complete_call(b'["run", {"callable": "f", "path": "m", "args": [1]}]'))
    assert whole == [
        "run",
        {"callable": "f", "path": "m", "args": [1], "kwargs": {}, "class_args": [], "class_kwargs": {}},
    ]
    with pytest.raises(LocalProtocolError, match="cannot be scheduled"):
        complete_call(b"true")


def test_schedules_of_one_call_have_one_key() -> None:
    # As the released scheduler computes it: sorted keys, blanks, SHA-1.
    assert schedule_key(CALL) == "36d84441c7e2fe963909220a94ae8ce2896c46d1"
    reordered = b'["other", {"path": "myjobs", "kwargs": {"b": 5}, "args": [1], "callable": "add", "interval_secs": 5}]'
    assert schedule_key(reordered) == schedule_key(CALL)
    assert schedule_key(CALL.replace(b"5", b"6")) != schedule_key(CALL)


def test_schedules_of_other_messages_are_told_apart_by_their_bytes() -> None:
    assert schedule_key(b"1") != schedule_key(b"1 ")
    assert schedule_key(b"\xff") == schedule_key(b"\xff")


@pytest.mark.parametrize("message", [CALL, b"{}", b'{"a": 1}', b'["run", {}, 1]'])
@pytest.mark.parametrize(("interval", "cron"), [(5, ""), (0, "0 6 * * *")])
def test_times_in_a_message_are_read_again(message: bytes, interval: int, cron: str) -> None:
    assert read_timing(with_timing(message, interval, cron)) == (interval, cron)


@pytest.mark.parametrize("message", [b"", b"5", b'["run"]', b"[]", b'["run", 1]', b"\xff"])
def test_message_without_a_place_has_no_times(message: bytes) -> None:
    assert read_timing(message) == (0.0, "")
    with pytest.raises(LocalProtocolError, match="no JSON object"):
        with_timing(message, 5, "")


@pytest.mark.parametrize("message", [b'{"interval_secs": "5"}', b'{"interval_secs": true}', b'{"cron": 1}'])
def test_times_of_another_type_are_refused(message: bytes) -> None:
    with pytest.raises(PeerError, match="takes seconds"):
        read_timing(message)
