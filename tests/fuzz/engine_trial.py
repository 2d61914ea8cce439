"""One input against engines: what is fed, what the endpoint behind an engine does, and what must hold."""

import gc
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
    PublishRun,
    Received,
    Settings,
)
from triomq.protocols.amqp.reader import HELD_MAX

from .loop import Violation
from .mutations import spoil
from .words import (
    CLIENT_OPENING,
    CLIENT_WORDS,
    FRAME_MAX,
    SECURE,
    SECURE_OK,
    SERVER_OPENING,
    SERVER_WORDS,
)

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
SLACK = 64 * 1024
"""Octets that an engine may keep however little it was sent: frames being read, caches, what it has to say."""


class Input(NamedTuple):
    """What one trial feeds.

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


class Endpoint:
    """The driver of one engine; ``active`` answers all that wants an answer, otherwise logins and opens only.

    The passive one says nothing that depends on how the stream is cut, so its runs can be compared.
    """

    def __init__(self, role: Role, policy: Policy, *, active: bool = False) -> None:
        self.role = role
        self.engine = AMQPEngine(role, now=0.0, settings=SETTINGS[role])
        self.policy = policy
        self.active = active
        self.events: list[Event] = []
        self.said: list[bytes | memoryview] = []
        self._challenges = CHALLENGES
        self._tags = count(1)

    def feed(self, data: bytes) -> None:
        self.engine.receive_data(data)
        self.work()

    def work(self) -> None:
        """Take events until there are none, act on them, take what is to be sent."""
        while events := self.engine.events():
            self.events += events
            for event in events:
                self._act(event)
        self.said += self.engine.data_to_send()

    def _act(self, event: Event) -> None:
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
        """Say what an endpoint would: a word for each word, and messages back to whoever sends some."""
        engine, server = self.engine, self.engine.state in ("running", "ending") and self.server
        match event:
            case ChannelOpened() if server:
                engine.send_method(event.channel, ChannelOpenOk())
            case ChannelClosed(by_peer=True):
                engine.send_method(event.channel, ChannelCloseOk())
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
    """Take runs apart, so that streams that were cut differently can be compared."""
    flat: list[object] = []
    for event in events:
        match event:
            case PublishRun():
                flat += [(event.channel, event.method, event.framing, octets) for octets in event.contents]
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
    """After the first end only the last word on it may follow."""
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


def check_said(role: Role, said: bytes) -> None:
    """What an engine says is frames, each its role's to say and not too large; after a close there are only answers."""
    position, closing = 8 if said.startswith(b"AMQP") else 0, False
    while position < len(said):
        if said[position:] == b"AMQP\0\0\x09\x01":
            return
        kind, _, size = struct.unpack_from(">BHI", said, position)
        payload, end = said[position + 7 : position + 7 + size], said[position + 7 + size : position + 8 + size]
        if end != b"\xce" or size + 8 > FRAME_MAX:
            raise Violation(f"said a frame of {size} octets that ends with {end!r}")
        position += 8 + size
        if kind == 1:
            row = AMQP_METHODS.find(payload).row
            AMQP_METHODS.decode(payload)
            if row.sender not in (role, "both"):
                raise Violation(f"a {role} said {row.name}")
            if closing and row.name != "connection.close-ok":
                raise Violation(f"{row.name} was said after a close")
            closing |= row.name in ("connection.close", "connection.close-ok")
        elif closing and kind != 8:
            raise Violation(f"a frame of type {kind} was said after a close")


def check_end(endpoint: Endpoint) -> None:
    """Whatever came before: an engine whose stream has ended is done, and hears and says nothing more."""
    engine = endpoint.engine
    endpoint.feed(b"")
    told, said = len(endpoint.events), len(endpoint.said)
    endpoint.feed(b"more")
    engine.handle_timer(1e9)
    endpoint.work()
    if not engine.finished or engine.next_timer() is not None:
        raise Violation(f"not finished at the end of the stream, but {engine.state}")
    if (len(endpoint.events), len(endpoint.said)) != (told, said):
        raise Violation(f"after the end came {endpoint.events[told:]} and {endpoint.said[said:]}")


_SHARED = [AMQP_METHODS, *SETTINGS.values()]


def kept(engine: object) -> int:
    """Count the octets that an engine holds on to, itself apart."""
    seen = {id(shared) for shared in _SHARED}
    total, left = 0, [engine]
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if isinstance(thing, bytes | bytearray | str):
            total += len(thing)
        elif type(thing).__module__.startswith("triomq") or isinstance(thing, dict | list | tuple):
            left += gc.get_referents(thing)
    return total


def check_kept(endpoint: Endpoint, fed: int) -> None:
    large_ones = 1 if endpoint.role == "server" else 4
    limit = min(2 * fed + SLACK, large_ones * MAX_MESSAGE + 1024 * 1024 + HELD_MAX + 3 * SLACK)
    if (held := kept(endpoint.engine)) > limit:
        raise Violation(f"{held} octets are kept of {fed} that came; at most {limit} may be")


# One trial


def prepare(what: Input, *, active: bool = False) -> Endpoint:
    """Bring an engine to where the input begins."""
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


def run(what: Input, pieces: Iterable[bytes], *, active: bool = False) -> Endpoint:
    """Feed the input in pieces and look at what must hold for any."""
    endpoint = prepare(what, active=active)
    for piece in pieces:
        if piece:
            endpoint.feed(piece)
            if active:
                endpoint.engine.handle_timer(1.0)
                endpoint.work()
    check_events(endpoint.events)
    check_said(what.role, b"".join(endpoint.said))
    return endpoint


def outcome(endpoint: Endpoint) -> str:
    """Name how a trial ended."""
    for event in endpoint.events:
        if isinstance(event, Failed):
            return f"failed {event.code}"
    for event in endpoint.events:
        if isinstance(event, ChannelFailed):
            return f"channel failed {event.code}"
        if isinstance(event, Closed):
            return "closed by peer" if event.by_peer else "closed by us"
    return endpoint.engine.state


def compare(whole: Endpoint, other: Endpoint, how: str) -> None:
    first, second = flatten(whole.events), flatten(other.events)
    if first != second:
        raise Violation(f"{how}, other events: {second} instead of {first}")
    if b"".join(whole.said) != b"".join(other.said):
        raise Violation(f"{how}, other answers: {b''.join(other.said)!r} instead of {b''.join(whole.said)!r}")
