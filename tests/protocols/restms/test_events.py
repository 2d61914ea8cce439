"""Messages of a pipe as server-sent events."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.restms import EVENTS_BEGIN, HEARTBEAT, EventReader, MessageElement, Problem, event_of
from triomq.protocols.restms.events import LARGEST_EVENT

MESSAGES = [MessageElement(href=f"http://h/restms/resource/M{n}", address="a\nb\r") for n in range(3)]
STREAM = EVENTS_BEGIN + b"".join(event_of(each, f"M{n}") + HEARTBEAT for n, each in enumerate(MESSAGES))


def read(reader: EventReader, data: bytes) -> list[MessageElement]:
    found = reader.receive(data)
    assert not isinstance(found, Problem), found
    return found


def test_message_is_an_event_of_two_lines() -> None:
    event = event_of(MessageElement(href="http://h/x", address="a\nb\r"), "K3")
    first, second, *rest = event.split(b"\n")
    assert (first, rest) == (b"id: K3", [b"", b""])
    assert b"\r" not in event
    assert json.loads(second.removeprefix(b"data: ")) == {
        "restms": {"message": [{"href": "http://h/x", "address": "a\nb\r"}]}
    }


def test_begin_and_heartbeat_are_no_events() -> None:
    for comment in (EVENTS_BEGIN, HEARTBEAT):
        assert comment.startswith(b":")
        assert comment.endswith(b"\n\n")


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_read_however_they_are_cut(cuts: list[int]) -> None:
    reader = EventReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [message for start, stop in itertools.pairwise(edges) for message in read(reader, STREAM[start:stop])]
    assert found == MESSAGES
    assert reader.last == "M2"


def test_last_one_is_that_which_was_whole() -> None:
    reader = EventReader("before")
    assert read(reader, b"id: a\r\ndata: {") == []
    assert reader.last == "before"
    assert read(reader, b'"restms":{}}\r\n\r\n') == []
    assert reader.last == "a"


def test_other_fields_and_data_in_several_lines_are_read_as_the_standard_has_it() -> None:
    stream = b'event: message\nretry: 5\nid\nunknown\ndata:{"restms":\ndata: {"message":[{"address":"a"}]}}\n\n'
    assert read(EventReader(), stream) == [MessageElement(address="a")]


@pytest.mark.parametrize("data", [b"data: <html>\n\n", b"data: {}\n\n", b"x" * (LARGEST_EVENT + 1)])
def test_what_is_no_stream_of_messages_is_a_problem(data: bytes) -> None:
    assert isinstance(EventReader().receive(data), Problem)


@given(data=st.binary(max_size=60) | st.text("id: data\r\n{}", max_size=60).map(str.encode))
def test_any_bytes_are_messages_or_a_problem(data: bytes) -> None:
    assert isinstance(EventReader().receive(data), list | Problem)
