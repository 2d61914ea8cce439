"""Messages as they are written: in both dialects, and with extensions."""

import pytest

from protocols.emqp.wire import CALL, CRON_SCHEDULE, PUBLISH, REQUEST, SCHEDULE, UNSCHEDULE, UUID, frames
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import (
    NO_HEADERS,
    WeightedQueue,
    command,
    is_text,
    make_headers,
    message_ids,
    publish_frames,
    reply_frames,
    request_frames,
)
from triomq.protocols.emqp.frames import goodbye_frames, inform_frames, schedule_frames

X = b'{"v":1,"attempt":2,"key":"k"}'
QUEUES = (WeightedQueue(40, "email"), WeightedQueue(10, "default"))


def test_ids_are_unique() -> None:
    new_id = message_ids(b"prefix")
    assert [new_id(), new_id()] == [b"prefix-1", b"prefix-2"]


def test_request_stands_as_the_released_client_writes_it() -> None:
    headers = make_headers(reply_requested=True, guarantee=True, retry_count=2, timeout=5)
    assert request_frames(UUID, "email", headers, CALL) == REQUEST
    assert request_frames(UUID, "email", headers, CALL, X) == (*REQUEST, X)


def test_reply_names_its_request_in_a_frame_or_in_the_strict_dialect_by_its_id() -> None:
    assert reply_frames(b"id", b"r", b"1") == frames(b"REPLY", b"1", b"r", msgid=b"id")
    assert reply_frames(b"id", b"r", b"1", dialect="strict") == frames(b"REPLY", b"1", msgid=b"r")
    assert reply_frames(b"id", b"r", b"1", X, "strict") == frames(b"REPLY", b"1", b"r", X, msgid=b"id")


def test_publish_has_headers_in_the_strict_dialect_alone() -> None:
    headers = make_headers(guarantee=True)
    assert publish_frames(UUID, "news", b'"hello"', headers) == PUBLISH
    with_headers = frames(b"PUBLISH", b"news", b"guarantee", b'"hello"')
    assert publish_frames(UUID, "news", b'"hello"', headers, dialect="strict") == with_headers
    assert publish_frames(UUID, "news", b'"hello"', headers, X) == (*with_headers, X)


def test_schedule_has_nine_frames_or_in_the_strict_dialect_seven() -> None:
    headers = make_headers(nohaste=True, run_count=2)
    assert schedule_frames(UUID, "email", headers, CALL, interval=60) == SCHEDULE
    assert schedule_frames(UUID, "email", NO_HEADERS, CALL, cron="* * * * *") == CRON_SCHEDULE
    assert schedule_frames(UUID, "email", NO_HEADERS, CALL, ends=True) == UNSCHEDULE
    assert schedule_frames(UUID, "email", NO_HEADERS, CALL, cron="x", extension=X) == frames(
        b"SCHEDULE", b"email", b"", b"-1", CALL, b"x", X
    )
    strict = schedule_frames(UUID, "q", headers, b"{}", interval=60, dialect="strict")
    assert strict == frames(b"SCHEDULE", b"q", b"nohaste,run_count:2", b'{"interval_secs": 60}')
    strict = schedule_frames(UUID, "q", NO_HEADERS, b"m", ends=True, dialect="strict")
    assert strict == frames(b"UNSCHEDULE", b"q", b"", b"m")


@pytest.mark.parametrize("interval", [0, -1, 0.5, 1.5, float("nan"), float("inf"), -float("inf"), 1e300])
def test_schedule_takes_whole_seconds(interval: float) -> None:
    with pytest.raises(LocalProtocolError, match="whole seconds"):
        schedule_frames(UUID, "q", NO_HEADERS, CALL, interval=interval)


def test_inform_stands_as_the_released_worker_writes_it_or_without_outer_brackets() -> None:
    assert inform_frames(UUID, "worker", QUEUES) == frames(b"INFORM", b'[[40, "email"], [10, "default"]]', b"worker")
    assert inform_frames(UUID, "worker", QUEUES, dialect="strict") == frames(
        b"INFORM", b'[40, "email"], [10, "default"]', b"worker"
    )
    assert inform_frames(UUID, "scheduler") == frames(b"INFORM", b"", b"scheduler")
    assert inform_frames(UUID, "client", (), X) == frames(b"INFORM", b"", b"client", X)


def test_goodbye_is_said_twice_to_a_peer_that_may_be_a_released_one() -> None:
    kbye, kbai = frames(b"KBYE"), frames(b"KBAI")
    assert list(goodbye_frames(UUID, is_extended=False, dialect="eventmq-0.3")) == [kbye, kbai]
    assert list(goodbye_frames(UUID, is_extended=True, dialect="eventmq-0.3")) == [kbai]
    assert list(goodbye_frames(UUID, is_extended=False, dialect="strict")) == [kbai]


def test_any_command_can_be_written() -> None:
    assert command(b"STATUS", b"id") == (b"", b"eMQP/1.0", b"STATUS", b"id")
    assert command(b"ACK", b"id", b"r", extension=X) == (b"", b"eMQP/1.0", b"ACK", b"id", b"r", X)


def test_name_that_is_too_long_is_a_mistake() -> None:
    assert len(request_frames(b"", "\u20ac" * 85, NO_HEADERS, b"")) == 7
    with pytest.raises(LocalProtocolError, match="258 bytes; at most 255"):
        request_frames(b"", "\u20ac" * 86, NO_HEADERS, b"")


def test_text_is_utf_8() -> None:
    assert is_text(b"")
    assert is_text("\u20ac".encode())
    assert not is_text(b"\xe2\x82")
