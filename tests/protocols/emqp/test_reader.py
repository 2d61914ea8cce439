"""Messages as the released programs and the specification write them, and messages that are none."""

import msgspec
import pytest

from protocols.emqp.wire import (
    ANNOUNCED,
    CALL,
    CRON_SCHEDULE,
    HEARTBEAT,
    PUBLISH,
    READY,
    REQUEST,
    SCHEDULE,
    SCHEDULER_INFORM,
    UNSCHEDULE,
    UUID,
    WORKER_INFORM,
    WORKER_REPLY,
    broker,
    frames,
    opened,
    sent,
    serving,
)
from triomq.protocols.emqp import (
    DEFAULT_QUEUE,
    NO_EXTENSION,
    NO_HEADERS,
    Acknowledged,
    AdminAsked,
    CancelAsked,
    Event,
    Extension,
    Frames,
    Informed,
    JobsReturned,
    JobState,
    MessageDropped,
    Progressed,
    Replied,
    Requested,
    Role,
    ScheduleRemoved,
    ScheduleSet,
    Settings,
    SlotsOffered,
    StateReported,
    StatesAsked,
    Subscribed,
    TopicPublished,
    Unsubscribed,
    WeightedQueue,
    make_headers,
)
from triomq.protocols.emqp.extension import LONGEST, LONGEST_PASSED_ON
from triomq.protocols.emqp.frames import LONGEST_ID
from triomq.protocols.emqp.jobs import MOST_IDS
from triomq.protocols.emqp.reader import LONGEST_CRON, MOST_FRAMES, MOST_SLOTS

NOHASTE = make_headers(nohaste=True, run_count=2)
ASKED = make_headers(reply_requested=True, guarantee=True, retry_count=2, timeout=5)
EXTENSION = Extension(attempt=3)
CANCEL = Extension(grace=5, tree=True)
X = b'{"v":1,"attempt":3,"unheard-of":[1]}'

RELEASED: list[tuple[str, Frames, Event | None]] = [
    ("guest", WORKER_INFORM, Informed(UUID, "worker", ((10, "default"), (40, "email")), NO_EXTENSION)),  # type: ignore[arg-type]
    ("guest", frames(b"INFORM", b"", b"worker"), Informed(UUID, "worker", (DEFAULT_QUEUE,), NO_EXTENSION)),
    ("guest", SCHEDULER_INFORM, Informed(UUID, "scheduler", (), NO_EXTENSION)),
    ("worker", READY, SlotsOffered(1)),
    ("guest", REQUEST, Requested(UUID, "email", ASKED, CALL, NO_EXTENSION)),
    ("scheduler", REQUEST, Requested(UUID, "email", ASKED, CALL, NO_EXTENSION)),
    ("worker", WORKER_REPLY, Replied(UUID, b'{"value": 5}', NO_EXTENSION)),
    ("guest", SCHEDULE, ScheduleSet(UUID, "email", NOHASTE, 60.0, CALL, "", NO_EXTENSION)),
    ("guest", CRON_SCHEDULE, ScheduleSet(UUID, "email", NO_HEADERS, 0.0, CALL, "* * * * *", NO_EXTENSION)),
    ("guest", UNSCHEDULE, ScheduleRemoved(UUID, "email", NO_HEADERS, CALL)),
    ("worker", HEARTBEAT, None),
    ("guest", PUBLISH, TopicPublished(UUID, "news", NO_HEADERS, b'"hello"', NO_EXTENSION)),
    ("guest", frames(b"STATUS", msgid=b"admin:1"), AdminAsked(b"admin:1", "STATUS")),
    ("guest", frames(b"ROUTER_SHOW_WORKERS"), AdminAsked(UUID, "ROUTER_SHOW_WORKERS")),
    ("guest", frames(b"ROUTER_SHOW_SCHEDULERS"), AdminAsked(UUID, "ROUTER_SHOW_SCHEDULERS")),
    ("guest", frames(b"HELLO"), AdminAsked(UUID, "HELLO")),
]


@pytest.mark.parametrize(("state", "message", "event"), RELEASED)
def test_message_of_a_released_program_is_read(state: str, message: Frames, event: Event | None) -> None:
    engine = broker() if state == "guest" else serving(state, is_extended=False)  # type: ignore[arg-type]
    assert engine.receive(message) == event


