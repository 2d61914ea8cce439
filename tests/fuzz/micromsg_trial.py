"""How MicroMsg2's engine is fuzzed in both roles: inputs, the party behind an engine, and what must hold."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Literal, NamedTuple

from triomq.protocols.micromsg import (
    EndOfStream,
    ErrorReceived,
    ExtensionReceived,
    Failed,
    HandshakeExtension,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgClient,
    MicroMsgServer,
    Settings,
    SubscribeAsked,
    UnsubscribeAsked,
)
from triomq.protocols.micromsg.codes import PeerError, printable
from triomq.protocols.micromsg.commands import parse_answer, parse_command
from triomq.protocols.micromsg.properties import read_properties
from triomq.protocols.micromsg.settings import LONGEST_COMMAND, LONGEST_TYPE

from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .loop import Violation
from .micromsg_words import CHOSEN, MICROMSG, conversation, framed, opening
from .mutations import spoil

Role = Literal["server", "client"]

MAX_PAYLOAD, MAX_MESSAGE = 1024, 2048
SENT = 3
"""Messages that a side sends at first, for acks to come."""
_ENDS = (Failed, EndOfStream, ErrorReceived)


class Input(NamedTuple):
    """One input.

    Args:
        role: of the engine.
        window: messages that may be unacknowledged.
        accepts: whether what comes is safe at once; else it never is.
        words: all that the other side says, spoilt or not.
        spared: how many of the first of them are the handshakes as they should be.
    """

    role: Role
    window: int
    accepts: bool
    words: tuple[bytes, ...]
    spared: int

    @property
    def data(self) -> bytes:
        return b"".join(self.words)

    def describe(self) -> str:
        return f"{self.role}, window {self.window}, accepts {self.accepts}: {self.data.hex()}"


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt somewhere, or plain noise."""
    role: Role = random.choice(("server", "server", "client"))
    # With a small window that never opens, or a large one that is never full: so cuts make no difference.
    accepts = random.random() < 0.8
    window = 1000 if accepts else random.choice((1, 5, 20))
    if random.random() < 0.03:
        return Input(role, window, accepts, (random.randbytes(random.randrange(200)),), 0)
    words, following = opening(role, window), conversation(random, role)
    if random.random() < 0.15:
        return Input(role, window, accepts, tuple(spoil(random, words + following, MICROMSG)), 0)
    return Input(role, window, accepts, (*words, *spoil(random, following, MICROMSG)), len(words))


class Side(EngineDriver):
    """The party behind one engine, which sends three messages, and takes whatever comes."""

    def __init__(self, given: Input) -> None:
        super().__init__()
        self.given = given
        settings = Settings(
            optional=tuple(map(HandshakeExtension, CHOSEN)),
            window=given.window,
            max_payload=MAX_PAYLOAD,
            max_message=MAX_MESSAGE,
            max_conditions=16,
        )
        self.engine: Any = (MicroMsgServer if given.role == "server" else MicroMsgClient)(now=0.0, settings=settings)
        self._has_sent = False
        self.work()

    def act(self, event: Any) -> None:
        engine = self.engine
        match event:
            case MicroMessageRun(contents=contents, size=size):
                if size != sum(map(len, contents)) or not contents:
                    raise Violation(f"a run of {size} octets with {contents}")
                if self.given.accepts:
                    engine.accept(event.last)
            case SubscribeAsked(number=number) | UnsubscribeAsked(number=number):
                engine.answer_command(number, 200, "done")
            case _:
                pass

    def act_unasked(self) -> None:
        if self.given.spared and self.engine.state == "open" and not self._has_sent:
            self._has_sent = True
            self.engine.send_messages("queue", b"a:N1;", [b"x"] * min(SENT, self.given.window))

    @property
    def flat(self) -> list[object]:
        """The events, with messages one by one."""
        found: list[object] = []
        for event in self.events:
            if isinstance(event, MicroMessageRun):
                for number, (shape, content) in enumerate(event.messages(), event.first):
                    found.append((number, shape.destination, dict(shape.values), shape.body(content)))
                    if content[2 : shape.properties_stop] != shape.properties:
                        raise Violation(f"{content!r} has not the properties {shape.properties!r}")
            else:
                found.append(event)
        return found

    def said(self) -> tuple[list[bytes], list[int]]:
        """Return what was sent but for acks, in any order, and the numbers of these."""
        data, position, others, acks = self.octets, 0, [], []
        for _ in range(1 if self.given.role == "server" else 2):
            if data[position : position + 1] == b"\1":
                stop = position + 4 + data[position + 3]
                for _ in range(2):
                    stop += 2 + int.from_bytes(data[stop : stop + 2], "big")
                others.append(data[position:stop])
                position = stop
        while position < len(data):
            start, position = position, _frame_end(data, position)
            frame = data[start:position]
            if frame[0] == 2 and frame[1] == 1:
                acks.append(int.from_bytes(frame[3:], "big"))
            else:
                others.append(frame)
        # What the engine answers itself overtakes answers of its owner's: they have numbers.
        return sorted(others), acks

    @property
    def ending(self) -> str:
        """How far the conversation has come."""
        for event in self.events:
            if isinstance(event, Failed):
                return f"failed {event.code}"
            if isinstance(event, ErrorReceived):
                return "heard ERROR"
        return str(self.engine.state)


