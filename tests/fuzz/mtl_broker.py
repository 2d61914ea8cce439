"""Fuzz a whole broker over live sockets of MTL: ``python -m tests.fuzz.mtl_broker --seconds 60 --seed 1``.

Each input is the conversation of one peer, on a control flow or under a real lease on a data flow, spoilt as for the
engines, sent beside a writer and a reader that go on exchanging contents and must not notice. No actor may crash, and
peers that have gone must be forgotten.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec
import trio
import zmq

from triomq.actors import Exited
from triomq.app import Broker, open_broker
from triomq.clients import MTLReader, MTLWriter, open_mtl
from triomq.endpoints import MTL
from triomq.endpoints.mtl.endpoint import MTLEndpoint
from triomq.protocols.mtl import DataLeased, Frames, MTLControlClient
from triomq.transports.zmq import ZMQSocket, close_context, make_context

from .broker_fuzz import within
from .loop import Violation, fuzz_broker
from .mtl_engine import OPEN, Input, generate

ROUND = 100
"""Inputs for one broker."""

_HEALTHY_EVERY: Final = 10

_SHORT, _SHORT_SHARE = 10_000, 0.2
"""Bytes of memory that are too few for the broker's messages, and the share of inputs that have to wait for more."""

_CONFIG: Final = MTL(
    port=0, guest="guest", heartbeat=0.2, silence=0.6, session_seconds=0.5, lease_seconds=0.5, max_message_size=2000
)
_PROFILES: Final = ("queue", "amqp", "restms", "test")

COMMANDS: Final = (
    "Profile.Describe", "Queue.Create", "Queue.Declare", "Queue.Delete", "Queue.Purge", "Queue.List", "Queue.Stats",
    "Queue.Bind", "Queue.Unbind", "Queue.Get", "Queue.Confirm", "Queue.Reject", "Exchange.Declare", "Exchange.Delete",
    "Feed.Create", "Feed.Get", "Feed.List", "Feed.Delete", "Pipe.Create", "Pipe.Get", "Pipe.Delete", "Join.Create",
    "Join.List", "Join.Delete",
)  # fmt: skip
NAMES: Final = ("q", "a", "b", "new", "", "amq.topic", "default", "x" * 256, "ä\u2028", "pipe/q", 7, None, ["q"], {})
KEYS: Final = (
    "name", "queue", "exchange", "routing-key", "type", "durable", "arguments", "pipe", "feed", "address", "prefix",
    "max-length", "overflow", "confirm", "passive", "exclusive", "auto-delete", "delivery", "id", "headers",
)  # fmt: skip
RESOURCES: Final = (
    ("a", "b"), ("queue/a", "queue/b"), ("exchange/amq.topic", "queue/a"), ("feed/news", "pipe/p"), ("resource",), (),
)  # fmt: skip


def control_conversation(random: Random) -> list[Frames]:
    """Make the conversation of a control peer, with commands of profiles among what the engine is fuzzed with."""
    profile = random.choice(_PROFILES)
    messages: list[Frames] = [
        (b"Connection.Open", OPEN.replace(b'"v"', b'"/"')),
        (b"Connection.Profile", b'{"profile": "%b"}' % profile.encode()),
    ]
    for _ in range(random.randrange(12)):
        body = {key: random.choice((*NAMES, True, 1 << 40)) for key in random.sample(KEYS, random.randrange(5))}
        messages.append((random.choice(COMMANDS).encode(), msgspec.json.encode(body)))
    while (given := generate(random)).side != "control server":
        pass
    return messages + given.messages if random.random() < 0.5 else messages


def data_conversation(random: Random) -> Input:
    """Make the conversation of a data peer, whose lease is "lease"."""
    while True:
        given = generate(random)
        if given.side == "data server":
            return given