SPECIFIED: list[tuple[str, Frames, Event | None]] = [
    ("guest", frames(b"INFORM", b"[40, 'email']", b"worker"), Informed(UUID, "worker", ((40, "email"),), NO_EXTENSION)),  # type: ignore[arg-type]
    ("worker", frames(b"REPLY", b"true"), Replied(UUID, b"true", NO_EXTENSION)),
    ("guest", frames(b"PUBLISH", b"t", b"", b"m"), TopicPublished(UUID, "t", NO_HEADERS, b"m", NO_EXTENSION)),
    ("guest", frames(b"REQUEST", b"q", b"{}", b"m"), Requested(UUID, "q", NO_HEADERS, b"m", NO_EXTENSION)),
    (
        "guest",
        frames(b"SCHEDULE", b"q", b"nohaste", b'["run", {"interval_secs": 5}]'),
        ScheduleSet(UUID, "q", make_headers(nohaste=True), 5.0, b'["run", {"interval_secs": 5}]', "", NO_EXTENSION),
    ),
    (
        "guest",
        frames(b"SCHEDULE", b"q", b"", b'{"cron": "0 6 * * *", "interval_secs": 0}'),
        ScheduleSet(
            UUID, "q", NO_HEADERS, 0.0, b'{"cron": "0 6 * * *", "interval_secs": 0}', "0 6 * * *", NO_EXTENSION
        ),
    ),
    ("guest", frames(b"UNSCHEDULE", b"q", b"", b"m"), ScheduleRemoved(UUID, "q", NO_HEADERS, b"m")),
]


@pytest.mark.parametrize(("state", "message", "event"), SPECIFIED)
def test_message_of_the_specification_is_read(state: str, message: Frames, event: Event | None) -> None:
    engine = broker() if state == "guest" else serving(state, is_extended=False)  # type: ignore[arg-type]
    assert engine.receive(message) == event


def test_interval_of_seven_frames_may_stand_in_the_headers() -> None:
    event = broker().receive(frames(b"SCHEDULE", b"q", b"interval:90", b"m"))
    assert isinstance(event, ScheduleSet)
    assert (event.interval, event.cron) == (90.0, "")


EXTENDED: list[tuple[str, Frames, Event | None]] = [
    ("worker", frames(b"READY", b"17"), SlotsOffered(17)),
    ("worker", frames(b"REQUEST", b"q", b"", b"m", X), Requested(UUID, "q", NO_HEADERS, b"m", EXTENSION)),
    ("worker", frames(b"REPLY", b"1", b"r", X), Replied(b"r", b"1", EXTENSION)),
    ("client", frames(b"PUBLISH", b"t", b"", b"m", X), TopicPublished(UUID, "t", NO_HEADERS, b"m", EXTENSION)),
    (
        "client",
        frames(b"SCHEDULE", b"q", b"", b"9", b"m", b"", X),
        ScheduleSet(UUID, "q", NO_HEADERS, 9.0, b"m", "", EXTENSION),
    ),
    ("worker", frames(b"PROGRESS", b"r", b"0.5", X), Progressed(b"r", b"0.5", EXTENSION)),
    ("client", frames(b"PROGRESS", b"r", b"", b'{"number":7}'), Progressed(b"r", b"", Extension(number=7))),
    ("client", frames(b"CANCEL", b"r"), CancelAsked(UUID, b"r", NO_EXTENSION)),
    ("client", frames(b"CANCEL", b"r", b"", b'{"grace":5,"tree":true}'), CancelAsked(UUID, b"r", CANCEL)),
    ("worker", frames(b"RETURN", b'["a", "b"]'), JobsReturned((b"a", b"b"))),
    ("client", frames(b"STATE", b'["a"]', b"", b'{"follow":true}'), StatesAsked(UUID, (b"a",), Extension(follow=True))),
    ("client", frames(b"SUBSCRIBE", b"t"), Subscribed(UUID, "t")),
    ("client", frames(b"UNSUBSCRIBE", b"t"), Unsubscribed(UUID, "t")),
    ("client", frames(b"REQUEST", b"q", b"", b"\xff"), Requested(UUID, "q", NO_HEADERS, b"\xff", NO_EXTENSION)),
]


