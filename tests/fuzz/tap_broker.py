"""Fuzz a whole broker over tap: ``python -m tests.fuzz.tap_broker --seconds 60 --seed 1``.

Each input is the conversation of one client, spoilt as for the engine, beside a healthy one that reads what is appended
to a stream, commits to another, and must not notice. No actor may crash, and no connection may be left behind.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

import trio

from triomq.app import Broker, open_broker
from triomq.chunks import Columns, RecordRun, encode_chunk, split_chunks
from triomq.core import DeclareQueue, DeclareStream, QueueOptions, StreamOptions
from triomq.endpoints import Tap
from triomq.endpoints.tap.endpoint import TapEndpoint
from triomq.protocols.tap import (
    DoneAnswered,
    RecordsAnswered,
    ServerGreeting,
    TapClientEngine,
    Welcomed,
)

from .broker_fuzz import HEALTHY_EVERY, ROUND, check, connect, converse, within
from .loop import Violation, fuzz_broker
from .tap_trial import Input, generate
from .wires import Wire


def conversation(random: Random) -> Input:
    """Make the conversation of a client, most often one that is let in."""
    while True:
        given = generate(random)
        if given.role == "server" and given.policy == "accept":
            return given


class Healthy:
    """A client that reads and writes, while others do what they should not."""

    def __init__(self, broker: Broker, wire: Wire) -> None:
        self._broker = broker
        self._wire = wire
        self._engine = TapClientEngine(now=trio.current_time())
        self._events: list[Any] = []
        self._numbers = count()

    async def _expect(self, kind: type[Any]) -> Any:
        while not self._events:
            for piece in self._engine.data_to_send():
                await self._wire.feed(bytes(piece))
            if received := self._wire.take():
                self._engine.receive_data(received)
                self._events += self._engine.events()
            else:
                await trio.sleep(0.001)
        event = self._events.pop(0)
        if not isinstance(event, kind):
            raise Violation(f"the healthy client waited for {kind} and got {event}")
        return event

    async def open(self) -> None:
        await self._expect(ServerGreeting)
        self._engine.log_in("PLAIN", b"\0guest\0guest")
        await self._expect(Welcomed)

    async def exchange(self) -> None:
        """Wait for a record that then comes, and commit a batch."""
        number = next(self._numbers)
        body, engine = b"number %d" % number, self._engine
        engine.fetch("healthy", 0, None, 2 * number, most_bytes=1000, wait=60_000)
        for piece in engine.data_to_send():
            await self._wire.feed(bytes(piece))
        await self._broker.publish("", "healthy", body)
        self._check(await self._expect(RecordsAnswered), body)
        chunk = encode_chunk(0, 1, [RecordRun(0, b"", b"healthy", b"", [body])])
        engine.stage("", "healthy", number, 0, 0, chunk, is_sink=True)
        engine.commit("", "healthy", number, {0: 0}, is_sink=True)
        engine.fetch("healthy", 0, None, 2 * number + 1, most_bytes=1000)
        await self._expect(DoneAnswered)
        await self._expect(DoneAnswered)
        self._check(await self._expect(RecordsAnswered), body)

    def _check(self, answer: RecordsAnswered, body: bytes) -> None:
        values = [value for chunk in split_chunks(answer.chunks) for value in Columns(chunk).values.each()]
        if values[-1:] != [body]:
            raise Violation(f"the healthy client waited for {body!r} and got {values}")

    async def leave(self) -> None:
        await self._wire.feed(b"")


def endpoint_of(broker: Broker) -> TapEndpoint:
    (ref,) = broker.endpoint_refs.values()
    assert isinstance(ref.actor, TapEndpoint)
    return ref.actor


async def trial(endpoint: TapEndpoint, random: Random) -> str:
    given = conversation(random)
    return outcome(await converse(endpoint.listener, random, given.data))


def outcome(sent: bytes) -> str:
    """Name how the broker ended a conversation."""
    for code in (b"MALFORMED", b"DENIED", b"TOO_SLOW", b"CLOSED"):
        if code in sent:
            return code.decode()
    return "no close"


async def run_inputs(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(Tap(host="127.0.0.1", port=0)) as broker:
        stream = QueueOptions(durable=False, stream=StreamOptions())
        broker.domain_ref.ask_nowait(DeclareStream("orders", stream, broker.session, 2))
        for name in ("victim", "healthy"):
            broker.domain_ref.ask_nowait(DeclareQueue(name, stream, broker.session))
        await broker.declare_queue("o", durable=False)
        for _ in range(20):
            await broker.publish("", "o", b"to be leased")
        endpoint = endpoint_of(broker)
        healthy = Healthy(broker, connect(endpoint.listener, reads=True))
        with broker.system.events() as events:
            await within(healthy.open(), "the healthy client was not let in")
            for number in numbers:
                try:
                    outcomes[await trial(endpoint, Random(f"tap broker {seed}:{number}"))] += 1
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


async def wait_left(endpoint: TapEndpoint) -> None:
    while len(endpoint.children) > 1:  # noqa: ASYNC110  # no event says when one is left
        await trio.sleep(0.01)


def main(arguments: list[str] | None = None) -> int:
    return fuzz_broker(__doc__, arguments, ROUND, lambda seed, numbers: trio.run(run_inputs, seed, numbers))


if __name__ == "__main__":
    sys.exit(main())