class Lessor:
    """A control peer that behaves, and gets leases for those that do not.

    Args:
        context: Of ZeroMQ.
        port: The broker's.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], port: int) -> None:
        self._engine = MTLControlClient()
        self._socket = ZMQSocket(context, zmq.DEALER)
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    async def lease(self, random: Random, given: Input) -> str:
        """Open a session anew, and return a token; any text if there is no such lease."""
        await self._ask(self._engine.open("/"))
        await self._ask(self._engine.choose_profile(random.choice(_PROFILES)))
        asked = self._engine.ask_lease(given.direction, random.choice(RESOURCES), given.confirm, random.choice((0, 3)))
        found = await self._ask(asked)
        return found.lease if isinstance(found, DataLeased) else "none"

    async def _ask(self, frames: Frames) -> object:
        await self._socket.send(frames)
        (reply,) = await self._socket.receive(1)
        return self._engine.receive(reply)

    def close(self) -> None:
        self._socket.close()


async def attack(context: zmq.Context[zmq.Socket[bytes]], port: int, random: Random, messages: list[Frames]) -> str:
    """Send all messages of a peer, hear a part of the answers perhaps, and go without a word."""
    socket = ZMQSocket(context, zmq.DEALER)
    socket.connect(f"tcp://127.0.0.1:{port}")
    for message in messages:
        if message:  # ZeroMQ has no message without a frame
            await socket.send(message)
    heard = 0
    if random.random() < 0.7:
        with trio.move_on_after(0.005):
            heard = len(await socket.receive())
    socket.close(linger=0.2)
    return "answers" if heard else "no answer"


async def run_inputs(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(_CONFIG, drain=0.2) as broker:
        endpoint = _endpoint_of(broker)
        ports = (endpoint.control.port, endpoint.data.port)
        for queue in ("healthy", "a", "b", "ballast"):
            await broker.declare_queue(queue, durable=False, max_length=100)
        await broker.publish("", "ballast", bytes(2 * _SHORT))
        context = make_context()
        lessor = Lessor(context, ports[0])

        def is_forgotten() -> bool:
            return len(endpoint.leases) <= 2 and len(endpoint.children) <= 4

        async def exchange(writer: MTLWriter, reader: MTLReader) -> None:
            await writer.publish(b"body")
            delivery = await anext(reader)
            delivery.accept()
            if delivery.body != b"body":
                raise Violation(f"the healthy reader was sent {delivery}")

        with broker.system.events() as events:
            async with (
                open_mtl(f"mtl://127.0.0.1:{ports[0]}/?profile=queue") as client,
                client.open_writer("healthy") as writer,
                client.open_reader("healthy") as reader,
            ):
                for number in numbers:
                    random = Random(f"mtl broker {seed}:{number}")
                    if random.random() < 0.4:
                        kind, port, messages = "control", ports[0], control_conversation(random)
                    else:
                        given = data_conversation(random)
                        token = (await lessor.lease(random, given)).encode()
                        claim = bytes((len(token),)) + token
                        messages = [tuple(f.replace(b"\5lease", claim) for f in each) for each in given.messages]
                        kind, port = "data", ports[random.random() < 0.95]
                    broker.set_memory_high_watermark(_SHORT if random.random() < _SHORT_SHARE else 0)
                    outcomes[f"{kind}: {await attack(context, port, random, messages)}"] += 1
                    for event in events.get_nowait():
                        if isinstance(event, Exited) and event.error is not None:
                            raise Violation(
                                f"{event.ref.path} crashed: {event.error!r}\n"
                                f"  seed {seed}, about input {number}, {kind}: {messages!r}"
                            ) from event.error
                    if number % _HEALTHY_EVERY == 0:
                        broker.set_memory_high_watermark(0)
                        await within(exchange(writer, reader), f"the healthy were not served, input {number}")
                lessor.close()
                broker.set_memory_high_watermark(0)
                with trio.move_on_after(20):
                    while not is_forgotten():  # noqa: ASYNC110  # no event says when one is forgotten
                        await trio.sleep(0.02)
                if not is_forgotten():
                    children = Counter(type(child.actor).__name__ for child in endpoint.children.values())
                    raise Violation(f"still here, seed {seed}: {len(endpoint.leases)} leases, {dict(children)}")
                await within(exchange(writer, reader), "the healthy were not served at the end")
        await close_context(context)
    return outcomes


def _endpoint_of(broker: Broker) -> MTLEndpoint:
    (found,) = (ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, MTLEndpoint))
    return found


def play(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs, and let a violation come out bare."""
    try:
        return trio.run(run_inputs, seed, numbers)
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from group


def main(arguments: list[str] | None = None) -> int:
    return fuzz_broker(__doc__, arguments, ROUND, play)


if __name__ == "__main__":
    sys.exit(main())