TOLD: list[tuple[Role, Frames, Event | None]] = [
    ("client", frames(b"PROGRESS", b"r", b"0.5", X), Progressed(b"r", b"0.5", EXTENSION)),
    ("client", frames(b"STATE", b"r", b'{"state":"running"}'), StateReported(b"r", JobState(state="running"), None)),
    ("client", frames(b"STATE", b"r", b'{"state":"ok"}', b"1"), StateReported(b"r", JobState(state="ok"), b"1")),
    ("client", frames(b"ACK", b"r", b'{"duplicate_of":"d"}'), Acknowledged(b"r", Extension(duplicate_of="d"))),
    ("worker", frames(b"CANCEL", b"r", b"", b'{"grace":5,"tree":true}'), CancelAsked(UUID, b"r", CANCEL)),
    ("worker", frames(b"PROGRESS", b"r", b"", b'{"number":7}'), Progressed(b"r", b"", Extension(number=7))),
]


@pytest.mark.parametrize(("role", "message", "event"), TOLD)
def test_message_of_a_broker_with_extensions_is_read(role: Role, message: Frames, event: Event | None) -> None:
    assert opened(role).receive(message) == event
    if message[2] != b"ACK":
        without = opened(role, is_extended=False).receive(message)
        assert isinstance(without, MessageDropped)
        assert "have announced the capability jobs" in without.reason


@pytest.mark.parametrize(("state", "message", "event"), EXTENDED)
def test_message_with_extensions_is_read(state: str, message: Frames, event: Event | None) -> None:
    assert serving(state).receive(message) == event  # type: ignore[arg-type]


def test_frames_behind_the_known_ones_are_not_looked_at() -> None:
    engine = serving(is_extended=False)
    assert engine.receive(frames(b"READY", b"17", b"\xff")) == SlotsOffered(1)
    assert engine.receive((*WORKER_REPLY, b"{", b"\xff")) == Replied(UUID, b'{"value": 5}', NO_EXTENSION)
    assert engine.receive((*REQUEST, b"{")) == Requested(UUID, "email", ASKED, CALL, NO_EXTENSION)
    assert broker().receive((*WORKER_INFORM, b'{"capabilities": 1}', b"\xff")) == Informed(
        UUID, "worker", (WeightedQueue(10, "default"), WeightedQueue(40, "email")), NO_EXTENSION
    )


