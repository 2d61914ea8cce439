"""How the AMQP engine is fuzzed: inputs, the endpoint behind an engine, and what must hold."""

import struct
from collections.abc import Iterable, Sequence
from itertools import count
from random import Random
from typing import Literal, NamedTuple

from triomq.protocols.amqp import (
    AMQP_METHODS,
    AckRun,
    AMQPEngine,
    BasicAck,
    BasicDeliver,
    ChallengeAnswered,
    ChannelClosed,
    ChannelCloseOk,
    ChannelFailed,
    ChannelFlow,
    ChannelOpen,
    ChannelOpened,
    ChannelOpenOk,
    Closed,
    ConnectionCloseOk,
    DeliverRun,
    EndOfStream,
    Event,
    Failed,
    HeartbeatLost,
    Login,
    LoginRequested,
    Method,
    OpenRequested,
    PublishMix,
    PublishRun,
    Received,
    Settings,
)
from triomq.protocols.amqp.reader import HELD_MAX

from .amqp_floods import FLOODS
from .amqp_words import (
    CLIENT_OPENING,
    CLIENT_WORDS,
    FRAME_MAX,
    SECURE,
    SECURE_OK,
    SERVER_OPENING,
    SERVER_WORDS,
)
from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .loop import Violation
from .mutations import spoil

Role = Literal["server", "client"]
Policy = Literal["accept", "challenge", "refuse", "close", "silent"]

MAX_MESSAGE = 4500
SETTINGS = {
    "server": Settings(channel_max=5, frame_max=FRAME_MAX, heartbeat=0, max_message_size=MAX_MESSAGE),
    "client": Settings(
        channel_max=5, frame_max=FRAME_MAX, heartbeat=0, max_message_size=MAX_MESSAGE, login=Login("PLAIN", b"\0u\0p")
    ),
}
CHALLENGES = 2


