"""One input against engines of direct connections: what is fed, what is done behind them, and what must hold."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Literal, NamedTuple

from triomq.protocols.dmp import (
    CODE_NAMES,
    PROTOCOL_HEADER,
    DMPEngine,
    EndOfStream,
    Event,
    Failed,
    LeasePresented,
    MessageRun,
    Ready,
    RefusalReceived,
    Settings,
    Silent,
    Target,
)
from triomq.protocols.dmp.engine import HELD_MAX
from triomq.protocols.dmp.messages import REMEMBERED

from .dmp_oracle import MAX_MESSAGE, Message, judge, read, take_word
from .dmp_words import DIRECT, answer, messages, opening
from .engine_trial import SLACK, Role, kept
from .loop import Violation
from .mutations import spoil

Policy = Literal["accept", "late", "refuse"]

SETTINGS = Settings(max_message_size=MAX_MESSAGE)
ENVELOPES = REMEMBERED * 1200
"""Octets of the envelopes that an engine remembers: two names of 255 octets each, twice."""


class Input(NamedTuple):
    """What one trial feeds.

    Args:
        role: of the engine.
        target: what the lease is for.
        policy: what is done with a lease: accepted at once or when all has come, or refused.
        data: all that the other side says, spoilt or not.
    """

    role: Role
    target: Target
    policy: Policy
    data: bytes

    def describe(self) -> str:
        return f"{self.role} of a {self.target}, {self.policy}: {self.data.hex()}"


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt somewhere, or plain noise."""
    role: Role = random.choice(("server", "server", "client"))
    target: Target = random.choice(("sink", "sink", "feed")) if role == "server" else random.choice(("sink", "feed"))
    policy: Policy = random.choice(("accept",) * 6 + ("late", "late", "refuse"))
    if random.random() < 0.05:
        return Input(role, target, policy, random.randbytes(random.randrange(200)))
    words = opening(role)
    if role == "client" and random.random() < 0.3:
        words.insert(random.randrange(3), answer(random))
    spared = random.choice((0, 2, 2, 2, 2))  # most of what is to be found lies behind an opening that is in order
    following = messages(random) if (role, target) != ("client", "sink") else [answer(random)] * random.randrange(2)
    return Input(role, target, policy, b"".join(words[:spared] + spoil(random, words[spared:] + following, DIRECT)))


class Side:
    """The driver of one engine; ``active`` sends messages where they may be sent."""

    def __init__(self, what: Input, *, active: bool = False) -> None:
        self.engine = DMPEngine(what.role, now=0.0, settings=SETTINGS, lease="lease", target=what.target)
        self.what = what
        self.events: list[Event] = []
        self.said: list[bytes | memoryview] = []
        self._active = active
        self._late = False
        self.work()

    def feed(self, data: bytes) -> None:
        self.engine.receive_data(data)
        self.work()

    def work(self) -> None:
        """Take events until there are none, act on them, take what is to be sent."""
        while events := self.engine.events():
            self.events += events
            for event in events:
                self._act(event)
        if self._active and self.engine.state == "writing":
            self.engine.send_message("e", "k", b"\0\0", b"ours", mandatory=True)
        self.said += self.engine.data_to_send()

    def _act(self, event: Event) -> None:
        if isinstance(event, LeasePresented):
            if self.what.policy == "late":
                self._late = True
            else:
                self._answer()

    def _answer(self) -> None:
        if self.what.policy == "refuse":
            self.engine.refuse(402, "no")
        elif self.what.target == "sink":
            self.engine.accept_sink("s")
        else:
            self.engine.accept_feed("f")

    def finish(self) -> None:
        """Judge a lease that was put off until all has come."""
        if self._late:
            self._late = False
            self._answer()
            self.work()

    @property
    def ending(self) -> str:
        """How far the conversation has come."""
        for event in self.events:
            if isinstance(event, Failed):
                return f"failed {event.code}"
            if isinstance(event, RefusalReceived):
                return f"refused {event.code}"
        return self.engine.state


