"""Messages in a row that are read in one pass."""

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.emqp.wire import ANNOUNCED, CALL, READY, REQUEST, broker, frames, opened, sent, serving
from triomq.protocols.emqp import (
    NO_EXTENSION,
    Acknowledged,
    AnswerRun,
    BrokerEngine,
    Event,
    Frames,
    PeerEngine,
    Replied,
    ReplyRun,
    Requested,
    RequestRun,
    Role,
    Settings,
    SlotsOffered,
)

MOST = Settings(max_message_size=200)

UMLAUT = '["ä"]'.encode()

ODD = [
    b"",
    b"a",
    b"5",
    b"0",
    b"reply-requested",
    b"timeout:x",
    b"\xff",
    UMLAUT,
    ANNOUNCED,
    b'{"v":1,"attempt":2}',
    bytes(201),
]

requests = st.builds(
    lambda msgid, queue, headers, message, rest: frames(b"REQUEST", queue, headers, message, *rest, msgid=msgid),
    st.sampled_from([b"a", b"b", b"bb", b"\xff", bytes(256), "ä".encode()]),
    st.sampled_from([b"q", b"q", b"q", b"r", bytes(256)]),
    st.sampled_from([b"", b"", b"guarantee", b"timeout:x"]),
    st.sampled_from([CALL, CALL, b"1", UMLAUT, b"\xff", bytes(201)]),
    st.sampled_from([(), (), (ANNOUNCED,), (b'{"v":1,"key":"k"}',), (b"{",), (ANNOUNCED, b"")]),
)

answers = st.builds(
    lambda message, request, rest: frames(b"REPLY", message, request, *rest),
    st.sampled_from([b"1", UMLAUT, b"\xff", bytes(201)]),
    st.sampled_from([b"a", b"b", b"\xff", bytes(256)]),
    st.sampled_from([(), (), (b'{"v":1,"state":"failed"}',), (b"{",)]),
)

others = st.sampled_from(
    [
        READY, READY, frames(b"READY", b"3"), frames(b"READY", b"0"), frames(b"HEARTBEAT", b"1"), frames(b"KBAI"),
        frames(b"STATUS"), frames(b"INFORM", b"", b"worker", ANNOUNCED), frames(b"REPLY", b"1"), (), (b"", b""),
    ]
)  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn) -> Frames:
    message = list(draw(requests | answers))
    message[draw(st.integers(0, len(message) - 1))] = draw(st.sampled_from(ODD))
    return tuple(message)


acknowledgements = st.builds(
    lambda request, rest: frames(b"ACK", request, *rest),
    st.sampled_from([b"a", b"b", b"p-1", b"\xff", bytes(256)]),
    st.sampled_from([(), (), (ANNOUNCED,), (b'{"v":1,"duplicate_of":"b"}',), (b"{",)]),
)


def hear_in_runs(engine: BrokerEngine | PeerEngine, messages: Sequence[Frames]) -> list[Event]:
    """Receive messages as a driver does, and take what comes in runs apart again."""
    events: list[Event] = []
    place = 0
    while place < len(messages):
        run = engine.receive_run(messages, place)
        if run is None:
            event = engine.receive(messages[place])
            events += [] if event is None else [event]
            place += 1
        elif isinstance(run, RequestRun):
            events += [
                Requested(msgid, run.queue, run.headers, message, run.extension)
                for msgid, message in zip(run.msgids, run.messages, strict=True)
            ]
            place += run.count
        elif isinstance(run, AnswerRun):
            events += [Acknowledged(request, NO_EXTENSION) for request in run.acknowledged]
            events += [Replied(*reply) for reply in run.replies]
            place += run.count
        else:
            events += [Replied(*reply) for reply in run.replies]
            events += [SlotsOffered(run.slots)] if run.slots else []
            place += run.count
    return events


def put_together(events: Sequence[Event]) -> list[Event]:
    """Put slots behind the answers that they came with: their sum is what counts."""
    together: list[Event] = []
    slots = 0
    for event in events:
        if isinstance(event, SlotsOffered):
            slots += event.count
            continue
        if slots and not isinstance(event, Replied):
            together.append(SlotsOffered(slots))
            slots = 0
        together.append(event)
    return [*together, SlotsOffered(slots)] if slots else together


