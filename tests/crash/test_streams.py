"""Whoever is killed, whenever: a stream has all that was confirmed, once, where its readers have seen it."""

import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from pamqp import commands

from .broker import SEGMENT
from .harness import Harness
from .message import Message, body_of, read_body
from .oracle import Oracle
from .scenarios import drawn_kills, kill_in_turn
from .wire import Answer, Delivery, Gone, Wire, ack, publish

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

FEW = ("the broker", "the store", "both, the store frozen before", "both")
STREAMS = ("one", "two", "three")
NUMBERED = "numbered"
WINDOW = 300


class Records:
    """What is known of one stream: made for a run, asked in the end.

    Args:
        name: The stream's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.confirmed: set[Message] = set()
        self.seen: dict[int, Message] = {}
        self.problems: list[str] = []

    def see(self, offset: int, body: bytes) -> None:
        """Record what a reader got; it must be what others got there."""
        message, _ = read_body(body)
        if self.seen.setdefault(offset, message) != message:
            self.problems.append(f"{self.name}: offset {offset} was {self.seen[offset]}, and is {message}")

    def check(self) -> list[str]:
        """Return what is wrong, once all was read."""
        messages = list(self.seen.values())
        if sorted(self.seen) != list(range(len(self.seen))):
            self.problems.append(f"{self.name}: there are holes among {len(self.seen)} offsets")
        if len(set(messages)) != len(messages):
            self.problems.append(f"{self.name}: {len(messages) - len(set(messages))} records are there twice")
        if missing := self.confirmed - set(messages):
            self.problems.append(f"{self.name}: {len(missing)} of {len(self.confirmed)} are lost, as {min(missing)}")
        return self.problems


class Appender:
    """Publishes with confirms, to several streams in turn, and nothing twice."""

    def __init__(self, harness: Harness, number: int, streams: Sequence[Records], chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._streams = streams
        self._chance = chance
        self._sent = 0

    async def run(self) -> None:
        """Publish until it is time to stop and all is answered."""
        while not self._harness.stopping:
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    await self._append(wire)
            except Gone:
                pass  # what was not confirmed may be there or not

    async def _append(self, wire: Wire) -> None:
        tag, open_tags = 0, dict[int, tuple[Records, Message]]()
        while open_tags or not self._harness.stopping:
            octets = []
            while not self._harness.stopping and len(open_tags) < WINDOW and len(octets) < self._chance.randint(1, 80):
                tag, self._sent = tag + 1, self._sent + 1
                records = self._chance.choice(self._streams)
                open_tags[tag] = records, Message(self._number, self._sent)
                octets.append(
                    publish("", records.name, body_of(self._number, self._sent, size=self._chance.randint(0, 300)))
                )
            if octets:
                await wire.send(b"".join(octets))
            if open_tags:
                self._hear([event for event in await wire.events() if isinstance(event, Answer)], open_tags)

    def _hear(self, answers: list[Answer], open_tags: dict[int, tuple[Records, Message]]) -> None:
        for answer in answers:
            tags = [tag for tag in open_tags if tag <= answer.tag] if answer.multiple else [answer.tag]
            for tag in tags:
                records, message = open_tags.pop(tag)
                if answer.accepted:
                    records.confirmed.add(message)
            self._harness.count_events(len(tags))


class Resender:
    """Publishes with numbers, and sends all again that was not confirmed, and a little more; all is there once."""

    def __init__(self, harness: Harness, number: int, records: Records, chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._records = records
        self._chance = chance
        self._sent = 0
        self._open: dict[int, bytes] = {}  # what is not confirmed, in the order of numbers
        self._confirmed = deque[tuple[int, bytes]](maxlen=50)  # the last ones

    async def run(self) -> None:
        """Publish until it is time to stop and all is confirmed."""
        while self._open or not self._harness.stopping:
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    await self._append(wire)
            except Gone:
                pass

    async def _append(self, wire: Wire) -> None:
        again = sorted((*self._confirmed, *self._open.items()))
        numbers = [number for number, _ in again]  # by tags, from 1
        await wire.send(b"".join(octets for _, octets in again))
        while self._open or not self._harness.stopping:
            octets = []
            while not self._harness.stopping and len(self._open) < WINDOW and len(octets) < self._chance.randint(1, 80):
                self._sent += 1
                body = body_of(self._number, self._sent, size=self._chance.randint(0, 300))
                name = f"publisher-{self._number}"
                octets.append(publish("", self._records.name, body, publisher=name, number=self._sent))
                self._open[self._sent] = octets[-1]
                numbers.append(self._sent)
            if octets:
                await wire.send(b"".join(octets))
            if self._open:
                for answer in await wire.events():
                    if isinstance(answer, Answer):
                        self._hear(answer, numbers)

    def _hear(self, answer: Answer, numbers: list[int]) -> None:
        last = numbers[answer.tag - 1]
        for number in [each for each in self._open if each <= last] if answer.multiple else [last]:
            if (octets := self._open.pop(number, None)) is None:
                continue
            self._confirmed.append((number, octets))
            if answer.accepted:
                self._records.confirmed.add(Message(self._number, number))
            self._harness.count_events()


class Reader:
    """Reads a stream, after each of the broker's lives from where it was."""

    def __init__(self, harness: Harness, records: Records, *, prefetch: int) -> None:
        self.offset = 0
        self._harness = harness
        self._records = records
        self._prefetch = prefetch

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                async with self._harness.wire() as wire:
                    await self._read(wire)
            except Gone:
                pass

    async def _read(self, wire: Wire) -> None:
        await wire.call(commands.Basic.Qos(prefetch_count=self._prefetch), commands.Basic.QosOk)
        consume = commands.Basic.Consume(queue=self._records.name, arguments={"x-stream-offset": self.offset})
        await wire.call(consume, commands.Basic.ConsumeOk)
        while True:
            for event in await wire.events():
                if isinstance(event, Delivery):
                    if event.offset != self.offset:
                        self._records.problems.append(f"{self.offset} was to come, and {event.offset} came")
                    self._records.see(event.offset, event.body)
                    self.offset = event.offset + 1
                    self._harness.count_events()
                    last = event.tag
            await wire.send(ack(last, multiple=True))
            self._harness.changed()


