"""How ZMTP's engine is fuzzed in both roles: inputs, the party behind an engine, and what must hold."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Literal, NamedTuple

from triomq.protocols.zmtp import (
    EndOfStream,
    ErrorReceived,
    Failed,
    LoginRequested,
    MessagesReceived,
    Opened,
    Settings,
    TopicCancelled,
    TopicSubscribed,
    ZMTPClientEngine,
    ZMTPServerEngine,
)

from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .loop import Violation

Role = Literal["server", "publisher", "client"]
Mechanism = Literal["NULL", "PLAIN"]

LARGEST = 4096
_AHEAD = 3900
"""Octets that a client of PLAIN says in all: what it may send ahead of an answer is bounded, so a cut would count."""

_ENDS = (Failed, EndOfStream, ErrorReceived)
_TYPES: dict[str, str] = {"server": "ROUTER", "publisher": "XPUB", "client": "DEALER"}
_PEERS: dict[str, bytes] = {"server": b"DEALER", "publisher": b"SUB", "client": b"ROUTER"}


class Input(NamedTuple):
    """One input.

    Args:
        role: Of the engine.
        mechanism: Of both sides.
        old: Whether a server takes old peers.
        refuses: Whether a server refuses the password.
        data: All that the other side says, spoilt or not.
    """

    role: Role
    mechanism: Mechanism
    old: bool
    refuses: bool
    data: bytes

    def describe(self) -> str:
        return f"{self.role}, {self.mechanism}, old {self.old}, refuses {self.refuses}: {self.data.hex()}"


def command(name: bytes, data: bytes = b"") -> bytes:
    body = bytes([len(name)]) + name + data
    return (b"\x04" + bytes([len(body)]) if len(body) < 256 else b"\x06" + len(body).to_bytes(8, "big")) + body


def _properties(kind: bytes, identity: bytes = b"") -> bytes:
    values = ((b"Socket-Type", kind), (b"Identity", identity))
    return b"".join(bytes([len(n)]) + n + len(value).to_bytes(4, "big") + value for n, value in values)


def opening(random: Random, role: Role, mechanism: Mechanism) -> list[bytes]:
    """Return the words of a handshake that is in order."""
    minor = random.choice((0, 1, 1))
    greeting = b"\xff" + bytes(8) + b"\x7f" + bytes((3, minor)) + mechanism.encode().ljust(20, b"\0") + bytes(32)
    properties = _properties(_PEERS[role], random.choice((b"", b"me", b"\0x")))
    if mechanism == "NULL":
        return [greeting, command(b"READY", properties)]
    if role == "client":
        return [greeting, command(b"WELCOME"), command(b"READY", properties)]
    return [greeting, command(b"HELLO", b"\x03ada\x06secret"), command(b"INITIATE", properties)]


def _old_opening(random: Random) -> list[bytes]:
    if random.random() < 0.5:
        return [b"\x01\x00", *(bytes((random.randrange(1, 9), random.randrange(3))) + b"x" * 7 for _ in range(3))]
    return [b"\xff" + bytes(8) + b"\x7f", bytes((random.randrange(2), random.choice((3, 5, 6, 2)))), b"\x00\x00"]


def say(random: Random) -> bytes:
    """Return a message, or a command, that is in order, or nearly."""
    match random.randrange(10):
        case 0:
            return command(b"PING", bytes(2) + b"c" * random.randrange(20))
        case 1:
            return command(random.choice((b"SUBSCRIBE", b"CANCEL")), b"t" * random.choice((0, 1, 5, 1024, 1025)))
        case 2:
            return command(random.choice((b"PONG", b"JOIN", b"READY", b"WHAT")), random.randbytes(3))
        case 3:
            return b"\x00\x02" + random.choice((b"\0t", b"\1t"))
        case 4:
            return b"\x01\x00" * random.choice((1, 63, 64, 70)) + b"\x00\x00"
        case 5:
            size = random.choice((0, 300, LARGEST, LARGEST + 1))
            return b"\x02" + size.to_bytes(8, "big") + bytes(size)
        case _:
            parts = [random.randbytes(random.randrange(6)) for _ in range(random.randrange(1, 5))]
            heads = [1] * (len(parts) - 1) + [0]
            return b"".join(bytes((more, len(part))) + part for more, part in zip(heads, parts, strict=True))


def _spoilt(random: Random, words: list[bytes]) -> list[bytes]:
    for _ in range(random.choice((0, 0, 1, 1, 2, 5))):
        place = random.randrange(len(words) + 1)
        match random.randrange(6):
            case 0:
                words[place:place] = [random.randbytes(random.randrange(12))]
            case 1:
                del words[place : place + 1]
            case 2 if place < len(words) and words[place]:
                octets = bytearray(words[place])
                octets[random.randrange(len(octets))] = random.choice((0, 1, 4, 6, 127, 255, random.randrange(256)))
                words[place] = bytes(octets)
            case 3 if place < len(words):
                words[place] = words[place][: random.randrange(len(words[place]) + 1)]
            case 4 if place < len(words):
                words.insert(random.randrange(len(words)), words[place])
            case _:
                words.insert(place, command(b"ERROR", random.choice((b"\x03400", b"", b"\x09x"))))
    return words


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt somewhere, or plain noise."""
    role: Role = random.choice(("server", "server", "publisher", "client"))
    mechanism: Mechanism = random.choice(("NULL", "NULL", "PLAIN"))
    old = role == "server" and mechanism == "NULL" and random.random() < 0.3
    refuses = random.random() < 0.1
    if random.random() < 0.05:
        return Input(role, mechanism, old, refuses, random.randbytes(random.randrange(200)))
    words = _old_opening(random) if old and random.random() < 0.7 else opening(random, role, mechanism)
    spared = len(words) if random.random() < 0.75 else 0  # most is to be found behind the opening
    words += [say(random) for _ in range(random.randrange(12))]
    data = b"".join(words[:spared] + _spoilt(random, words[spared:]))
    if mechanism == "PLAIN" and role != "client":
        data = data[:_AHEAD]
    return Input(role, mechanism, old, refuses, data)


