"""Conversations that nobody has thought of: any frames at all, and both sides saying what they may in any order."""

from collections.abc import Callable
from contextlib import suppress
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from protocols.emqp.test_states import MESSAGES, TABLES, engine_in
from protocols.emqp.wire import CALL, broker, peer, sent
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import (
    CODES,
    NO_HEADERS,
    BrokerEngine,
    Event,
    Extension,
    Frames,
    Informed,
    JobsReturned,
    JobState,
    MessageDropped,
    PeerEngine,
    Replied,
    Requested,
    Role,
    ScheduleRemoved,
    ScheduleSet,
    Settings,
    State,
    make_headers,
)
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.reader import COMMANDS

words = st.sampled_from(sorted({frame for message in MESSAGES.values() for frame in message} | set(COMMANDS)))
strange = st.sampled_from([b"\xff", b"[" * 3000, b"9" * 400, b"{}", b'{"v":1}', b"timeout:x", b"-1", b"nan", b"[[1,2"])
frame = words | strange | st.binary(max_size=12)
spoilt = st.tuples(st.sampled_from(sorted(MESSAGES.values())), st.integers(0, 9), frame, st.booleans()).map(
    lambda drawn: (*drawn[0][: drawn[1]], drawn[2], *drawn[0][drawn[1] + drawn[3] :])
)
messages = spoilt | st.lists(frame, max_size=11).map(tuple) | st.sampled_from(sorted(MESSAGES.values()))


@given(st.sampled_from([(side, state) for side, table in TABLES for state in table]), st.lists(messages, max_size=30))
def test_any_frames_have_a_documented_outcome(place: tuple[str, State], given: list[Frames]) -> None:
    side, state = place
    engine = engine_in(side, state)
    for message in given:
        event = engine.receive(message)
        assert event is None or isinstance(event, get_args(Event))
        if isinstance(event, MessageDropped):
            assert event.code in CODES
            assert len(event.reason) + len(event.command) + len(event.msgid) < 1000
        assert engine.state in dict(TABLES)[side]
        for answer in sent(engine):
            assert answer[2] in (b"ERROR", b"INFORM")  # all else is for the owner to say


PEER_COMMANDS: dict[str, Callable[[PeerEngine], object]] = {
    "ready": lambda engine: engine.ready(3),
    "request": lambda engine: engine.request("q", CALL, make_headers(timeout=1), Extension(key="k")),
    "publish": lambda engine: engine.publish("t", CALL),
    "schedule": lambda engine: engine.schedule("q", CALL, interval=3),
    "unschedule": lambda engine: engine.schedule("q", CALL, ends=True),
    "subscribe": lambda engine: engine.subscribe("t"),
    "ask": lambda engine: engine.ask("STATUS"),
    "reply": lambda engine: engine.reply(b"job", CALL),
    "progress": lambda engine: engine.progress(b"job", b"1", Extension(number=1)),
    "cancel": lambda engine: engine.cancel(b"job"),
    "give back": lambda engine: engine.give_back([b"job"]),
    "ask states": lambda engine: engine.ask_states([b"job"]),
    "disconnect": lambda engine: engine.disconnect(),
    "leave": lambda engine: engine.leave(),
}
BROKER_COMMANDS: dict[str, Callable[[BrokerEngine], object]] = {
    "acknowledge": lambda engine: engine.acknowledge(b"p-2"),
    "refuse": lambda engine: engine.refuse(b"p-3", "full", "text"),
    "request": lambda engine: engine.request(b"job", "q", NO_HEADERS, CALL),
    "reply": lambda engine: engine.reply(b"p-4", CALL),
    "progress": lambda engine: engine.progress(b"job", b"1", Extension(number=1)),
    "cancel": lambda engine: engine.cancel(b"job"),
    "report state": lambda engine: engine.report_state(b"job", JobState(state="ok"), b"1"),
    "publish": lambda engine: engine.publish("t", CALL),
    "schedule": lambda engine: engine.schedule("q", NO_HEADERS, CALL, cron="* * * * *"),
    "unschedule": lambda engine: engine.schedule("q", NO_HEADERS, CALL, ends=True),
    "disconnect": lambda engine: engine.disconnect(),
    "leave": lambda engine: engine.leave(),
}
JOBS = Requested | ScheduleSet | ScheduleRemoved | Replied | JobsReturned

step = (
    st.tuples(st.just("peer"), st.sampled_from(sorted(PEER_COMMANDS)))
    | st.tuples(st.just("broker"), st.sampled_from(sorted(BROKER_COMMANDS)))
    | st.tuples(st.just("to peer"), st.integers(1, 9))
    | st.tuples(st.just("to broker"), st.integers(1, 9))
    | st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 1.5, 4.0]))
)
side_settings = st.builds(
    Settings,
    dialect=st.sampled_from(["eventmq-0.3", "strict"]),
    capabilities=st.sampled_from([(), ("jobs",), ("other",)]),
)


class Wire:
    """The way from one side to the other, which keeps the order and loses nothing."""

    def __init__(self, there: EMQPEngine) -> None:
        self.there = there
        self.messages: list[Frames] = []
        self.events: list[Event] = []

    def carry(self, count: int) -> None:
        for message in self.messages[:count]:
            if (event := self.there.receive(message)) is not None:
                self.events.append(event)
                if isinstance(event, Informed):
                    assert isinstance(self.there, BrokerEngine)
                    self.there.acknowledge(event.msgid)
        del self.messages[:count]


@given(st.sampled_from(get_args(Role)), side_settings, side_settings, st.lists(step, max_size=60))
def test_two_engines_understand_each_other_whatever_they_say(
    role: Role, ours: Settings, theirs: Settings, steps: list[tuple[str, object]]
) -> None:
    engine, other, now = peer(role, ours), broker(theirs), 0.0
    ways = {"to broker": Wire(other), "to peer": Wire(engine)}
    handed = {"to broker": 0, "to peer": 0}  # messages that must come, as far as the conversation goes

    def gather() -> None:
        for way, here in (("to broker", engine), ("to peer", other)):
            queued = sent(here)
            handed[way] += len([message for message in queued if message[2] in HANDED])
            ways[way].messages += queued

    for kind, what in steps:
        if kind == "wait":
            assert isinstance(what, float)
            now += what
            engine.handle_timer(now)
            other.handle_timer(now)
        elif kind in ways:
            assert isinstance(what, int)
            ways[kind].carry(what)
        else:
            assert isinstance(what, str)
            with suppress(LocalProtocolError):  # it is out of place
                PEER_COMMANDS[what](engine) if kind == "peer" else BROKER_COMMANDS[what](other)
        gather()
    while any(way.messages for way in ways.values()):
        for way in ways.values():
            way.carry(100)
        gather()
    for name, way in ways.items():
        dropped = [event for event in way.events if isinstance(event, MessageDropped)]
        # Only goodbyes that cross what is new, and a goodbye that comes before the peer is known.
        assert all(event.code == "leaving" or way.there.state in ("guest", "left") for event in dropped), dropped
        arrived = len([event for event in way.events if isinstance(event, JOBS)])
        if not dropped and way.there.state != "closed":
            assert arrived == handed[name]


HANDED = (b"REQUEST", b"SCHEDULE", b"UNSCHEDULE", b"REPLY", b"RETURN")