def run(what: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
    """Feed the input in pieces; the time passes too, if it is active."""
    side = Side(what, active=active)
    now = 0.0
    for piece in pieces:
        if piece:
            side.feed(piece)
        if active:
            now += 0.7
            side.engine.handle_timer(now)
    side.finish()
    return side


# What must hold


def messages_of(side: Side) -> list[Message]:
    """Take the runs of a side apart."""
    found = []
    for event in side.events:
        if isinstance(event, MessageRun):
            shape = event.envelope
            if event.size != sum(map(len, event.contents)):
                raise Violation(f"a run of {event.size} octets has {sum(map(len, event.contents))}")
            for content in event.contents:
                names = (name.encode("utf-8", "surrogateescape") for name in (shape.exchange, shape.routing_key))
                found.append(Message(*names, shape.properties(content), shape.options, shape.body(content)))
                if int.from_bytes(content[:4], "big") != len(content) - 4 or read(content[4:]) != found[-1]:
                    raise Violation(f"a run has {content.hex()}, which is not the message {found[-1]}")
    return found


def check(side: Side) -> None:
    """Hold what was told against the simplest way to read it, and what was said against what may be."""
    what = side.what
    verdict = judge(what.role, what.target, what.policy != "refuse", what.data)
    if (messages_of(side), side.ending) != verdict:
        raise Violation(f"came to {side.ending} with {messages_of(side)}; to be expected was {verdict}")
    check_events(side.events)
    check_said(what, b"".join(side.said))


_ENDS = (Failed, RefusalReceived, EndOfStream, Silent)


def check_events(events: Sequence[Event]) -> None:
    """Nothing follows the end, and a lease or a readiness is told once."""
    for place, event in enumerate(events):
        if isinstance(event, _ENDS) and place + 1 < len(events):
            raise Violation(f"after {event} came {events[place + 1 :]}")
    for kind in (LeasePresented, Ready):
        if sum(isinstance(event, kind) for event in events) > 1:
            raise Violation(f"{kind.__name__} came more than once")


def check_said(what: Input, said: bytes) -> None:
    """A server says a header, or answers of which only the last may be a refusal; a client its header and its lease."""
    if what.role == "client":
        if said not in (PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x05lease"):
            raise Violation(f"a client said {said!r}")
        return
    if said and said != PROTOCOL_HEADER:
        check_answers(said, what.target)


def check_answers(said: bytes, target: Target) -> None:
    """A server greets, says yes, and may refuse at any time as its last word; on a feed messages come instead."""
    for number in range(3):
        if not said or (number == 2 and target == "feed"):
            break
        word, said = take_word(said)
        code = int(word[:3]) if word and word[:3].isdigit() else 0
        if not word or not word.startswith(f"{code} {CODE_NAMES.get(code)}".encode()) or (code == 200 and number == 2):
            raise Violation(f"answer {number + 1} of a {target} is {word!r}, with {said!r} behind it")
        if code != 200:
            if said:
                raise Violation(f"after {word!r} came {said!r}")
            return
    while said:
        size = int.from_bytes(said[:4], "big")
        if len(said) < 4 + size:
            raise Violation(f"a feed ended with {said!r}")
        if size:
            read(said[4 : 4 + size])
        said = said[4 + size :]


def check_same(whole: Side, other: Side, how: str) -> None:
    """However a stream is cut, the same is told and the same is said."""
    told, others = (messages_of(side) for side in (whole, other))
    if (told, whole.ending) != (others, other.ending):
        raise Violation(f"{how} it came to {other.ending} with {others}, in one piece to {whole.ending} with {told}")
    check_events(other.events)
    check_said(other.what, b"".join(other.said))


def check_end(side: Side) -> None:
    """Whatever came before: an engine whose stream has ended is done, and hears and says nothing more."""
    side.feed(b"")
    told, said = len(side.events), len(side.said)
    side.feed(b"more")
    side.engine.handle_timer(1e9)
    side.work()
    if not side.engine.finished or side.engine.next_timer() is not None:
        raise Violation(f"not finished at the end of the stream, but {side.engine.state}")
    if (len(side.events), len(side.said)) != (told, said):
        raise Violation(f"after the end came {side.events[told:]} and {side.said[said:]}")


def check_kept(side: Side, fed: int) -> None:
    """What is kept is bounded by what came, and by the limits however much that was."""
    limit = min(2 * fed + SLACK, 3 * MAX_MESSAGE + ENVELOPES + HELD_MAX + 2 * SLACK)
    if (held := kept(side.engine)) > limit:
        raise Violation(f"{held} octets are kept of {fed} that came; at most {limit} may be")
