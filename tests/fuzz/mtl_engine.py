"""Fuzz the engines of MTL, of both flows and both roles: ``python -m tests.fuzz.mtl_engine --seconds 60 --seed 1``.

Conversations of messages, spoilt by message, frame and octet, go to an engine whose owner acts on whatever it reports:
one owner takes each message singly, another one in runs, and both have to come to the same. Every input is generated
from the seed and its number, so that ``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from triomq.protocols import encode_table
from triomq.protocols.mtl import (
    AuthorizeReceived,
    CloseReceived,
    CommandReceived,
    ConfirmModel,
    ConfirmRun,
    ContentRun,
    ContentsRejected,
    DataLeaseAsked,
    Dismissed,
    FlowDirection,
    Frames,
    IllFormed,
    LeaseClaimed,
    LeaseReleased,
    MTLControlClient,
    MTLControlServer,
    MTLDataClient,
    MTLDataServer,
    MTLSettings,
    OpenReceived,
    ProfileChosen,
    Summoned,
    content_suffix,
)
from triomq.protocols.mtl.codes import STATUSES
from triomq.protocols.mtl.data_engine import MTLDataEngine
from triomq.protocols.mtl.requests import read_reply

from .engine_fuzz import SLACK, retained
from .loop import Violation, fuzz, parse

Side: TypeAlias = Literal["control server", "control client", "data server", "data client"]

BATCH: Final = 200
MAX_MESSAGE: Final = 2000
_SPOILS: Final = (0, 0, 1, 1, 2, 3, 8)

OPEN = b'{"protocol": {"name": "MTL", "version": 1}, "virtual-host": "v"}'
COMMANDS: Final[tuple[tuple[bytes, tuple[bytes, ...]], ...]] = (
    (b"Connection.Open", (OPEN, OPEN, b"{}", b'{"protocol": {"name": "MTL", "version": 2}}')),
    (b"Connection.Authorize", (
        b'{"mechanism": "plain", "response": "AAAA"}', b'{"mechanism": "X"}', b'{"mechanism": "SCRAM"}',
    )),
    (b"Connection.Profile", (b'{"profile": "test"}', b'{"profile": "TEST"}', b'{"profile": "other"}')),
    (b"Connection.Reader", (b'{"resources": ["a"], "confirm": "full"}', b'{"resources": []}', b'{"resources": 1}')),
    (b"Connection.Writer", (b'{"resources": ["a"], "confirm": "none", "lease": "t"}', b'{"resources": [""]}')),
    (b"Connection.Release", (b'{"lease": "t"}', b"{}")),
    (b"Connection.Close", (b"{}",)),
    (b"Queue.Create", (b'{"name": "q"}', b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}")),
    (b"Nonsense", (b"{}",)),
)  # fmt: skip
REPLIES: Final = (
    (b"200", b'{"status": "OK"}'), (b"201", b'{"profiles": ["test"]}'), (b"201", b'{"profiles": 1}'),
    (b"202", b'{"port": 1, "lease": "t"}'), (b"202", b"{}"), (b"401", b'{"mechanisms": ["PLAIN"]}'),
    (b"402", b'{"mechanism": "PLAIN", "challenge": "AAAA"}'), (b"402", b"{}"), (b"409", b'{"reason": "no"}'),
    (b"400", b"{}"), (b"503", b'{"reason": 1}'),
)  # fmt: skip
ENVELOPES: Final[tuple[Frames, ...]] = ((), (b"",), (b"\0\0\0\1", b""), (b"proxy", b"\0\0\0\2", b""))
RESOURCES: Final = (b"\1a", b"\1a", b"\1a", b"\0", b"\1b", b"\1c")
TABLES: Final = (
    b"\0\0\0\0", encode_table({"content-type": "text/plain"}), encode_table({"address": "a.b", "message-id": "1"}),
    encode_table({"priority": "x"}), encode_table({"headers": {"a": [1, {"b": None}]}}), b"\0\0\0\1", b"\0\0\0\3\1aZ",
)  # fmt: skip
FRAMES: Final = (
    b"", b"{}", b"[", b"\xff", b"200", b"x" * 300, b"[" * 3000, b"x" * (MAX_MESSAGE + 1), b"\1", b"\5",
    b"\6" + bytes(9), b"\5" + bytes(9) + b"\xff\xff\xff\xff", b"Connection.Open", OPEN, b'{"a": NaN}',
)  # fmt: skip


class Input(NamedTuple):
    """One input.

    Args:
        side: Which engine gets it.
        direction: Of the lease.
        confirm: How its contents are confirmed.
        messages: What it gets.
        cuts: Where turns end.
    """

    side: Side
    direction: FlowDirection
    confirm: ConfirmModel
    messages: list[Frames]
    cuts: list[int]

    def describe(self) -> str:
        return f"{self.side}, {self.direction}, {self.confirm}, turns end at {self.cuts}: {self.messages!r}"


def _control_message(random: Random, side: Side) -> list[bytes]:
    if side == "control client":
        envelope = random.choice(((random.randrange(1, 8).to_bytes(4, "big"), b""), *ENVELOPES))
        return [*envelope, *random.choice(REPLIES)]
    name, bodies = random.choice(COMMANDS)
    return [*random.choice(ENVELOPES), name, random.choice(bodies)]


def _data_message(random: Random, number: int) -> list[bytes]:
    kind = random.choice((1, 2, 3, 3, 4, 5, 5, 5, 5, 6, 6, 7, 8, 9))
    sequence = random.choice((number, number, number, random.randrange(30), (1 << 64) - 1)).to_bytes(8, "big")
    head = bytes((kind,)) + sequence
    match kind:
        case 1:
            return [head + random.choice((b"\5lease", b"\5other", b"\0")), b""]
        case 2:
            return [head, random.choice((b"200", b"403", b"x"))]
        case 3 | 4:
            return [head + random.choice(RESOURCES), b""]
        case 5:
            told = encode_table({"message-id": f"{number:05d}", "address": random.choice("ab")})
            body = random.choice((b"", b"body", b"reject", b"recycle", b"refuse", bytes(MAX_MESSAGE + 1)))
            return [head + random.choice(RESOURCES) + random.choice((told, told, told, *TABLES)), body]
        case 6:
            return [head + random.choice((b"\0", b"\1", b"\2")), b""]
        case 7:
            return [head + random.choice((b"\0\0", b"\1\1", b"\0\2")), b""]
        case _:
            return [bytes((kind,)), b""]


def _spoil(random: Random, message: list[bytes]) -> None:
    at = random.randrange(len(message) + 1)
    match random.randrange(6):
        case 0:
            message[at:at] = [random.choice(FRAMES)]
        case 1:
            del message[at : at + 1]
        case 2:
            message[at : at + 1] = [random.randbytes(random.randrange(20))]
        case 3 | 4 if at < len(message) and message[at]:
            octets = bytearray(message[at])
            place = random.randrange(len(octets))
            octets[place : place + random.randrange(2)] = random.randbytes(random.randrange(2))
            message[at] = bytes(octets)
        case _:
            message += [b"x"] * random.choice((1, 2, 12))


def generate(random: Random) -> Input:
    """Make a conversation that is spoilt somewhere, or nowhere."""
    side: Side = random.choice(("control server", "control client", "data server", "data server", "data client"))
    direction: FlowDirection = random.choice(("reader", "writer"))
    count = random.randrange(1, 40)
    if side.startswith("control"):
        messages = [_control_message(random, side) for _ in range(count)]
        if random.random() < 0.7:  # most of what is to be found lies behind an opening that is in order
            messages[:0] = [[name, bodies[0]] for name, bodies in COMMANDS[:3]]
    else:
        messages = [_data_message(random, number) for number in range(1, count + 1)]
        if random.random() < 0.8:
            messages.insert(0, [b"\1" + bytes(7) + b"\1\5lease", b""])
    for _ in range(random.choice(_SPOILS)):
        _spoil(random, random.choice(messages[1:] or messages))
    cuts = sorted(random.randrange(len(messages) + 1) for _ in range(random.randrange(5)))
    return Input(
        side, direction, random.choice(("none", "full")), [tuple(each) for each in messages], [0, *cuts, len(messages)]
    )


SETTINGS: Final = MTLSettings(max_message_size=MAX_MESSAGE, most_waiting=4, longest_body=2500, most_summons=2)


class Owner:
    """The owner of one engine: does what may be done about each event, and records all.

    ``events`` has contents and confirms one by one, so that runs can be held against single messages.
    """

    engine: Any

    def __init__(self) -> None:
        self.events: list[object] = []
        self.sent: list[Frames] = []

    @abstractmethod
    def feed(self, messages: Sequence[Frames]) -> None:
        """Take what has come in one turn."""

    @abstractmethod
    def check(self, frames: Frames) -> None:
        """Check a message that the engine sends."""

    def work(self) -> None:
        """Take what is to be sent, and check each message of it."""
        sent = self.engine.messages_to_send()
        for frames in sent:
            self.check(frames)
        self.sent += sent


class ControlServerOwner(Owner):
    """A server with one control session."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = MTLControlServer(("PLAIN", "SCRAM"), SETTINGS)
        self.requests = 0

    def feed(self, messages: Sequence[Frames]) -> None:
        for message in messages:
            event = self.engine.receive(message)
            if isinstance(event, IllFormed):
                self.events.append(event)
                continue
            self.requests += 1
            if len(self.events) % 5 == 4 and event is not None:
                continue  # answered at the end of the turn, and others wait behind it
            self._answer_all(event)
        if self.engine._current is not None:
            self.engine.put_back(keep=True)
        self._answer_all(self.engine.next_event())
        self.work()

    def _answer_all(self, event: object) -> None:
        while event is not None:
            self.events.append(event)
            self._answer(event)
            event = self.engine.next_event()

    def _answer(self, event: object) -> None:
        engine = self.engine
        match event:
            case OpenReceived():
                engine.ready(("test",)) if len(self.events) % 2 else engine.require_login()
            case AuthorizeReceived(mechanism, _, begins):
                engine.challenge(b"more") if begins and mechanism == "SCRAM" else engine.ready(("test",))
            case DataLeaseAsked(_, _, "full", _):
                engine.grant_lease("token", 1, "ipc:///x")
            case DataLeaseAsked():
                engine.refuse(404, "no")
            case ProfileChosen() | LeaseReleased() | CloseReceived():
                engine.done()
            case CommandReceived(_, arguments):
                engine.done(arguments)
            case _:
                raise Violation(f"{event} is none of this side")

    def check(self, frames: Frames) -> None:
        reply = read_reply(frames, 1 << 20)
        if reply.fields.get("status") != STATUSES[reply.code]:
            raise Violation(f"sent {frames}, whose status is not that of its code")