class Input(NamedTuple):
    """One input.

    Args:
        role: of the engine.
        steps: how many steps of the opening are done in order, before.
        policy: what the endpoint behind a server does with a login.
        data: octets that follow, spoilt or not.
    """

    role: Role
    steps: int
    policy: Policy
    data: bytes

    def describe(self) -> str:
        return f"{self.role} after {self.steps} steps, {self.policy}: {self.data.hex()}"


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt, or plain noise."""
    role: Role = random.choice(("server", "server", "client"))
    opening, words = (CLIENT_OPENING, CLIENT_WORDS) if role == "server" else (SERVER_OPENING, SERVER_WORDS)
    steps = random.choice((len(opening), len(opening), random.randrange(len(opening) + 1)))
    policy: Policy = random.choice(("accept",) * 8 + ("challenge",) * 4 + ("refuse", "close", "silent"))
    if random.random() < 0.05:
        return Input(role, steps, policy, random.randbytes(random.randrange(200)))
    frames = list(opening[steps:])
    if policy == "challenge" and random.random() < 0.8:
        secure = SECURE_OK if role == "server" else SECURE
        place = max(2 - steps, 0)
        frames[place:place] = [secure] * random.choice((1, 2, 2, 2, 3))
    for _ in range(random.randrange(5)):
        frames += random.choice(words)
    return Input(role, steps, policy, b"".join(spoil(random, frames)))


class Endpoint(EngineDriver):
    """The endpoint behind one engine; ``active`` answers all requests, otherwise logins and opens only.

    The passive one sends nothing that depends on how the stream is cut, so its runs can be compared.
    """

    def __init__(self, role: Role, policy: Policy, *, active: bool = False) -> None:
        super().__init__()
        self.role = role
        self.engine = AMQPEngine(role, now=0.0, settings=SETTINGS[role])
        self.policy = policy
        self.active = active
        self._challenges = CHALLENGES
        self._tags = count(1)

    def act(self, event: Event) -> None:
        engine = self.engine
        match event:
            case LoginRequested() | ChallengeAnswered():
                self._judge()
            case OpenRequested() if self.policy == "close":
                engine.close(530, "no such host", 10, 40)
            case OpenRequested():
                engine.open_connection()
            case Closed(by_peer=True) if self.server:
                engine.send_method(0, ConnectionCloseOk())
            case _ if self.active:
                self._answer(event)

    def _judge(self) -> None:
        if self.policy == "challenge" and self._challenges:
            self._challenges -= 1
            self.engine.challenge(b"prove it")
        elif self.policy == "refuse":
            self.engine.refuse_login("no")
        elif self.policy != "silent":
            self.engine.accept_login()

    def _answer(self, event: Event) -> None:
        """Answer as an endpoint would: requests with replies, and messages with messages."""
        engine, server = self.engine, self.engine.state in ("running", "ending") and self.server
        match event:
            case ChannelOpened() if server:
                engine.send_method(event.channel, ChannelOpenOk())
            case ChannelClosed(by_peer=True):
                engine.send_method(event.channel, ChannelCloseOk())
            case PublishMix():
                for run in event.runs():
                    self._answer(run)
            case PublishRun():
                tags = len(event.contents)
                tag = next(self._tags) * 100
                engine.send_deliveries(event.channel, "c", tag, tags > 1, "e", "k", event.framing, event.contents)
                if event.method.mandatory:
                    engine.close_channel(event.channel, 404, "gone", 60, 40)
            case DeliverRun():
                engine.send_method(event.channel, BasicAck(event.tags[-1], multiple=True))
            case Received() if event.channel and server:
                self._reply(event.channel, event.method)
            case _:
                pass

    def _reply(self, channel: int, method: Method) -> None:
        row = AMQP_METHODS.by_type[type(method)].row
        if isinstance(method, ChannelFlow):
            self.engine.send_method(channel, ChannelFlow(not method.active))
        for name in row.replies[-1:]:
            reply = REPLIES.get(name)
            if reply is not None:
                self.engine.send_method(channel, reply)

    @property
    def server(self) -> bool:
        return self.engine._core.role == "server"


def _empty(kind: type[Method]) -> Method:
    """Make a method whose fields are all zero, as if it had been read from zeroes."""
    layout = AMQP_METHODS.by_type[kind]
    sizes = {"bit": 1, "octet": 1, "short": 2, "long": 4, "longlong": 8, "shortstr": 1, "longstr": 4, "table": 4}
    return layout.read(layout.prefix + b"".join(bytes(sizes[group[0].domain]) for group in layout.groups))


REPLIES = {
    layout.row.name: _empty(layout.row.method)
    for layout in AMQP_METHODS.layouts
    if layout.row.sender in ("server", "both") and layout.row.class_id >= 20 and not layout.row.content
}


# What must hold


def flatten(events: Iterable[Event]) -> list[object]:
    """Split runs, so that streams that were cut differently can be compared."""
    flat: list[object] = []
    for event in events:
        match event:
            case PublishRun():
                flat += [(event.channel, event.method, event.framing, octets) for octets in event.contents]
            case PublishMix():
                flat += flatten(event.runs())
            case DeliverRun():
                for tag, octets in zip(event.tags, event.contents, strict=True):
                    what = event.method
                    deliver = BasicDeliver(what.consumer_tag, tag, what.redelivered, what.exchange, what.routing_key)
                    flat.append((event.channel, deliver, event.framing, octets))
            case AckRun():
                flat += [Received(event.channel, BasicAck(tag)) for tag in event.tags]
            case _:
                flat.append(event)
    return flat


_ENDS = (Failed, Closed, EndOfStream, HeartbeatLost)


def check_events(events: Sequence[Event]) -> None:
    """Check that after the first end only its last event follows."""
    for place, event in enumerate(events):
        if isinstance(event, _ENDS):
            after = events[place + 1 :]
            if (
                isinstance(event, Failed)
                and len(after) <= 1
                and all(isinstance(each, Closed | EndOfStream) for each in after)
            ):
                return
            if after:
                raise Violation(f"after {event} came {after}")
            return


def check_sent(role: Role, sent: bytes) -> None:
    """Check that an engine sent frames, each its role's to send and not too large, and after a close only answers."""
    position, closing = 8 if sent.startswith(b"AMQP") else 0, False
    while position < len(sent):
        if sent[position:] == b"AMQP\0\0\x09\x01":
            return
        kind, _, size = struct.unpack_from(">BHI", sent, position)
        payload, end = sent[position + 7 : position + 7 + size], sent[position + 7 + size : position + 8 + size]
        if end != b"\xce" or size + 8 > FRAME_MAX:
            raise Violation(f"sent a frame of {size} octets that ends with {end!r}")
        position += 8 + size
        if kind == 1:
            row = AMQP_METHODS.find(payload).row
            AMQP_METHODS.decode(payload)
            if row.sender not in (role, "both"):
                raise Violation(f"a {role} sent {row.name}")
            if closing and row.name != "connection.close-ok":
                raise Violation(f"{row.name} was sent after a close")
            closing |= row.name in ("connection.close", "connection.close-ok")
        elif closing and kind != 8:
            raise Violation(f"a frame of type {kind} was sent after a close")


