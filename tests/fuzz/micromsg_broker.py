"""Fuzz a whole broker over MicroMsg2: ``python -m tests.fuzz.micromsg_broker --seconds 60 --seed 1``.

Each input is the conversation of one client, spoilt as for the engine, beside a healthy one that publishes to a queue
and to a topic, consumes from both, acks, and must not notice. No actor may crash, and no connection may be left behind.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from random import Random

import trio

from triomq.app import Broker, User, open_broker
from triomq.endpoints import MicroMsg
from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint
from triomq.protocols.micromsg import (
    CommandAnswered,
    Event,
    HandshakeCompleted,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgClient,
    Settings,
    parse_filter,
)
from triomq.security import ALL

from .broker_fuzz import HEALTHY_EVERY, ROUND, check, connect, converse, within
from .loop import Violation, fuzz_broker
from .micromsg_words import MICROMSG, conversation, handshake
from .mutations import spoil
from .wires import Wire

_AGREED = b"pub-sub;dotnet;json;x-reply;x-heartbeat"
"""Behind the acks; by the numbers that the conversation uses, where what is an owner's extension there is json here."""

_LOGINS = (b"\x02\x01\x13\x01PLAIN\0\0guest\0guest", b"\x02\x01\x13\x01PLAIN\0\0guest\0wrong", b"\x02\x01\x02\x03x")


def generate(random: Random) -> bytes:
    """Make the conversation of a client that most often shakes hands as it should."""
    if random.random() < 0.03:
        return random.randbytes(random.randrange(200))
    acks = random.choice((b"batch-ack:max-count=%d;" % random.choice((1, 5, 1000)), b"ack;", b""))
    if random.random() < 0.1:
        words = [handshake(b"x-sasl;" + acks + _AGREED)] * 2 + [random.choice(_LOGINS)]
    else:
        words = [handshake(acks + _AGREED, identity=random.choice((b"", b"fuzz")))] * 2
    spared = len(words) if random.random() < 0.9 else 0
    said = words[spared:] + conversation(random, "server")
    for _ in range(random.choice((0, 1, 1, 2))):
        said = spoil(random, said, MICROMSG)
    return b"".join((*words[:spared], *said))


class Healthy:
    """A client that publishes and consumes, while others do what they should not."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._engine = MicroMsgClient(now=trio.current_time(), settings=Settings(identity="healthy"))
        self._events: list[Event] = []
        self._numbers = count()
        self._acked = 0
        self._bodies: list[bytes] = []

    async def _until(self, has_come: Callable[[], bool]) -> None:
        while not has_come():
            for piece in self._engine.data_to_send():
                await self._wire.feed(bytes(piece))
            if received := self._wire.take():
                self._engine.receive_data(received)
            else:
                await trio.sleep(0.001)
            self._take(self._engine.events())
            self._engine.handle_timer(trio.current_time())

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case MessagesAcked(up_to=up_to):
                    self._acked = up_to
                case MicroMessageRun():
                    self._bodies += [shape.body(content) for shape, content in event.messages()]
                    self._engine.accept(event.last)
                case CommandAnswered(code=200) | HandshakeCompleted():
                    self._events.append(event)
                case _:
                    raise Violation(f"the healthy client got {event}")

    async def open(self) -> None:
        await self._until(lambda: len(self._events) == 1)
        self._engine.subscribe("queue/healthy")
        self._engine.subscribe("topic/healthy", parse_filter("priority>N5", 16), "mine")
        await self._until(lambda: len(self._events) == 3)

    async def exchange(self) -> None:
        """Publish to both, and get all but what the filter holds back, in order."""
        first, second = b"number %d" % next(self._numbers), b"number %d" % next(self._numbers)
        self._engine.send_messages("queue/healthy", b"", [first, second])
        self._engine.send_messages("topic/healthy", b"priority:N4;", [b"held back"])
        self._engine.send_messages("topic/healthy", b"priority:N6;", [first])
        await self._until(lambda: len(self._bodies) >= 3 and self._acked == self._engine.sent)
        bodies, self._bodies = self._bodies, []
        if bodies not in ([first, second, first], [first, first, second]):
            raise Violation(f"the healthy client waited for {first!r} and {second!r} and got {bodies}")

    async def leave(self) -> None:
        await self._wire.feed(b"")


def endpoint_of(broker: Broker) -> MicroMsgEndpoint:
    (ref,) = broker.endpoint_refs.values()
    assert isinstance(ref.actor, MicroMsgEndpoint)
    return ref.actor


def outcome(sent: bytes) -> str:
    """Name how the broker ended a conversation: by the code of its last frame, if that is an ERROR."""
    for code in (400, 401, 403, 404, 409, 412, 413, 501, 503, 505):
        if b"%d " % code in sent[-259:] and b"\x04" in sent[-259:]:
            return str(code)
    return "no error"


async def run_inputs(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    config = MicroMsg(
        host="127.0.0.1", port=0, dynamic_topics=True, default_destination="queue/queue", kept_seconds=0.1
    )
    users = {"guest": User(password="guest", permissions={"*": ALL})}
    async with open_broker(config, users=users) as broker:
        for name in ("queue", "healthy"):
            await broker.declare_queue(name, durable=False, max_length=100)
        for name in ("orders", "healthy"):
            await broker.declare_sink(name, "topic", durable=False)
        endpoint = endpoint_of(broker)
        healthy = Healthy(connect(endpoint.listener, reads=True))
        with broker.system.events() as events:
            await within(healthy.open(), "the healthy client was not let in")
            for number in numbers:
                random = Random(f"micromsg broker {seed}:{number}")
                try:
                    outcomes[outcome(await converse(endpoint.listener, random, generate(random)))] += 1
                    check(events)
                    if number % HEALTHY_EVERY == 0:
                        await within(healthy.exchange(), "the healthy client was not served")
                except Violation as violation:
                    raise Violation(f"{violation}\n  seed {seed}, input {number}") from violation
            await within(healthy.exchange(), "the healthy client was not served")
            await within(wait_left(endpoint), "connections are left though their streams have ended")
            check(events)
            await healthy.leave()
    return outcomes


async def wait_left(endpoint: MicroMsgEndpoint) -> None:
    while len(endpoint.children) > 1 or len(endpoint.kept):  # noqa: ASYNC110  # no event says when one is left
        await trio.sleep(0.01)


def main(arguments: list[str] | None = None) -> int:
    return fuzz_broker(__doc__, arguments, ROUND, lambda seed, numbers: trio.run(run_inputs, seed, numbers))


if __name__ == "__main__":
    sys.exit(main())