async def run(directory: Path, kinds: Sequence[str], seed: int, *, work: int) -> list[Records]:
    """Append and read, kill in turn, and read all of it in the end."""
    chance, streams = random.Random(seed), [Records(name) for name in (*STREAMS, NUMBERED)]
    async with trio.open_nursery() as output:
        async with Harness(directory, Oracle()) as harness:
            await harness.start(output)
            await declare(harness)
            readers = [Reader(harness, records, prefetch=most) for records in streams for most in (5, 2000)]
            async with trio.open_nursery() as reading:
                for reader in readers:
                    reading.start_soon(reader.run)
                async with trio.open_nursery() as appending:
                    for number in range(4):
                        own = random.Random(chance.getrandbits(64))
                        appending.start_soon(Appender(harness, 10 + number, streams[:-1], own).run)
                    for number in range(2):
                        own = random.Random(chance.getrandbits(64))
                        appending.start_soon(Resender(harness, 20 + number, streams[-1], own).run)
                    await kill_in_turn(harness, kinds, chance, work, output)
                    harness.stop_publishing()
                reading.cancel_scope.cancel()
            for records in streams:
                await read_whole(harness, records)
        output.cancel_scope.cancel()
    return streams


async def declare(harness: Harness) -> None:
    async with harness.wire() as wire:
        for name in (*STREAMS, NUMBERED):
            arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": SEGMENT}
            if name == NUMBERED:
                arguments["x-stream-deduplicate"] = True
            await wire.call(
                commands.Queue.Declare(queue=name, durable=True, arguments=arguments), commands.Queue.DeclareOk
            )


async def read_whole(harness: Harness, records: Records) -> None:
    """Read a stream once more, from the first record to the last."""
    async with harness.wire() as wire:
        declared = await wire.call(commands.Queue.Declare(queue=records.name, passive=True), commands.Queue.DeclareOk)
        count, offset = declared.message_count, 0
        await wire.call(commands.Basic.Qos(prefetch_count=1000), commands.Basic.QosOk)
        consume = commands.Basic.Consume(queue=records.name, arguments={"x-stream-offset": "first"})
        await wire.call(consume, commands.Basic.ConsumeOk)
        while offset < count:
            last = 0
            for event in await wire.events():
                if isinstance(event, Delivery):
                    records.see(event.offset, event.body)
                    offset, last = event.offset + 1, event.tag
            await wire.send(ack(last, multiple=True))
        if offset <= max(records.seen):
            records.problems.append(f"{records.name}: offset {max(records.seen)} was read, and the end is {offset}")


def assert_whole(streams: list[Records], seed: int) -> None:
    for records in streams:
        print(f"seed {seed}, {records.name}: {len(records.confirmed)} confirmed, {len(records.seen)} there")
        assert not records.check(), "\n".join([f"seed {seed}", *records.problems])
        assert records.confirmed


async def test_kills_of_broker_and_store_lose_no_record_and_change_no_offset(tmp_path: Path) -> None:
    with trio.fail_after(120):
        streams = await run(tmp_path, FEW, seed=1, work=4000)
    assert_whole(streams, 1)


@pytest.mark.crash
async def test_many_kills_lose_no_record(tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    kinds = drawn_kills(rounds, seed)
    with trio.fail_after(60 + 10 * rounds):
        streams = await run(tmp_path, kinds, seed, work=20_000)
    assert_whole(streams, seed)