class ControlClientOwner(Owner):
    """A client that asks for one thing after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = MTLControlClient(SETTINGS)
        self._next = self.engine.open("v")

    def feed(self, messages: Sequence[Frames]) -> None:
        for message in messages:
            event = self.engine.receive(message)
            self.events.append(event)
            if isinstance(event, IllFormed):
                continue
            match self.engine.state:
                case "unknown":
                    self.engine.open("v")
                case "guest" | "challenged":
                    self.engine.authorize("PLAIN", b"x")
                case "ready":
                    self.engine.choose_profile("test")
                case "working":
                    self.engine.ask_lease("reader", ["a"], "full", 1) if len(self.events) % 2 else self.engine.call(
                        "A.B", {}
                    )

    def work(self) -> None:
        """Do nothing: what it asks it is given."""

    def check(self, frames: Frames) -> None:
        """Do nothing, as ``work``."""


class FlowOwner(Owner):
    """The owner of one side of a data flow."""

    engine: MTLDataEngine[Any]

    def __init__(self, given: Input, *, in_runs: bool) -> None:
        super().__init__()
        self._in_runs = in_runs
        self._direction: FlowDirection = given.direction
        self._confirm: ConfirmModel = given.confirm

    def feed(self, messages: Sequence[Frames]) -> None:
        place = 0
        engine: Any = self.engine
        while place < len(messages):
            run = engine.receive_run(messages, place) if self._in_runs and messages[place] else None
            event = run if run is not None else engine.receive(messages[place])
            if run is not None and not run.count:
                raise Violation(f"{run} has nothing")
            place += run.count if run is not None else 1
            self._record(event)
            self.act(event)
        self.work()

    def _record(self, event: object) -> None:
        if isinstance(event, ContentRun):
            for table, sequence, body in zip(event.tables, event.sequences, event.bodies, strict=True):
                if len(body) > MAX_MESSAGE or not sequence or len(table) != event.kind.size:
                    raise Violation(f"content {sequence} has {len(body)} octets, and a table of {len(table)}")
                self.events.append((event.resource, table, sequence, body, event.kind.properties.address))
        elif isinstance(event, ConfirmRun):
            if max((event.up_to, *event.sequences)) >= self.engine.next_sequence:
                raise Violation(f"{event} is of what was never sent")
            self._note_confirms(event)
        elif event is not None:
            self.events.append(event)

    def _note_confirms(self, event: ConfirmRun) -> None:
        """Record confirms without their order, which does not matter until something else comes."""
        last = self.events[-1] if self.events else None
        if isinstance(last, dict):
            last["up to"] = max(last["up to"], event.up_to)
            last["single"] = last["single"] | set(event.sequences)
        elif event.up_to or event.sequences:
            self.events.append({"up to": event.up_to, "single": set(event.sequences)})

    @abstractmethod
    def act(self, event: object) -> None:
        """Do what may be done about an event."""

    @abstractmethod
    def peer(self) -> MTLDataEngine[Any]:
        """Make an engine of the other side, which hears what this one says."""

    def check(self, frames: Frames) -> None:
        found = self.peer().receive(frames)
        if isinstance(found, IllFormed) and found.reason != "unasked":
            raise Violation(f"sent {frames}, which is ill-formed: {found.reason}")


class FlowServerOwner(FlowOwner):
    """A server with one data flow."""

    engine: MTLDataServer

    def __init__(self, given: Input, *, in_runs: bool) -> None:
        super().__init__(given, in_runs=in_runs)
        self.engine = MTLDataServer(now=0.0, settings=SETTINGS)

    def peer(self) -> MTLDataEngine[Any]:
        return _reading_peer()

    def act(self, event: object) -> None:
        engine = self.engine
        match event:
            case LeaseClaimed(sequence, lease):
                if lease == "lease":
                    engine.grant(event, self._direction, ("a", "b"), confirm=self._confirm)
                else:
                    engine.respond(sequence, 403)
            case Summoned(_, resource):
                engine.answer(event, 200 if resource == "a" else 400)
                engine.send_contents(content_suffix(resource, b"\0\0\0\0"), [b"x", b"y"])
            case Dismissed():
                engine.answer(event)
            case ContentRun(_, _, _, sequences, bodies):
                engine.accept(sequences)
                for sequence, body in zip(sequences, bodies, strict=True):
                    if body in (b"reject", b"recycle"):
                        engine.reject_contents((sequence,), recycle=body == b"recycle")
                    elif body == b"refuse":
                        engine.refuse_content(sequence, 404)
                    elif body:
                        engine.confirm_contents((sequence,))
            case _:
                pass


class FlowClientOwner(FlowOwner):
    """A client with one data flow."""

    engine: MTLDataClient

    def __init__(self, given: Input, *, in_runs: bool) -> None:
        super().__init__(given, in_runs=in_runs)
        self.engine = MTLDataClient(given.direction, confirm=given.confirm, now=0.0, settings=SETTINGS)
        self.engine.claim("lease")
        if given.direction == "writer":
            self.engine.send_contents(content_suffix("a", b"\0\0\0\0"), [b"x"] * 9)
        else:
            self.engine.summon("a")
        self.engine.receive((b"\2" + bytes(7) + b"\1", b"200"))
        self.work()

    def peer(self) -> MTLDataEngine[Any]:
        return MTLDataServer(now=0.0)

    def act(self, event: object) -> None:
        match event:
            case ContentRun(_, _, _, sequences, _) if self._confirm == "full":
                for sequence in sequences:
                    self.engine.confirm(sequence, multiple=bool(sequence % 2))
            case ContentsRejected(sequence) if self.engine.state == "writing":
                self.engine.send_again([(sequence, content_suffix("a", b"\0\0\0\0"), b"x")])
            case _:
                pass


def _reading_peer() -> MTLDataClient:
    return MTLDataClient("reader", confirm="none", now=0.0)


def make_owner(given: Input, *, in_runs: bool) -> Owner:
    """Make the owner of the engine that gets an input."""
    match given.side:
        case "control server":
            return ControlServerOwner()
        case "control client":
            return ControlClientOwner()
        case "data server":
            return FlowServerOwner(given, in_runs=in_runs)
        case "data client":
            return FlowClientOwner(given, in_runs=in_runs)


def play(given: Input) -> str:
    """Feed one input, singly and in runs, and with time going by; return how it ended."""
    owner, again = make_owner(given, in_runs=False), make_owner(given, in_runs=True)
    for start, stop in pairwise(given.cuts):
        owner.feed(given.messages[start:stop])
        again.feed(given.messages[start:stop])
    if owner.events != again.events:
        raise Violation(f"{owner.events} came of single messages, {again.events} of runs")
    if sorted(owner.sent) != sorted(again.sent):
        raise Violation(f"{owner.sent} was sent for single messages, {again.sent} for runs")
    limit = SLACK + 4 * sum(len(frame) for message in given.messages for frame in message)
    if (held := retained(owner.engine)) > limit:
        raise Violation(f"{held} bytes are retained; at most {limit} may be")
    if isinstance(owner, ControlServerOwner) and len(owner.sent) != owner.requests:
        raise Violation(f"{owner.requests} commands had {len(owner.sent)} replies")
    if isinstance(owner, FlowOwner):
        _end(owner, given)
    state, dropped = owner.engine.state, any(isinstance(event, IllFormed) for event in owner.events)
    return f"{given.side}: {state}, {'some dropped' if dropped else 'all taken'}"


def _end(owner: FlowOwner, given: Input) -> None:
    """Let time go by, and then end the flow; nothing may be heard any more."""
    engine = owner.engine
    state = engine.state
    for now in range(0, 100, 2):
        engine.handle_timer(float(now))
    owner.work()
    if engine.next_timer() is not None:
        raise Violation(f"not ended by silence, but {engine.state}")
    engine.close()
    for message in given.messages:
        if engine.receive(message) is not None or engine.messages_to_send():
            raise Violation("something was heard after the end")
    engine.state = state  # for the outcome


def run_inputs(seed: int, numbers: range) -> Counter[str]:
    """Do the inputs of these numbers."""
    outcomes = Counter[str]()
    for number in numbers:
        given = generate(Random(f"mtl {seed}:{number}"))
        try:
            outcomes[play(given)] += 1
        except Exception as error:
            raise Violation(f"{error!r}\n  seed {seed}, input {number}, a {given.describe()}") from error
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    options = parse(__doc__, arguments)
    return fuzz(options, BATCH, lambda numbers: run_inputs(options.seed, numbers))


if __name__ == "__main__":
    sys.exit(main())
