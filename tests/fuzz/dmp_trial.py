"""How the engine of direct connections is fuzzed: inputs, the endpoint behind an engine, and what must hold."""

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

from .dmp_floods import FLOODS
from .dmp_oracle import MAX_MESSAGE, Message, judge, read, take_word
from .dmp_words import DIRECT, answer, messages, opening
from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .loop import Violation
from .mutations import spoil

Role = Literal["server", "client"]
Policy = Literal["accept", "late", "refuse"]

SETTINGS = Settings(max_message_size=MAX_MESSAGE)
ENVELOPES = REMEMBERED * 1200
"""Octets of the envelopes that an engine remembers: two names of 255 octets each, twice."""


class Input(NamedTuple):
    """One input.

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


class Side(EngineDriver):
    """The endpoint behind one engine; ``active`` sends messages where they may be sent."""

    def __init__(self, given: Input, *, active: bool = False) -> None:
        super().__init__()
        self.engine = DMPEngine(given.role, now=0.0, settings=SETTINGS, lease="lease", target=given.target)
        self.given = given
        self._active = active
        self._late = False
        self.work()

    def act_unasked(self) -> None:
        if self._active and self.engine.state == "writing":
            self.engine.send_message("e", "k", b"\0\0", b"ours", mandatory=True)

    def act(self, event: Event) -> None:
        if isinstance(event, LeasePresented):
            if self.given.policy == "late":
                self._late = True
            else:
                self._answer()

    def _answer(self) -> None:
        if self.given.policy == "refuse":
            self.engine.refuse(402, "no")
        elif self.given.target == "sink":
            self.engine.accept_sink("s")
        else:
            self.engine.accept_feed("f")

    def finish(self) -> None:
        """Answer a lease that waits until all has come."""
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


# What must hold


def messages_of(side: Side) -> list[Message]:
    """Return the messages of a side's runs."""
    found = []
    for event in side.events:
        if isinstance(event, MessageRun):
            if event.size != sum(map(len, event.contents)):
                raise Violation(f"a run of {event.size} octets has {sum(map(len, event.contents))}")
            if event.envelopes is not None and len(event.envelopes) != len(event.contents):
                raise Violation(f"a run of {len(event.contents)} messages has {len(event.envelopes)} envelopes")
            for shape, content in event.messages():
                names = (name.encode("utf-8", "surrogateescape") for name in (shape.exchange, shape.routing_key))
                found.append(Message(*names, shape.properties(content), shape.options, shape.body(content)))
                if int.from_bytes(content[:4], "big") != len(content) - 4 or read(content[4:]) != found[-1]:
                    raise Violation(f"a run has {content.hex()}, which is not the message {found[-1]}")
    return found


_ENDS = (Failed, RefusalReceived, EndOfStream, Silent)


def check_events(events: Sequence[Event]) -> None:
    """Check that nothing follows the end, and that a lease or a readiness comes once."""
    for place, event in enumerate(events):
        if isinstance(event, _ENDS) and place + 1 < len(events):
            raise Violation(f"after {event} came {events[place + 1 :]}")
    for kind in (LeasePresented, Ready):
        if sum(isinstance(event, kind) for event in events) > 1:
            raise Violation(f"{kind.__name__} came more than once")


def check_sent(given: Input, sent: bytes) -> None:
    """Check a server's header or answers, of which only the last may be a refusal, or a client's header and lease."""
    if given.role == "client":
        if sent not in (PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x05lease"):
            raise Violation(f"a client sent {sent!r}")
        return
    if sent and sent != PROTOCOL_HEADER:
        check_answers(sent, given.target)


def check_answers(sent: bytes, target: Target) -> None:
    """Check that a server greeted, accepted, and refused at most once, in the end; on a feed messages come instead."""
    for number in range(3):
        if not sent or (number == 2 and target == "feed"):
            break
        word, sent = take_word(sent)
        code = int(word[:3]) if word and word[:3].isdigit() else 0
        if not word or not word.startswith(f"{code} {CODE_NAMES.get(code)}".encode()) or (code == 200 and number == 2):
            raise Violation(f"answer {number + 1} of a {target} is {word!r}, with {sent!r} behind it")
        if code != 200:
            if sent:
                raise Violation(f"after {word!r} came {sent!r}")
            return
    while sent:
        size = int.from_bytes(sent[:4], "big")
        if len(sent) < 4 + size:
            raise Violation(f"a feed ended with {sent!r}")
        if size:
            read(sent[4 : 4 + size])
        sent = sent[4 + size :]


class DMPFuzz(EngineFuzz[Input, Side]):
    """The engine of direct connections in both roles, held against the simplest way to read the same octets."""

    name = "direct "
    floods = FLOODS

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
        side = Side(given, active=active)
        now = 0.0
        for piece in pieces:
            if piece:
                side.feed(piece)
            if active:
                now += 0.7
                side.engine.handle_timer(now)
        side.finish()
        return side

    def check(self, whole: Side) -> None:
        given, found = whole.given, (messages_of(whole), whole.ending)
        verdict = judge(given.role, given.target, given.policy != "refuse", given.data)
        if found != verdict:
            raise Violation(f"came to {whole.ending} with {found[0]}; expected was {verdict}")
        check_events(whole.events)
        check_sent(given, whole.octets)

    def compare(self, whole: Side, other: Side, how: str) -> None:
        first, second = (messages_of(side) for side in (whole, other))
        if (first, whole.ending) != (second, other.ending):
            raise Violation(
                f"{how} it came to {other.ending} with {second}, in one piece to {whole.ending} with {first}"
            )
        check_events(other.events)
        check_sent(other.given, other.octets)

    def check_retained(self, driver: Side, fed: int) -> None:
        limit = min(2 * fed + SLACK, 3 * MAX_MESSAGE + ENVELOPES + HELD_MAX + 2 * SLACK)
        if (held := retained(driver.engine)) > limit:
            raise Violation(f"{held} octets are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Side) -> str:
        return f"{driver.given.role} of a {driver.given.target}: {driver.ending}"

    def make_flood(self, name: str, random: Random) -> Flood:
        steps, target, policy, pieces = FLOODS[name]
        side = Side(Input("server", target, policy, b""))
        for word in opening("server")[:steps]:
            side.feed(word)
        return Flood(side, pieces(random), 800)