_SHARED = [AMQP_METHODS, *SETTINGS.values()]


# One trial


def prepare(what: Input, *, active: bool = False) -> Endpoint:
    """Return an engine in the state in which the input begins."""
    endpoint = Endpoint(what.role, what.policy, active=active)
    opening = CLIENT_OPENING if what.role == "server" else SERVER_OPENING
    endpoint.work()
    for step, octets in enumerate(opening[: what.steps]):
        if what.role == "client" and step == 3:
            for number in (1, 2):
                endpoint.engine.send_method(number, ChannelOpen())
        endpoint.feed(octets)
        if step == 1 and what.role == "server" and what.policy == "challenge" and what.steps > 2:
            for _ in range(CHALLENGES):
                endpoint.feed(SECURE_OK)
    return endpoint


class AMQPFuzz(EngineFuzz[Input, Endpoint]):
    """The AMQP engine in both roles."""

    floods = FLOODS

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Endpoint:
        endpoint = prepare(given, active=active)
        for piece in pieces:
            if piece:
                endpoint.feed(piece)
                if active:
                    endpoint.engine.handle_timer(1.0)
                    endpoint.work()
        self.check(endpoint)
        return endpoint

    def check(self, whole: Endpoint) -> None:
        check_events(whole.events)
        check_sent(whole.role, whole.octets)

    def compare(self, whole: Endpoint, other: Endpoint, how: str) -> None:
        first, second = flatten(whole.events), flatten(other.events)
        if first != second:
            raise Violation(f"{how}, other events: {second} instead of {first}")
        if whole.octets != other.octets:
            raise Violation(f"{how}, other answers: {other.octets!r} instead of {whole.octets!r}")

    def check_retained(self, driver: Endpoint, fed: int) -> None:
        large_ones = 1 if driver.role == "server" else 4
        limit = min(2 * fed + SLACK, large_ones * MAX_MESSAGE + 1024 * 1024 + HELD_MAX + 3 * SLACK)
        if (held := retained(driver.engine, _SHARED)) > limit:
            raise Violation(f"{held} octets are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Endpoint) -> str:
        for event in driver.events:
            if isinstance(event, Failed):
                return f"failed {event.code}"
        for event in driver.events:
            if isinstance(event, ChannelFailed):
                return f"channel failed {event.code}"
            if isinstance(event, Closed):
                return "closed by peer" if event.by_peer else "closed by us"
        return driver.engine.state

    def make_flood(self, name: str, random: Random) -> Flood:
        steps, pieces = FLOODS[name]
        return Flood(prepare(Input("server", steps, "silent" if steps == 2 else "accept", b"")), pieces(random), 192)