MALFORMED: list[tuple[str, Frames, str]] = [
    ("guest", (), "begins with an empty frame"),
    ("guest", (b"",), "begins with an empty frame"),
    ("guest", (b"", b"eMQP/1.0", b"REQUEST"), "begins with an empty frame"),
    ("guest", (b"x", *REQUEST[1:]), "begins with an empty frame"),
    ("guest", (b"", b"eMQP/2.0", *REQUEST[2:]), "begins with an empty frame and eMQP/1.0"),
    ("guest", (b"eMQP/1.0", b"REQUEST", b"id", b"q", b"", b"m"), "begins with an empty frame"),
    ("guest", frames(b""), "command  is unknown"),
    ("guest", frames(b"request", b"q", b"", b"m"), "command request is unknown"),
    ("guest", frames(b"\xff" * 100), "is unknown"),
    ("guest", (*REQUEST, *[b""] * MOST_FRAMES), "frames; it takes 7 to"),
    ("guest", frames(b"STATUS", msgid=b"\xff"), "of UTF-8"),
    ("guest", frames(b"STATUS", msgid=b"x" * (LONGEST_ID + 1)), "at most 255 bytes"),
    # INFORM
    ("guest", frames(b"INFORM", b'[[10, "default"]]'), "5 frames; it takes 6"),
    ("guest", frames(b"INFORM", b"", b"router"), "router is no role"),
    ("guest", frames(b"INFORM", b"\xff", b"worker"), "not UTF-8"),
    ("guest", frames(b"INFORM", b"[[10]]", b"worker"), "is no queue"),
    ("guest", frames(b"INFORM", b"[[10, ", b"worker"), "write them like"),
    # READY, of those that count
    ("worker", frames(b"READY", b"0"), "it takes 1 to"),
    ("worker", frames(b"READY", b"-1"), "it takes 1 to"),
    ("worker", frames(b"READY", b""), "it takes 1 to"),
    ("worker", frames(b"READY", b"%d" % (MOST_SLOTS + 1)), "it takes 1 to"),
    ("worker", frames(b"READY", b"9" * 5000), "it takes 1 to"),
    # REQUEST
    ("guest", frames(b"REQUEST", b"q", CALL), "6 frames; it takes 7"),
    ("guest", frames(b"REQUEST", b"\xff", b"", CALL), "name of a queue is not UTF-8"),
    ("guest", frames(b"REQUEST", b"q" * 256, b"", CALL), "256 bytes; at most 255"),
    ("guest", frames(b"REQUEST", b"q", b"\xff", CALL), "headers are not UTF-8"),
    ("guest", frames(b"REQUEST", b"q", b"timeout:abc", CALL), "needs a number"),
    ("guest", frames(b"REQUEST", b"q", b"", b"\xff"), "message is not UTF-8"),
    ("guest", frames(b"REQUEST", b"q", b"", b"x" * 101), "message of 101 bytes; at most 100"),
    ("client", frames(b"REQUEST", b"q", b"", b"m", b"{"), "extension frame cannot be read"),
    # REPLY
    ("worker", frames(b"REPLY"), "4 frames; it takes 5"),
    ("worker", frames(b"REPLY", b"1", b"\xff"), "of UTF-8"),
    # PUBLISH
    ("guest", frames(b"PUBLISH", b"t"), "5 frames; it takes 6"),
    ("guest", frames(b"PUBLISH", b"\xff", b"m"), "name of a topic is not UTF-8"),
    ("guest", frames(b"PUBLISH", b"t", b"\xff"), "message is not UTF-8"),
    # SCHEDULE
    ("guest", frames(b"SCHEDULE", b"q", b""), "6 frames; it takes 7"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"m"), "neither an interval"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b'{"interval_secs": true}'), "takes seconds"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b'{"interval_secs": 1e300}'), "neither an interval"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b'{"cron": 5}'), "takes seconds, and cron a text"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"5", b"m"), "8 frames; it takes 7, or 9"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"0", b"m", b""), "interval 0; it takes seconds"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"-2", b"m", b""), "interval -2; it takes seconds"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"nan", b"m", b""), "interval nan"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"1e99", b"m", b""), "interval 1e99"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"soon", b"m", b""), "interval soon"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"-1", b"m", b""), "neither an interval"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"-1", b"m", b"\xff"), "cron text"),
    ("guest", frames(b"SCHEDULE", b"q", b"", b"-1", b"m", b"*" * (LONGEST_CRON + 1)), "cron text"),
    ("guest", frames(b"UNSCHEDULE", b"q", b""), "6 frames; it takes 7"),
    # What peers with extensions say
    ("client", frames(b"REQUEST", b"q", b"", b"m", b'{"priority":10}'), "extension frame cannot be read"),
    ("client", frames(b"REQUEST", b"q", b"", b"m", b'{"delay":-1}'), "extension frame cannot be read"),
    ("client", frames(b"REQUEST", b"q", b"", b"m", b'{"message":"' + b"x" * LONGEST + b'"}'), "at most 65536"),
    ("worker", frames(b"PROGRESS", b"r"), "5 frames; it takes 6"),
    ("worker", frames(b"PROGRESS", b"\xff", b"1"), "of UTF-8"),
    ("worker", frames(b"PROGRESS", b"r", b"x" * 101), "message of 101 bytes"),
    ("worker", frames(b"RETURN", b"[]"), "it takes 1 to"),
    ("worker", frames(b"RETURN", b'["a"'), "list of ids cannot be read"),
    ("worker", frames(b"RETURN", b"[1]"), "list of ids cannot be read"),
    ("worker", frames(b"RETURN", b'["\\ud800"]'), "list of ids cannot be read"),
    ("worker", frames(b"RETURN", b"[" * 5000), "list of ids cannot be read"),
    ("worker", frames(b"RETURN", b'["' + b"x" * 256 + b'"]'), "at most 255 each"),
    ("worker", frames(b"RETURN", b"[" + b",".join([b'"a"'] * (MOST_IDS + 1)) + b"]"), "it takes 1 to"),
    ("worker", frames(b"RETURN", b'["a"]' + b" " * 2_000_000), "it takes 1 to"),
    ("client", frames(b"STATE", b'["a"]'), "5 frames; it takes 6"),
    ("client", frames(b"STATE", b"a", b""), "list of ids cannot be read"),
    ("client", frames(b"CANCEL", b"x" * 256), "at most 255 bytes"),
    ("client", frames(b"CANCEL", b"r", b"", b'{"grace":-5}'), "extension frame cannot be read"),
    # What is out of place
    ("client", frames(b"RETURN", b'["a"]'), "has no place in state client"),
    ("worker", frames(b"CANCEL", b"r"), "has no place in state worker"),
    ("worker", frames(b"STATE", b'["a"]', b""), "has no place in state worker"),
    ("guest", frames(b"CANCEL", b"r"), "announced the capability jobs"),
    ("guest", frames(b"SUBSCRIBE", b"t"), "has no place in state guest"),
    ("client", frames(b"READY"), "has no place in state client"),
    ("worker", frames(b"ACK", b"id"), "has no place in state worker"),
]