def _frame_end(data: bytes, position: int) -> int:
    """Return where a frame that was sent ends."""
    flags = data[position]
    at = position + (2 if flags & 2 else 1)
    if not flags & 7:
        at = position + 4 + data[position + 3]
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    start = at + (4 if flags & 8 else 1)
    return start + int.from_bytes(data[at:start], "big")


# The simplest way to read the same octets


class Judge:
    """Reads frames one by one, behind handshakes as they should be."""

    def __init__(self, given: Input) -> None:
        self.given = given
        self.found: list[object] = []
        self.received = self.commands = 0
        self.due, self.last = 1, 0
        self.series: list[Any] = []
        self.type_name = ""
        self.outstanding = list(range(1, min(SENT, given.window) + 1))
        self.acked = 0

    def read(self, data: bytes) -> bool:
        """Read all frames; return whether the connection has ended by one."""
        position = 0
        while position < len(data):
            step = self.frame(data[position:])
            if step is None:
                return True
            if not step:
                return False
            position += step
        return False

    def frame(self, data: bytes) -> int | None:
        """Read one frame: how long it is, 0 if it is not whole, None if the connection ends."""
        flags, kind = data[0], data[0] & 7
        if flags & 0xE0 or kind in (3, 5, 6, 7) or (kind and flags & 16):
            return None
        if kind:
            return self.other(data, flags, kind)
        behind = 4 + data[3] if len(data) > 3 else len(data)
        if len(data) < behind + 2:
            return 0
        stop = behind + 2 + int.from_bytes(data[behind : behind + 2], "big")
        start = stop + (4 if flags & 8 else 1)
        if len(data) < start:
            return 0
        size = int.from_bytes(data[stop:start], "big")
        if size > MAX_PAYLOAD:
            return None
        if len(data) < start + size:
            return 0
        properties, body = data[behind + 2 : stop], data[start : start + size]
        is_new = self.number(int.from_bytes(data[1:3], "big"))
        if is_new is None or (is_new and not self.message(flags, data[4:behind], properties, body)):
            return None
        return start + size

    def number(self, sequence: int) -> bool | None:
        """Judge a sequence number: whether the message is new, or None if it is a fault."""
        if sequence == self.due:
            return True
        if self.series or not sequence:
            return None
        if (self.last - sequence) % 65535 < min(self.given.window, self.received):
            return False
        self.due, self.last = sequence, (sequence - 2) % 65535 + 1
        return True

    def message(self, flags: int, destination: bytes, properties: bytes, body: bytes) -> bool:
        """Take a message, or a frame of one; return whether it is in order."""
        if not self.series:
            try:
                values = read_properties(properties)
                name = destination.decode()
            except (PeerError, UnicodeDecodeError):
                return False
            if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
                return False
            values.setdefault("content-type", "application/json")
            if self.type_name:
                values.setdefault("type", self.type_name)
            self.series = [name, values, body]
        else:
            self.series[2] += body
        if len(self.series[2]) > MAX_MESSAGE:
            return False
        if flags & 16:
            return True
        self.received += 1
        self.due, self.last = self.due % 65535 + 1, self.due
        (name, values, body), self.series = self.series, []
        if not self.given.accepts and self.received > self.given.window:
            return False
        self.found.append((self.received, name, values, body))
        return True

    def other(self, data: bytes, flags: int, kind: int) -> int | None:
        at = 2 if kind == 2 else 1
        start = at + (4 if flags & 8 else 1)
        if len(data) < start:
            return 0
        size = int.from_bytes(data[at:start], "big")
        if kind == 4:
            size = min(size, 1024)
        elif size > (LONGEST_COMMAND if kind == 1 else MAX_PAYLOAD):
            return None
        if len(data) < start + size:
            return 0
        payload = data[start : start + size]
        if kind == 4:
            text = printable(payload)
            has_code = text[:3].isdigit() and text[:3].isascii() and len(text) >= 3 and text[3:4] in ("", " ")
            self.found.append(ErrorReceived(int(text[:3]), text[4:]) if has_code else ErrorReceived(0, text))
            return None
        try:
            is_right = self.command(payload) if kind == 1 else self.extension(data[1], payload)
        except (PeerError, UnicodeDecodeError):
            return None
        return start + size if is_right else None

    def command(self, payload: bytes) -> bool:
        if self.given.role == "client":
            return False
        self.commands += 1
        try:
            self.found.append(parse_command(payload, self.commands, 16))
        except PeerError:
            pass  # which is answered
        return True

    def extension(self, number: int, payload: bytes) -> bool:
        if not 1 <= number <= len(CHOSEN):
            return False
        name = CHOSEN[number - 1]
        if name == "batch-ack":
            return self.ack(payload)
        if name == "dotnet":
            self.type_name = payload.decode()
            return len(payload) <= LONGEST_TYPE
        if name == "x-mine":
            self.found.append(ExtensionReceived(name, payload))
        elif name == "x-reply" and self.given.role == "client":
            self.found.append(parse_answer(payload))
        return True

    def ack(self, payload: bytes) -> bool:
        sequence = int.from_bytes(payload, "big")
        if len(payload) == 2 and sequence in self.outstanding:
            count = self.outstanding.index(sequence) + 1
            del self.outstanding[:count]
            self.found.append(MessagesAcked(sequence, count))
        return len(payload) == 2


