"""Messages: the octets of the original implementation, runs, and all that is no message."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.dmp.wire import EMPTY, FULL, PLAIN, message, messages_in, sent, serving, short
from triomq.errors import LocalProtocolError
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.dmp import (
    NULL,
    PROTOCOL_HEADER,
    DMPEngine,
    Event,
    Failed,
    LeasePresented,
    MessageRun,
    Settings,
)
from triomq.protocols.dmp.envelope import front_of, names_of
from triomq.protocols.dmp.messages import REMEMBERED

# Golden vectors


def test_message_without_properties_is_read() -> None:
    engine = serving()
    engine.receive_data(PLAIN)
    (run,) = engine.events()
    assert isinstance(run, MessageRun)
    assert run.contents == [PLAIN]
    assert (run.envelope.mandatory, run.envelope.immediate) == (True, False)
    assert messages_in([run]) == [("amq.direct", "nowhere", b"\0\0", 2, b"ret")]


def test_message_with_properties_is_read() -> None:
    engine = serving()
    engine.receive_data(FULL)
    ((exchange, key, properties, options, body),) = messages_in(engine.events())
    assert (exchange, key, options, body) == ("amq.direct", "auto.8", 0, b"hello")
    assert decode_properties(properties) == BasicProperties(
        content_type="text/plain",
        headers={"n": 7, "s": "v"},
        delivery_mode=2,
        priority=5,
        correlation_id="corr",
        reply_to="reply.q",
        message_id="mid-1",
        timestamp=1234567890,
        cluster_id="snd",
    )


def test_message_stands_on_the_wire_as_the_original_has_it() -> None:
    ((_, _, properties, _, _),) = messages_in(_read(FULL))
    assert front_of(names_of("amq.direct", "auto.8"), properties, 0, 5) + b"hello" == FULL
    assert front_of(names_of("amq.direct", "nowhere"), b"\0\0", 2, 3) + b"ret" == PLAIN
    assert front_of(names_of("", ""), b"\0\0", 0, 0) == EMPTY


def test_the_shortest_message_is_one() -> None:
    assert messages_in(_read(EMPTY)) == [("", "", b"\0\0", 0, b"")]


def test_null_messages_are_passed_over_anywhere() -> None:
    engine = serving()
    engine.receive_data(NULL + PLAIN + NULL * 3 + EMPTY + NULL)
    assert [body for *_, body in messages_in(engine.events())] == [b"ret", b""]
    engine.receive_data(NULL[:3])
    engine.receive_data(NULL[:1] + PLAIN)
    assert len(messages_in(engine.events())) == 1


# Runs


def test_messages_of_one_envelope_are_one_run_whatever_their_sizes() -> None:
    data = message(b"x" * 7) * 3 + message(b"y" * 9) + NULL + message(b"") + message(b"x" * 7)
    (run,) = _read(data)
    assert isinstance(run, MessageRun)
    assert len(run.contents) == 6


def test_properties_of_one_shape_with_other_values_stay_in_one_run() -> None:
    data = b"".join(
        message(properties=encode_properties(BasicProperties(message_id=f"{number:04}"))) for number in range(9)
    )
    (run,) = _read(data)
    found = messages_in([run])
    assert [decode_properties(properties).message_id for _, _, properties, _, _ in found] == [
        f"{number:04}" for number in range(9)
    ]


@pytest.mark.parametrize("other", [message(options=1), message(properties=b"\x10\0\x02")])
def test_other_flags_or_options_begin_another_run_and_the_same_envelope_is_the_same_object(other: bytes) -> None:
    first, second, third = _read(message() + other + message())
    assert isinstance(first, MessageRun)
    assert isinstance(second, MessageRun)
    assert isinstance(third, MessageRun)
    assert first.envelope is third.envelope
    assert first.envelope is not second.envelope


@pytest.mark.parametrize("other", [message(key=b"kez"), message(key=b"longer"), message(exchange=b"other")])
def test_messages_whose_names_differ_are_one_run_with_an_envelope_for_each(other: bytes) -> None:
    (run,) = _read(message() + other + message() * 2 + other)
    assert isinstance(run, MessageRun)
    assert run.contents == [message(), other, message(), message(), other]
    assert run.envelopes is not None
    one, two = run.envelopes[:2]
    assert run.envelope is one is not two
    assert [envelope is one for envelope in run.envelopes] == [True, False, True, True, False]
    assert [len(part.contents) for part in run.alike()] == [1, 1, 2, 1]


def test_properties_of_other_lengths_are_one_run_with_an_envelope_for_each() -> None:
    sent = [message(properties=encode_properties(BasicProperties(message_id="x" * number))) for number in range(5)]
    (run,) = _read(b"".join(sent))
    assert [properties for _, _, properties, _, _ in messages_in([run])] == [one[19:-9] for one in sent]


def test_long_run_of_one_envelope_stays_one() -> None:
    first, second = _read(message() * 100 + message(key=b"kez") + message())
    assert isinstance(first, MessageRun)
    assert isinstance(second, MessageRun)
    assert (first.envelopes, len(first.contents)) == (None, 100)
    assert len(second.contents) == 2


def numbered(count: int, kind: str) -> list[bytes]:
    """Make messages with the same frame, each of which is new."""
    make: Callable[[int], bytes] = {
        "ids": lambda number: message(properties=encode_properties(BasicProperties(message_id=f"{number:05}"))),
        "keys": lambda number: message(key=b"%05d" % number),
        "keys in turn": lambda number: message(key=b"%05d" % (number % 7)),
        "exchanges": lambda number: message(exchange=b"%05d" % number),
        "bodies": lambda number: message(b"%05d" % number),
        "keys and properties": lambda number: message(
            key=b"%05d" % number,
            properties=encode_properties(
                BasicProperties(headers={"a": 1}, priority=number % 256, message_id=f"{number:05}", timestamp=number)
            ),
        ),
    }[kind]
    return [make(number) for number in range(count)]


NUMBERED = ["ids", "keys", "keys in turn", "exchanges", "bodies", "keys and properties"]


@pytest.mark.parametrize("kind", NUMBERED)
def test_messages_with_the_same_frame_are_one_run(kind: str) -> None:
    sent = numbered(2000, kind)
    (run,) = _read(b"".join(sent))
    assert isinstance(run, MessageRun)
    assert run.contents == sent
    assert (run.envelopes is None) == (kind in ("ids", "bodies"))
    assert messages_in([run]) == singly(sent)


def singly(messages: Iterable[bytes]) -> list[tuple[str, str, bytes, int, bytes]]:
    """Read each message with an engine of its own."""
    return [found for one in messages for found in messages_in(_read(one))]


def ending(events: list[Event]) -> object:
    """Return the messages of a stream, and the code of its failure; the text may name another of several faults."""
    code = events[-1].code if events and isinstance(events[-1], Failed) else 0
    return messages_in(event for event in events if not isinstance(event, Failed)), code


@given(
    st.lists(st.tuples(st.sampled_from(NUMBERED), st.integers(1, 90)), min_size=1, max_size=4),
    st.integers(0),
    st.integers(0, 255),
    st.booleans(),
)
def test_octet_that_is_spoilt_among_messages_with_the_same_frame_is_judged_as_if_they_came_bit_by_bit(
    stretches: list[tuple[str, int]], place: int, octet: int, lost: bool
) -> None:
    data = bytearray(b"".join(one for kind, count in stretches for one in numbered(count, kind)))
    place %= len(data)
    data[place : place + 1] = b"" if lost else bytes((octet,))
    bit_by_bit, found = serving(), []
    for start in range(0, len(data), 7):
        bit_by_bit.receive_data(bytes(data[start : start + 7]))
        found += bit_by_bit.events()
    assert ending(_read(bytes(data))) == ending(found)


def test_reserved_option_bits_are_carried_but_mean_nothing() -> None:
    (run,) = _read(message(options=0xFC))
    assert isinstance(run, MessageRun)
    assert not run.envelope.mandatory
    assert not run.envelope.immediate


def test_only_so_many_envelopes_are_remembered() -> None:
    data = b"".join(message(key=b"%d" % (number % (REMEMBERED + 9))) for number in range(3 * REMEMBERED))
    assert len(messages_in(_read(data))) == 3 * REMEMBERED


def test_names_that_are_no_utf_8_come_out_as_they_were() -> None:
    ((exchange, key, *_),) = messages_in(_read(message(exchange=b"\xff", key=b"\xc3")))
    assert front_of(names_of(exchange, key), b"\0\0", 0, 5) + b"hello" == message(exchange=b"\xff", key=b"\xc3")


def test_large_message_in_many_chunks_is_whole_and_what_follows_it_too() -> None:
    large = message(bytes(range(256)) * 800)
    data = large + message() * 3000 + large
    engine = serving()
    found: list[Event] = []
    for start in range(0, len(data), 65536):
        engine.receive_data(data[start : start + 65536])
        found += engine.events()
    assert b"".join(content for run in found if isinstance(run, MessageRun) for content in run.contents) == data


MESSAGES = st.one_of(
    st.just(NULL),
    st.just(PLAIN),
    st.just(FULL),
    st.just(EMPTY),
    st.builds(
        message,
        st.binary(max_size=40),
        exchange=st.sampled_from([b"", b"a", b"amq.topic"]),
        key=st.binary(max_size=3),
        properties=st.sampled_from([b"\0\0", b"\x10\0\x02", encode_properties(BasicProperties(headers={"a": 1}))]),
        options=st.integers(0, 255),
    ),
)


@given(st.lists(MESSAGES, max_size=12), st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_any_split_gives_the_same_messages(messages: list[bytes], sizes: list[int]) -> None:
    data = b"".join(messages)
    whole = _read(data) if data else []
    engine, position, number = serving(), 0, 0
    found: list[Event] = []
    while position < len(data):
        step = sizes[number % len(sizes)]
        engine.receive_data(data[position : position + step])
        found += engine.events()
        position, number = position + step, number + 1
    assert messages_in(found) == messages_in(whole)
    assert b"".join(content for run in found if isinstance(run, MessageRun) for content in run.contents) == b"".join(
        one for one in messages if one != NULL
    )


# What is no message

MALFORMED = {
    "a size below the shortest": (b"\0\0\0\x07" + bytes(7), 502),
    "a size of one": (b"\0\0\0\x01\0", 502),
    "octets behind the body": (message(behind=b"x"), 502),
    "a body that is longer than its message": (message(length=6), 502),
    "a body that is longer than anything": (message(length=0xFFFFFF), 502),
    "a body that is shorter than its message": (message(length=4), 502),
    "an exchange that goes beyond the message": (b"\0\0\0\x08\xff" + bytes(7), 502),
    "a key that goes beyond the message": (b"\0\0\0\x08\0\x40" + bytes(6), 502),
    "flags of properties that are not there": (b"\0\0\0\x08\0\0\x80\0" + bytes(4), 502),
    "properties that go beyond the message": (message(b"", properties=b"\x80\0\x20"), 502),
    "a header table that goes beyond the message": (message(b"", properties=b"\x20\0\0\0\x01\0"), 502),
    "a header table that is none": (message(properties=b"\x20\0\0\0\0\x04\x01a?\0"), 502),
    "flags that announce more flags": (message(properties=b"\0\x01"), 502),
    "a flag of no property": (message(properties=b"\0\x02"), 502),
    "a size above the limit": (b"\0\x20\0\x01", 530),
    "the largest size there is": (b"\xff\xff\xff\xff", 530),
    "nothing but ones": (b"\xff" * 300, 530),
}


@pytest.mark.parametrize("before", [b"", message()], ids=["first", "later"])
@pytest.mark.parametrize("why", MALFORMED)
def test_broken_message_is_answered_and_ends_it_and_those_before_count(why: str, before: bytes) -> None:
    data, code = MALFORMED[why]
    engine = serving()
    engine.receive_data(before + data + message() * 5)
    *runs, failed = engine.events()
    assert len(messages_in(runs)) == (1 if before else 0)
    assert isinstance(failed, Failed)
    assert failed.code == code
    assert engine.outbox.finished
    words = sent(engine)
    assert words[1:].startswith(b"%d " % code)
    assert len(words) == 1 + words[0]
    engine.receive_data(message())
    assert engine.events() == []


@pytest.mark.parametrize("why", MALFORMED)
def test_broken_message_is_found_in_any_split(why: str) -> None:
    data, code = MALFORMED[why]
    engine = serving()
    for octet in message() + data + bytes(0xFF):
        engine.receive_data(bytes((octet,)))
    *_, failed = engine.events()
    assert isinstance(failed, Failed)
    assert failed.code == code


def test_message_that_is_too_large_is_refused_before_it_is_stored() -> None:
    engine = serving(settings=Settings(max_message_size=1000))
    engine.receive_data(message(b"x" * 1000)[:20])
    (failed,) = engine.events()
    assert failed == Failed(530, "a message of 1021 octets; at most 1000 are allowed")


def test_message_of_the_largest_allowed_size_is_read() -> None:
    engine = serving(settings=Settings(max_message_size=1021))
    engine.receive_data(message(b"x" * 1000))
    assert len(messages_in(engine.events())) == 1


@given(st.binary(min_size=1, max_size=200))
def test_any_octets_are_messages_or_a_failure(data: bytes) -> None:
    engine = serving()
    engine.receive_data(data)
    for event in engine.events():
        assert isinstance(event, MessageRun | Failed)


@pytest.mark.parametrize("size", [7, 1 << 24])
def test_limit_that_cannot_be_written_is_refused(size: int) -> None:
    with pytest.raises(LocalProtocolError, match="allowed are 8 to"):
        Settings(max_message_size=size)


def test_lease_and_messages_may_come_in_one_piece() -> None:
    engine = DMPEngine("server", now=0.0)
    engine.receive_data(PROTOCOL_HEADER + short(b"lease") + PLAIN)
    assert engine.events() == [LeasePresented("lease")]
    engine.accept_sink("amq.direct")
    assert len(messages_in(engine.events())) == 1


def _read(data: bytes) -> list[Event]:
    engine = serving()
    engine.receive_data(data)
    return engine.events()
