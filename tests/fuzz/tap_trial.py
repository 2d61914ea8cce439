"""How tap's engine is fuzzed in both roles: inputs, the party behind an engine, and what must hold."""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec

from triomq.protocols.tap import (
    AckAsked,
    ChallengeAnswered,
    EndOfStream,
    Failed,
    FetchAsked,
    LeaseAsked,
    ListAsked,
    LoginChallenged,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    ServerClosing,
    ServerGreeting,
    Settings,
    TapClientEngine,
    TapRequest,
    TapServerEngine,
    Welcomed,
)
from triomq.protocols.tap.engine import HELD_MAX
from triomq.protocols.tap.messages import ANSWERED_BY, ClientMessage, ServerMessage
from triomq.protocols.tap.settings import FIRST_FRAMES, LEAST_FRAME
from triomq.protocols.tap.states import CLIENT, SERVER

from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .loop import Violation
from .mutations import spoil
from .tap_words import TAP, answer, framed, opening, request

Role = Literal["server", "client"]
Policy = Literal["accept", "challenge", "late", "deny"]

SETTINGS = Settings(max_frame=LEAST_FRAME)
BOUNDS = PartitionBounds(7, 0, 9)
_ENDS = (Failed, EndOfStream, ServerClosing)


class Input(NamedTuple):
    """One input.

    Args:
        role: of the engine.
        policy: what a server does with a log-in: lets the client in, at once or when all has come, asks once more
            first, or denies it. A client always goes on.
        data: all that the other side says, spoilt or not.
        opening: how many bytes of it a client gets first, before it asks anything that the rest may answer.
    """

    role: Role
    policy: Policy
    data: bytes
    opening: int = 0

    def describe(self) -> str:
        return f"{self.role}, {self.policy}: {self.data.hex()}"


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt somewhere, or plain noise."""
    role: Role = random.choice(("server", "server", "client"))
    policy: Policy = random.choice(("accept",) * 6 + ("challenge", "late", "deny")) if role == "server" else "accept"
    if random.random() < 0.05:
        return Input(role, policy, random.randbytes(random.randrange(200)))
    words = opening(role)
    if policy == "challenge":
        words.append(framed((2, b"response")))
    elif role == "client" and random.random() < 0.2:
        words.insert(1, framed((1, b"challenge")))
    spared = len(words) if random.random() < 0.75 else 0  # most is to be found behind the opening
    say: Callable[[Random, int], bytes] = request if role == "server" else answer
    following = [say(random, number) for number in range(1, random.randrange(1, 12))]
    if role == "client":
        first = b"".join(words if spared else spoil(random, words, TAP))
        return Input(role, policy, first + b"".join(spoil(random, following, TAP)), len(first))
    return Input(role, policy, b"".join(words[:spared] + spoil(random, words[spared:] + following, TAP)))


class Side(EngineDriver):
    """The party behind one engine: a server that answers whatever it is asked, or a client that asks ten things."""

    def __init__(self, given: Input) -> None:
        super().__init__()
        self.given = given
        self.engine: Any = (TapServerEngine if given.role == "server" else TapClientEngine)(now=0.0, settings=SETTINGS)
        self._late = False
        self.work()

    def act(self, event: Any) -> None:
        engine = self.engine
        match event:
            case LoginRequested():
                if self.given.policy == "late":
                    self._late = True
                elif self.given.policy == "deny":
                    engine.close("DENIED", "no")
                elif self.given.policy == "challenge":
                    engine.challenge(b"more")
                else:
                    engine.welcome()
            case ChallengeAnswered():
                engine.welcome()
            case ServerGreeting():
                engine.log_in("PLAIN", b"\0guest\0guest")
            case LoginChallenged():
                engine.respond(b"more")
            case Welcomed(max_frame=size):
                if size > 1000:
                    for _ in range(4):
                        engine.ping()
                        engine.offsets("orders")
                        engine.fetch("orders", 0, None, 0, most_bytes=1000)
            case OffsetsAsked(number=number):
                engine.bounds(number, [BOUNDS])
            case LeaseAsked(number=number):
                engine.leased(number, BOUNDS, 5)
            case ListAsked(number=number):
                engine.streams(number, ["orders"])
            case FetchAsked(number=number):
                engine.records(number, BOUNDS, [b"chunk"])
            case AckAsked(number=number):
                engine.refuse(number, "FORBIDDEN", "no")
            case TapRequest(number=number) if self.given.role == "server":
                engine.done(number)

    def finish(self) -> None:
        """Judge a log-in that waits until all has come."""
        if self._late:
            self._late = False
            self.engine.welcome()
            self.work()

    @property
    def ending(self) -> str:
        """How far the conversation has come."""
        for event in self.events:
            if isinstance(event, Failed):
                return f"failed {event.code}"
            if isinstance(event, ServerClosing):
                return "closed"
        return str(self.engine.state)


# The simplest way to read the same bytes


def judge(given: Input) -> tuple[list[object], bool]:
    """Return the messages that are events, and whether a fault or a CLOSE follows."""
    states, data = (SERVER if given.role == "server" else CLIENT), given.data
    kinds: Any = ClientMessage if given.role == "server" else ServerMessage
    state, found, asked = "greeting", [], 0
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        if size > (LEAST_FRAME if state == "open" else FIRST_FRAMES):
            return found, True
        if len(data) < 4 + size:
            break
        try:
            message = msgspec.msgpack.decode(data[4 : 4 + size], type=kinds)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return found, True
        following = states[state].get(f"received {message.wire_name}")  # type: ignore[index]
        if following is None or (isinstance(message, ServerGreeting) and message.version != 1):
            return found, True
        if given.role == "client" and isinstance(message, TapRequest):
            asked += 1
            right = (16, 17, 18)[(asked - 1) % 3]
            if asked > 12 or message.number != asked or message.__struct_config__.tag not in (19, right):
                return found, True
        data, state = data[4 + size :], following
        if state != "login":
            found.append(message)
        if state == "closed":
            return found, True
        if state == "choosing":
            state = "judging"
        elif given.role == "server" and state == "judging":
            if given.policy == "deny":
                return found, True
            state = "challenged" if given.policy == "challenge" and isinstance(message, LoginRequested) else "open"
        elif given.role == "client" and state == "challenged":
            state = "judging"
        if isinstance(message, Welcomed) and message.max_frame <= 1000:
            asked = 12
    return found, False


class TapFuzz(EngineFuzz[Input, Side]):
    """tap's engine in both roles, held against the simplest way to read the same bytes."""

    name = "tap "
    floods = ("noise", "a frame in drops", "requests", "sent ahead", "positions")

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
        side = Side(given)
        now = 0.0
        for piece in apart(pieces, given.opening):
            if piece:
                side.feed(piece)
            if active:
                now += 0.7
                side.engine.handle_timer(now)
        side.finish()
        return side

    def check(self, whole: Side) -> None:
        found, ended = judge(whole.given)
        heard = [event for event in whole.events if not isinstance(event, Failed)]
        if heard != found or whole.engine.outbox.finished != ended:
            raise Violation(
                f"came to {whole.ending} with {heard}; expected was {found}, {'' if ended else 'not '}ended"
            )
        check_events(whole)
        check_sent(whole)

    def compare(self, whole: Side, other: Side, how: str) -> None:
        # What ends a connection overtakes answers to requests that came in the same piece.
        same = whole.octets == other.octets or whole.engine.outbox.finished
        if whole.events != other.events or not same:
            raise Violation(
                f"{how} it came to {other.events} and sent {other.octets!r}, "
                f"in one piece to {whole.events} and sent {whole.octets!r}"
            )

    def check_retained(self, driver: Side, fed: int) -> None:
        limit = min(2 * fed + SLACK, 2 * LEAST_FRAME + HELD_MAX + 2 * SLACK)
        if (held := retained(driver.engine)) > limit:
            raise Violation(f"{held} bytes are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Side) -> str:
        return f"{driver.given.role}: {driver.ending}"

    def make_flood(self, name: str, random: Random) -> Flood:
        side = Side(Input("server", "late" if name == "sent ahead" else "accept", b""))
        for word in opening("server"):
            side.feed(word)
        return Flood(side, _flood(name, random), 800)


def _flood(name: str, random: Random) -> Iterator[bytes]:
    if name == "a frame in drops":
        yield LEAST_FRAME.to_bytes(4, "big")
    while True:
        match name:
            case "noise":
                yield random.randbytes(16 * 1024)
            case "a frame in drops":
                yield b"x" * random.randrange(1, 90)
            case "positions":
                yield framed((19, 1, "o", "g", {number: (None, number) for number in range(4000)}))
            case _:
                yield b"".join(request(random, number) for number in range(100))


def apart(pieces: Iterable[bytes], place: int) -> Iterator[bytes]:
    """Cut pieces at one place more."""
    for piece in pieces:
        if 0 < place < len(piece):
            yield piece[:place]
            yield piece[place:]
        else:
            yield piece
        place -= len(piece)


def check_events(side: Side) -> None:
    """Check that nothing follows the end."""
    for place, event in enumerate(side.events):
        if isinstance(event, _ENDS) and place + 1 < len(side.events):
            raise Violation(f"after {event} came {side.events[place + 1 :]}")


def check_sent(side: Side) -> None:
    """Check that what was sent are messages of that side, a server's answers in order, and nothing behind a CLOSE."""
    kinds: Any = ServerMessage if side.given.role == "server" else ClientMessage
    sent, data = [], side.octets
    while data:
        size = int.from_bytes(data[:4], "big")
        sent.append(msgspec.msgpack.decode(data[4 : 4 + size], type=kinds))
        data = data[4 + size :]
    for place, message in enumerate(sent):
        if isinstance(message, ServerClosing) and place + 1 < len(sent):
            raise Violation(f"after {message} came {sent[place + 1 :]}")
    if side.given.role == "client":
        return
    asked = [event for event in side.events if isinstance(event, TapRequest)]
    answers = [message for message in sent if isinstance(message, TapRequest)]
    if [each.number for each in answers] != [each.number for each in asked[: len(answers)]]:
        raise Violation(f"asked was {asked}, the answers are {answers}")
    for question, reply in zip(asked, answers, strict=False):
        if not isinstance(question, AckAsked) and type(reply) is not ANSWERED_BY[type(question)]:
            raise Violation(f"{question} is answered by {reply}")
    if not side.engine.outbox.finished and len(answers) != len(asked):
        raise Violation(f"of {len(asked)} requests {len(answers)} are answered")