@pytest.mark.parametrize(("state", "message", "reason"), MALFORMED)
def test_malformed_message_is_dropped_and_reported_and_changes_nothing(
    state: str, message: Frames, reason: str
) -> None:
    settings = Settings(max_message_size=100)
    engine = broker(settings) if state == "guest" else serving(state, settings=settings)  # type: ignore[arg-type]
    event = engine.receive(message)
    assert isinstance(event, MessageDropped)
    assert reason in event.reason
    assert event.code == "malformed"
    assert len(event.reason) < 400
    assert engine.state == state
    answers = engine.messages_to_send()
    if state == "guest" or not event.msgid:
        assert answers == []
    else:
        ((_, _, command, _, refused, code, text),) = answers
        assert (command, refused, code, text.decode()) == (b"ERROR", event.msgid, b"malformed", event.reason)


@pytest.mark.parametrize("state", [b"{", b"{}", b'{"state":1}', b"\xff", b"[" * 5000, b'{"state":"' + b"x" * 200_000])
def test_state_that_is_none_is_dropped(state: bytes) -> None:
    event = opened("client").receive(frames(b"STATE", b"r", state))
    assert isinstance(event, MessageDropped)
    assert "state" in event.reason


def test_broker_may_add_to_an_extension_frame_that_it_passes_on() -> None:
    longest = b'{"message":"' + b"x" * (LONGEST - 14) + b'"}'
    request = frames(b"REQUEST", b"q", b"", b"m", longest)
    assert len(longest) == LONGEST
    event = serving("client").receive(request)
    assert isinstance(event, Requested)
    ours = serving("worker")
    ours.request(b"r", "q", NO_HEADERS, b"m", msgspec.structs.replace(event.extension, attempt=2, deadline=10**9))
    (passed_on,) = sent(ours)
    assert LONGEST < len(passed_on[7]) <= LONGEST_PASSED_ON
    assert isinstance(opened("worker").receive(passed_on), Requested)


def test_heartbeat_may_say_any_time() -> None:
    assert serving().receive(frames(b"HEARTBEAT", "\u20ac".encode())) is None
    assert serving().receive(frames(b"HEARTBEAT")) is None


def test_error_of_any_length_is_cut() -> None:
    event = opened("client").receive(frames(b"ERROR", b"r", b"c" * 1000, b"\xff" * 5000))
    assert event is not None
    assert len(repr(event)) < 4000


def test_announcement_needs_to_be_ours() -> None:
    engine = broker()
    engine.receive(frames(b"INFORM", b"", b"client", b'{"v":2,"capabilities":["jobs"]}'))
    assert not engine.is_extended
    engine.receive(frames(b"INFORM", b"", b"client", b'{"v":1,"capabilities":["other"]}'))
    assert engine.capabilities == ("other",)
    assert not engine.is_extended
    engine.receive(frames(b"INFORM", b"", b"client", ANNOUNCED))
    assert engine.is_extended
