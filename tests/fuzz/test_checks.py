"""The checks of the fuzzers themselves: each finds the fault that it is there for."""

import pytest

from . import amqp_trial, dmp_trial, http_trial
from .amqp_trial import AMQPFuzz, Endpoint
from .amqp_words import CLIENT_OPENING, header
from .dmp_oracle import Message, judge
from .dmp_trial import DMPFuzz, Side, check_answers
from .dmp_words import PLAIN, message, opening
from .engine_fuzz import retained
from .http_trial import HTTPFuzz
from .loop import Violation

ONE = message(b"e", b"k", PLAIN, 0, b"hello")
OPENING = b"".join(opening("server"))


def opened() -> Endpoint:
    return AMQPFuzz().run(amqp_trial.Input("server", len(CLIENT_OPENING), "accept", b""), [])


def served(data: bytes) -> Side:
    return DMPFuzz().run(dmp_trial.Input("server", "sink", "accept", OPENING + data), [OPENING + data])


def test_other_events_and_other_answers_are_found() -> None:
    whole, other = opened(), opened()
    other.feed(header(1, 0))
    with pytest.raises(Violation, match="other events"):
        AMQPFuzz().compare(whole, other, "spoilt")
    other.events[:] = whole.events
    with pytest.raises(Violation, match="other answers"):
        AMQPFuzz().compare(whole, other, "spoilt")


def test_frames_after_a_close_are_found() -> None:
    endpoint = opened()
    endpoint.feed(header(1, 0))
    AMQPFuzz().check(endpoint)
    with pytest.raises(Violation, match="was sent after a close"):
        amqp_trial.check_sent("server", endpoint.octets * 2)
    with pytest.raises(Violation, match="after Failed"):
        amqp_trial.check_events(endpoint.events * 2)


def test_retained_octets_are_counted() -> None:
    endpoint = opened()
    before = retained(endpoint.engine)
    endpoint.feed(header(1, 0)[:-1])
    assert retained(endpoint.engine) == before + len(header(1, 0)) - 1


@pytest.mark.parametrize(
    ("data", "found", "ending"),
    [
        (ONE + bytes(4) + ONE[:9], 1, "reading"),
        (ONE + ONE[:3] + b"\x0e" + ONE[4:] + b"\0" * 9, 1, "failed 502"),
        (ONE[:3] + bytes((ONE[3] + 1,)) + ONE[4:] + b"?", 0, "failed 502"),
        (b"\0\0\0\x07" + bytes(7), 0, "failed 502"),
        (b"\0\0\x20\0", 0, "failed 530"),
        (message(b"", b"", b"\0\x01", 0, b""), 0, "failed 502"),
        (message(b"", b"", b"\x20\0\0\0\0\x03\x01a?", 0, b""), 0, "failed 502"),
    ],
)
def test_simplest_way_to_read_finds_all_messages(data: bytes, found: int, ending: str) -> None:
    verdict = judge("server", "sink", True, OPENING + data)
    assert verdict == ([Message(b"e", b"k", PLAIN, 0, b"hello")] * found, ending)
    DMPFuzz().check(served(data))


def test_wrong_messages_are_found() -> None:
    side = served(ONE + ONE)
    side.events.pop()
    with pytest.raises(Violation, match="expected was"):
        DMPFuzz().check(side)
    with pytest.raises(Violation, match="octet by octet it came to reading"):
        DMPFuzz().compare(served(ONE), served(ONE + ONE), "octet by octet")


def test_answers_after_the_end_are_found() -> None:
    side = served(b"\0\0\0\x01")
    dmp_trial.check_events(side.events)
    with pytest.raises(Violation, match="after Failed"):
        dmp_trial.check_events([*side.events, *side.events])
    check_answers(side.octets, "sink")
    with pytest.raises(Violation, match=r"after b'502 SYNTAX-ERROR.* came"):
        check_answers(side.octets + bytes(4), "sink")
    with pytest.raises(Violation, match="answer 3 of a sink is"):
        check_answers(served(b"").octets + ONE, "sink")
    with pytest.raises(Violation, match="a feed ended with"):
        check_answers(served(b"").octets + ONE[:-1], "feed")
    check_answers(served(b"").octets + ONE, "feed")


def test_requests_that_h11_reads_in_another_way_are_found() -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
    side = HTTPFuzz().run(http_trial.Input("server", "whole", data), [data])
    HTTPFuzz().check(side)
    side.messages[0] = side.messages[0]._replace(body=b"a")
    with pytest.raises(Violation, match="where h11 finds"):
        HTTPFuzz().check(side)
