"""Fuzz the engine of eMQP on all sides: ``python -m tests.fuzz.emqp_engine --seconds 60 --seed 1``.

Conversations of messages, spoilt by message, frame and octet, go to an engine whose owner acts on whatever it reports.
Every input is generated from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys
from collections.abc import Sequence
from random import Random
from typing import Final, Literal, NamedTuple, get_args

from triomq.protocols.emqp import (
    BrokerEngine,
    CancelAsked,
    DisconnectAsked,
    Event,
    Extension,
    Frames,
    Informed,
    JobState,
    MessageDropped,
    PeerEngine,
    Progressed,
    Requested,
    Role,
    ScheduleSet,
    Settings,
    StateReported,
    StatesAsked,
    TopicPublished,
    is_text,
)
from triomq.protocols.emqp.reader import COMMANDS

from .engine_fuzz import SLACK, retained
from .loop import Violation, fuzz_inputs

BATCH: Final = 200
MAX_MESSAGE: Final = 2000
_SPOILS: Final = (0, 1, 1, 2, 3, 8)
_RELEASED_FRAMES: Final = {b"ACK": 5, b"REPLY": 6, b"REQUEST": 7, b"SCHEDULE": 9, b"UNSCHEDULE": 9, b"PUBLISH": 7}
"""How many frames a peer without extensions reads of what it is sent."""

OURS: Final = (b"PROGRESS", b"CANCEL", b"RETURN", b"STATE", b"SUBSCRIBE", b"UNSUBSCRIBE")

CALL = b'["run", {"path": "m", "callable": "f", "args": []}]'
X = b'{"v":1,"capabilities":["jobs"],"attempt":2}'
FRAMES = (
    b"", b"id", b"p1", b"q", b"worker", b"client", b"scheduler", b"jobs", CALL, X, b'{"v":2}', b"{}", b"[]", b"1",
    b"-1", b"60", b"0", b"nan", b"1e9", b"* * * * *", b'[[10, "q"], [40, "r"]]', b"[40, 'q']", b"q,r", b"(1,'q')",
    b"reply-requested,guarantee,retry-count:2,timeout:5", b"timeout:x", b'["guarantee"]', b'{"timeout": 5}', b"nohaste",
    b"xnohaste", b'{"interval_secs": 5}', b'["run", {"cron": "* * * * *"}]', b"[" * 1500, b"\xff\xfe", b"inform",
    b"x" * 256, b"x" * (MAX_MESSAGE + 1), b"[[9999999999, 1]]",
)  # fmt: skip
SHAPES: Final[dict[bytes, tuple[tuple[bytes, ...], ...]]] = {
    b"INFORM": ((b"", b"[40, 'q']"), (b"worker", b"client", b"scheduler"), (X,)),
    b"ACK": ((b"p1", b"id"), (X,)),
    b"READY": ((b"3",),),
    b"REQUEST": ((b"q",), (b"", b"guarantee"), (CALL, b"1"), (X,)),
    b"REPLY": ((b'{"value": 1}', b"waiting"), (b"id",), (X,)),
    b"PUBLISH": ((b"t",), (b"", b"1"), (CALL,), (X,)),
    b"SCHEDULE": ((b"q",), (b"nohaste",), (b"5", b"-1"), (CALL,), (b"* * * * *",), (X,)),
    b"UNSCHEDULE": ((b"q",), (b"",), (b"-1",), (CALL,), (b"",)),
    b"HEARTBEAT": ((b"1.5",), (X,)),
    b"SUBSCRIBE": ((b"t",),),
    b"UNSUBSCRIBE": ((b"t",),),
    b"ERROR": ((b"id",), (b"full", b"inform"), (b"text",)),
    b"PROGRESS": ((b"id",), (b"1", b"", b"\xff"), (b'{"number":1,"item":true}', X)),
    b"CANCEL": ((b"id",), (b"",), (b'{"grace":5,"tree":true}', X)),
    b"RETURN": ((b'["id"]', b'["id", "p1"]', b"[]"),),
    b"STATE": ((b'["id"]', b'["id", "p1"]'), (b'{"state":"ok"}', b'{"state":"failed","attempt":2}'), (X,)),
}


class Input(NamedTuple):
    """One input.

    Args:
        side: which engine gets it: a broker's, or a peer's by its role.
        settings: of the engine.
        messages: what it gets.
    """

    side: Literal["broker"] | Role
    settings: Settings
    messages: list[Frames]

    def describe(self) -> str:
        return f"{self.side} with {self.settings}: {self.messages!r}"


_USUAL: Final = {
    "broker": b"REQUEST REQUEST READY REPLY HEARTBEAT PUBLISH SCHEDULE UNSCHEDULE SUBSCRIBE STATUS INFORM "
    b"PROGRESS CANCEL RETURN STATE".split(),
    "client": b"ACK ACK REPLY REPLY PUBLISH PROGRESS STATE ERROR HEARTBEAT".split(),
    "worker": b"ACK REQUEST REQUEST REQUEST CANCEL PROGRESS HEARTBEAT ERROR".split(),
    "scheduler": b"ACK SCHEDULE SCHEDULE UNSCHEDULE HEARTBEAT".split(),
}
"""What each side hears when all goes well."""


def _message(random: Random, side: str) -> list[bytes]:
    name = random.choice(_USUAL[side] if random.random() < 0.9 else sorted(COMMANDS))
    shape = SHAPES.get(name, ())
    count = random.choice((len(shape), len(shape), len(shape) - 1)) if shape else 0
    return [b"", b"eMQP/1.0", name, b"id%d" % random.randrange(9), *(random.choice(each) for each in shape[:count])]


def _spoil(random: Random, message: list[bytes]) -> None:
    at = random.randrange(len(message) + 1)
    match random.randrange(6):
        case 0:
            message[at:at] = [random.choice(FRAMES)]
        case 1:
            del message[at : at + 1]
        case 2:
            message[at : at + 1] = [random.randbytes(random.randrange(9))]
        case 3 if at < len(message):
            octets = bytearray(message[at])
            octets[at:at] = random.randbytes(1)
            message[at] = bytes(octets)
        case 4:
            message += [b"x"] * random.choice((1, 2, 40))
        case _:
            message[at : at + 1] = [random.choice(FRAMES)]


def generate(random: Random) -> Input:
    """Make a conversation that is spoilt somewhere, or nowhere."""
    side = random.choice(("broker", "broker", "broker", *get_args(Role)))
    capabilities = random.choice(((), ("jobs",), ("jobs",), ("other",)))
    dialect: Literal["eventmq-0.3", "strict"] = random.choice(("eventmq-0.3", "strict"))
    settings = Settings(dialect=dialect, capabilities=capabilities, max_message_size=MAX_MESSAGE)
    messages = [_message(random, side) for _ in range(random.randrange(1, 25))]
    if random.random() < 0.7:  # most of what is to be found lies behind an opening that is in order
        opening = [b"", b"eMQP/1.0", b"INFORM", b"i", b"", random.choice(get_args(Role)).encode(), X]
        messages.insert(0, opening if side == "broker" else [b"", b"eMQP/1.0", b"ACK", b"a", b"p1", X])
    for _ in range(random.choice(_SPOILS)):
        _spoil(random, random.choice(messages[1:] or messages))
    return Input(side, settings, [tuple(message) for message in messages])


class Owner:
    """The owner of one engine: does what may be done about each event, and records all."""

    def __init__(self, given: Input) -> None:
        numbers = iter(range(1, 1 << 40))
        self.engine: BrokerEngine | PeerEngine
        if given.side == "broker":
            self.engine = BrokerEngine(lambda: b"p%d" % next(numbers), now=0.0, unix_time=0.0, settings=given.settings)
        else:
            self.engine = PeerEngine(
                given.side, lambda: b"p%d" % next(numbers), now=0.0, unix_time=0.0, settings=given.settings,
                outstanding={b"waiting"},
            )  # fmt: skip
        self.events: list[Event | None] = []
        self.sent: list[Frames] = []
        self.work()

    def feed(self, message: Sequence[bytes]) -> None:
        if message:
            self.engine.receive_run([message], 0)  # which changes nothing
        event = self.engine.receive(message)
        self.events.append(event)
        if isinstance(self.engine, BrokerEngine):
            self._serve(self.engine, event)
        elif isinstance(event, Requested) and self.engine.carries(event.message):
            self.engine.progress(event.msgid, event.message, Extension(number=1, item=True))
            self.engine.reply(event.msgid, event.message, event.extension)
            if self.engine.state == "open":
                self.engine.ready(2)
        elif isinstance(event, CancelAsked) and self.engine.is_extended and self.engine.state == "open":
            self.engine.give_back([event.request])
        elif isinstance(event, StateReported) and self.engine.state == "open":
            self.engine.ask_states([event.request], Extension(follow=True))
            self.engine.cancel(event.request, Extension(grace=event.state.attempt))
        self.work()

    def _serve(self, engine: BrokerEngine, event: Event | None) -> None:
        """Do what a broker with one peer would: all that it says is for itself."""
        if isinstance(event, Informed):
            engine.acknowledge(event.msgid)
        elif isinstance(event, DisconnectAsked):
            engine.leave()
        elif isinstance(event, Progressed):
            engine.progress(event.request, event.message, event.extension)
        elif isinstance(event, CancelAsked):
            engine.acknowledge(event.msgid)
            engine.cancel(event.request, event.extension)
        elif isinstance(event, StatesAsked):
            for request in event.requests:
                engine.report_state(request, JobState(state="ok"), b"1" if event.extension.result else None)
        elif isinstance(event, Requested | ScheduleSet | TopicPublished):
            engine.acknowledge(event.msgid, duplicate_of=event.extension.duplicate_of.encode())
            if not engine.carries(event.message):
                raise Violation(f"{event} was read, and cannot be sent")
            engine.reply(event.msgid, event.message, event.extension)
            if isinstance(event, Requested) and engine.state == "worker":
                engine.request(event.msgid, event.queue, event.headers.replying(), event.message, event.extension)
            if isinstance(event, ScheduleSet) and engine.state == "scheduler":
                engine.schedule(event.queue, event.headers, event.message, interval=event.interval // 1, cron="x")
            if isinstance(event, TopicPublished) and engine.state == "client":
                engine.publish(event.topic, event.message, event.headers, event.extension)

    def work(self) -> None:
        """Take what is to be sent, and check each message of it."""
        sent = [*self.engine.messages_to_send(), *self.engine.notices_to_send()]
        for message in sent:
            if message[:2] != (b"", b"eMQP/1.0") or len(message) < 4:
                raise Violation(f"sent {message}, which is no message")
            if message[2] in OURS and not self.engine.is_extended:
                raise Violation(f"sent {message} to a peer without extensions")
            most = 1000 if self.engine.is_extended else _RELEASED_FRAMES.get(message[2], 1000)
            if len(message) > most or not (self.engine.is_extended or all(map(is_text, message))):
                raise Violation(f"sent {message} to a peer without extensions")
        self.sent += sent


def play(given: Input) -> str:
    """Feed one input, twice and with time going by; return how it ended."""
    owner, again = Owner(given), Owner(given)
    for message in given.messages:
        owner.feed(message)
        again.feed(message)
    if (owner.events, owner.sent) != (again.events, again.sent):
        raise Violation("the same messages came to something else")
    limit = SLACK + 2 * sum(len(frame) for message in given.messages for frame in message)
    if (held := retained(owner.engine)) > limit:
        raise Violation(f"{held} bytes are retained; at most {limit} may be")
    state, dropped = owner.engine.state, sum(isinstance(event, MessageDropped) for event in owner.events)
    for now in range(0, 700, 7):
        owner.engine.handle_timer(float(now))
    owner.work()
    if owner.engine.next_timer() is not None and owner.engine.state != "informing":
        raise Violation(f"not ended by silence, but {owner.engine.state}")
    owner.engine.close()
    for message in given.messages:
        if owner.engine.receive(message) is not None:
            raise Violation("something was heard after the end")
    return f"{given.side}: {state}, {'some dropped' if dropped else 'all taken'}"


def main(arguments: list[str] | None = None) -> int:
    return fuzz_inputs(__doc__, arguments, BATCH, "emqp", generate, play)


if __name__ == "__main__":
    sys.exit(main())