class MicroMsgFuzz(EngineFuzz[Input, Side]):
    """MicroMsg2's engine in both roles, held against the simplest way to read the same octets."""

    name = "micromsg "
    floods = ("noise", "messages", "jumps", "shapes", "types", "parts", "a frame in drops", "a handshake in drops")

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
        side = Side(given)
        now = 0.0
        for piece in _apart(pieces, sum(map(len, given.words[: given.spared]))):
            if piece:
                side.feed(piece)
            if active:
                now += 0.7
                side.engine.handle_timer(now)
        return side

    def check(self, whole: Side) -> None:
        given = whole.given
        for place, event in enumerate(whole.events):
            if isinstance(event, _ENDS) and place + 1 < len(whole.events):
                raise Violation(f"after {event} came {whole.events[place + 1 :]}")
        _, acks = whole.said()
        received = sum(len(event.contents) for event in whole.events if isinstance(event, MicroMessageRun))
        if acks and not (received and given.accepts):
            raise Violation(f"acks {acks} for {received} messages")
        if not given.spared:
            return
        judge = Judge(given)
        ended = judge.read(b"".join(given.words[given.spared :]))
        heard = [event for event in whole.flat[1:] if not isinstance(event, Failed)]
        if heard != judge.found or whole.engine.outbox.finished != ended:
            raise Violation(
                f"came to {whole.ending} with {heard}; expected was {judge.found}, {'' if ended else 'not '}ended"
            )

    def compare(self, whole: Side, other: Side, how: str) -> None:
        if not whole.given.spared and any(isinstance(each, Failed) and each.code == 409 for each in whole.events):
            return  # a window of its own: how much is accepted in time depends on the cuts
        (octets, acks), (other_octets, other_acks) = whole.said(), other.said()
        same = octets == other_octets or whole.engine.outbox.finished
        if whole.flat != other.flat or not same:
            raise Violation(
                f"{how} it came to {other.flat} and sent {other_octets}, in one piece to {whole.flat} and sent {octets}"
            )
        if bool(acks) and not other_acks:
            raise Violation(f"{how} there was no ack, in one piece {acks}")
        if whole.engine.statistics() != other.engine.statistics():
            raise Violation(f"{how} {other.engine.statistics()}, in one piece {whole.engine.statistics()}")

    def check_retained(self, driver: Side, fed: int) -> None:
        # A frame that is not whole, a message in several, and shapes: octets, texts and the values of each.
        limit = min(8 * fed + SLACK, 2 * MAX_PAYLOAD + MAX_MESSAGE + 1024 * 4096 + 2 * SLACK)
        if (held := retained(driver.engine)) > limit:
            raise Violation(f"{held} octets are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Side) -> str:
        return f"{driver.given.role}: {driver.ending}"

    def make_flood(self, name: str, random: Random) -> Flood:
        side = Side(Input("server", 1000, True, (), 0))
        if name != "a handshake in drops":
            for word in opening("server", 1000):
                side.feed(word)
        return Flood(side, _flood(name, random), 3000)


def _flood(name: str, random: Random) -> Iterator[bytes]:
    number = 0
    if name == "a frame in drops":
        yield b"\x08\0\1\0\0\0\0\0\4\0"
    elif name == "a handshake in drops":
        yield b"\1\0\0\4fuzz\x0f\xff"
    while True:
        number += 1
        sequence = number % 65535 or 65535
        match name:
            case "noise":
                yield random.randbytes(16 * 1024)
            case "messages":
                yield framed(0, sequence, b"queue", b"a:N10;", bytes(100))
            case "jumps":
                yield framed(0, number * 3 % 65535 + 1, b"queue", b"", b"x")
            case "shapes":
                yield framed(0, sequence, b"queue", b"a:T%05d;" % number + b"c:T" + b"y" * 300, b"x")
            case "types":
                text = b"Type%d" % number
                yield bytes((2, 3, len(text))) + text + framed(0, sequence, b"queue", b"", b"x")
            case "parts":
                yield framed(16, 1, b"queue", b"", b"" if number > 20 else bytes(100))
            case _:
                yield b"x" * random.randrange(1, 4)


def _apart(pieces: Iterable[bytes], place: int) -> Iterator[bytes]:
    """Cut pieces at one place more, so that a side has sent its messages before they are acknowledged."""
    for piece in pieces:
        if 0 < place < len(piece):
            yield piece[:place]
            yield piece[place:]
        else:
            yield piece
        place -= len(piece)