@given(
    messages=st.lists(requests | answers | others | spoilt(), max_size=12),
    role=st.sampled_from(["guest", "client", "worker"]),
    is_extended=st.booleans(),
)
def test_runs_say_what_messages_say_one_by_one(messages: list[Frames], role: str, is_extended: bool) -> None:
    engines = [
        broker(MOST) if role == "guest" else serving(role, is_extended=is_extended, settings=MOST)  # type: ignore[arg-type]
        for _ in range(2)
    ]
    singly = [event for message in messages if (event := engines[0].receive(message)) is not None]
    assert put_together(hear_in_runs(engines[1], messages)) == put_together(singly)
    assert sent(engines[0]) == sent(engines[1])
    assert engines[0].state == engines[1].state


def acknowledged_first(events: Sequence[Event]) -> list[Event]:
    """Put of ACKs and REPLYs in a row the ACKs first."""
    ordered: list[Event] = []
    for are_answers, some in groupby(events, lambda event: isinstance(event, Acknowledged | Replied)):
        row = list(some)
        ordered += sorted(row, key=lambda event: isinstance(event, Replied)) if are_answers else row
    return ordered


@given(
    messages=st.lists(requests | answers | acknowledgements | others | spoilt(), max_size=12),
    role=st.sampled_from(["client", "worker", "scheduler"]),
    is_extended=st.booleans(),
    is_leaving=st.booleans(),
)
def test_runs_say_to_a_peer_what_messages_say_one_by_one(
    messages: list[Frames], role: Role, is_extended: bool, is_leaving: bool
) -> None:
    engines = [opened(role, is_extended=is_extended, settings=MOST) for _ in range(2)]
    for engine in engines if is_leaving else ():
        engine.leave()
    singly = [event for message in messages if (event := engines[0].receive(message)) is not None]
    assert acknowledged_first(hear_in_runs(engines[1], messages)) == acknowledged_first(singly)
    assert sent(engines[0]) == sent(engines[1])
    assert engines[0].state == engines[1].state


def test_acknowledgements_and_answers_of_a_broker_are_one_run() -> None:
    reply = frames(b"REPLY", b"1", b"a", b'{"v":1,"state":"ok"}')
    messages = [frames(b"ACK", b"a"), frames(b"ACK", b"b"), reply, frames(b"ACK", b"c")]
    run = opened("client").receive_run(messages, 1)
    assert isinstance(run, AnswerRun)
    assert run.acknowledged == [b"b", b"c"]
    assert [answer[:2] for answer in run.replies] == [(b"a", b"1")]
    assert run.count == 3


def test_requests_that_differ_in_id_and_message_alone_are_one_run() -> None:
    messages = [frames(b"REQUEST", *REQUEST[4:6], b"%d" % number, msgid=b"%d" % number) for number in range(12)]
    run = broker().receive_run(messages, 2)
    assert isinstance(run, RequestRun)
    assert run.msgids == run.messages == [b"%d" % number for number in range(2, 12)]
    assert (run.queue, run.headers.retry_count) == ("email", 2)


def test_run_ends_where_the_queue_changes() -> None:
    messages = [frames(b"REQUEST", b"a", b"", CALL), frames(b"REQUEST", b"b", b"", CALL)]
    run = broker().receive_run(messages, 0)
    assert isinstance(run, RequestRun)
    assert len(run.msgids) == 1


def test_answers_and_offers_of_a_worker_are_one_run() -> None:
    messages = [
        frames(b"REPLY", b"1", b"a"),
        READY,
        frames(b"REPLY", b"2", b"b", b'{"v":1,"state":"ok"}'),
        frames(b"READY", b"3"),
    ]
    run = serving().receive_run(messages, 0)
    assert isinstance(run, ReplyRun)
    assert [reply[:2] for reply in run.replies] == [(b"a", b"1"), (b"b", b"2")]
    assert (run.slots, run.count) == (4, 4)


@pytest.mark.parametrize("role", ["client", "scheduler"])
def test_answers_of_a_peer_that_is_no_worker_are_no_run(role: Role) -> None:
    assert serving(role).receive_run([frames(b"REPLY", b"1", b"a")], 0) is None