class Side(EngineDriver):
    """The party behind one engine: judges passwords, keeps subscriptions, and asks for nothing."""

    def __init__(self, given: Input) -> None:
        super().__init__()
        self.given = given
        kind: Any = ZMTPClientEngine if given.role == "client" else ZMTPServerEngine
        self.engine: Any = kind(
            now=0.0,
            settings=Settings(
                socket_type=_TYPES[given.role],  # type: ignore[arg-type]
                mechanism=given.mechanism,
                user="ada",
                password="secret",
                old_peers=given.old,
                max_frame=LARGEST,
                max_message=4 * LARGEST,
                heartbeat=5.0,
            ),
        )
        self.work()

    def work(self) -> None:
        """Take events until there are none and nothing is left to read."""
        while (events := self.engine.events()) or self.engine.has_more:
            self.events += events
            for event in events:
                self.act(event)
        self.sent += self.engine.data_to_send()

    def act(self, event: Any) -> None:
        match event:
            case LoginRequested():
                self.engine.refuse() if self.given.refuses else self.engine.accept()
            case TopicSubscribed(topic):
                self.engine.keep(topic)
            case TopicCancelled(topic):
                self.engine.drop(topic)

    @property
    def messages(self) -> list[list[bytes]]:
        return [m for event in self.events if isinstance(event, MessagesReceived) for m in event.messages]

    @property
    def others(self) -> list[Any]:
        return [event for event in self.events if not isinstance(event, MessagesReceived)]

    @property
    def ending(self) -> str:
        last = self.events[-1] if self.events else None
        return f"failed {last.code}" if isinstance(last, Failed) else str(self.engine.state)


class ZMTPFuzz(EngineFuzz[Input, Side]):
    """ZMTP's engine in both roles: the same octets come to the same, however they are cut, and within its limits."""

    name = "zmtp "
    floods = ("noise", "a frame in drops", "messages", "parts", "pings", "subscriptions")

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
        side = Side(given)
        now = 0.0
        for piece in pieces:
            if piece:
                side.feed(piece)
            if active:
                now += 0.7
                side.engine.handle_timer(now)
                side.work()
        return side

    def check(self, whole: Side) -> None:
        for place, event in enumerate(whole.events):
            if isinstance(event, _ENDS) and place + 1 < len(whole.events):
                raise Violation(f"after {event} came {whole.events[place + 1 :]}")
        opened = [event for event in whole.events if isinstance(event, Opened)]
        if len(opened) > 1 or (whole.messages and not opened):
            raise Violation(f"opened {len(opened)} times, and {len(whole.messages)} messages came")
        for message in whole.messages:
            if not 1 <= len(message) <= 64 or sum(map(len, message)) > 4 * LARGEST:
                raise Violation(f"a message has {len(message)} parts of {sum(map(len, message))} octets")

    def compare(self, whole: Side, other: Side, how: str) -> None:
        if (whole.messages, whole.others, whole.octets) != (other.messages, other.others, other.octets):
            raise Violation(
                f"{how} it came to {other.events} and sent {other.octets!r}, "
                f"in one piece to {whole.events} and sent {whole.octets!r}"
            )

    def check_retained(self, driver: Side, fed: int) -> None:
        limit = min(2 * fed + SLACK, 16 * LARGEST + 3 * SLACK)
        if (held := retained(driver.engine)) > limit:
            raise Violation(f"{held} octets are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Side) -> str:
        return f"{driver.given.role}: {driver.ending}"

    def make_flood(self, name: str, random: Random) -> Flood:
        role: Role = "publisher" if name == "subscriptions" else "server"
        side = Side(Input(role, "NULL", old=False, refuses=False, data=b""))
        for word in opening(random, role, "NULL"):
            side.feed(word)
        return Flood(side, _flood(name, random), 800)


def _flood(name: str, random: Random) -> Iterator[bytes]:
    if name == "a frame in drops":
        yield b"\x02" + LARGEST.to_bytes(8, "big")
    number = 0
    while True:
        number += 1
        match name:
            case "noise":
                yield random.randbytes(16 * 1024)
            case "a frame in drops":
                yield b"x" * random.randrange(1, 4)
            case "messages":
                yield b"\x00\x01x" * 2000
            case "parts":
                yield b"\x01\x00" * random.randrange(9)
            case "pings":
                yield command(b"PING", bytes(18)) * 50
            case _:
                yield command(b"SUBSCRIBE", b"%d" % number * 20)
