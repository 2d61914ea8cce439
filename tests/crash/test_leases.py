"""Whoever is killed, whenever: what was leased stays leased under its offsets, and each message is in one place.

Two groups lease from one queue over tap, beside publishers over AMQP. Nothing goes back meanwhile, for that takes an
hour; so a message that is read under two offsets, or by both groups, was in the queue and in a ledger.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from triomq.clients import TapConnection
from triomq.errors import Refused
from triomq.protocols.tap import GroupPosition

from .harness import Harness
from .message import Message
from .oracle import Oracle
from .scenarios import drawn_kills, kill_in_turn
from .test_streams import FEW, Appender, Records
from .test_tap_streams import OPTIONS, call, tap
from .wire import Gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

QUEUE = "leased"


class Leaser:
    """Leases, reads what it has again and again, and acknowledges a part of it."""

    def __init__(self, harness: Harness, group: str, chance: random.Random) -> None:
        self.group = group
        self.records = Records(QUEUE)
        self.leases = 0
        self._harness = harness
        self._chance = chance
        self._identity: int | None = None
        self._acknowledged = self._sent = 0

    async def run(self) -> None:
        """Lease until all publishers have ended."""
        while not self._harness.draining:
            try:
                async with tap(self._harness) as connection:
                    await self.look(connection)
                    while not self._harness.draining:
                        await self._lease(connection, self._chance.randint(1, 200))
            except (Gone, Refused):
                pass  # the broker is gone, or the store is away

    async def look(self, connection: TapConnection) -> None:
        """Check that the ledger is the same, and where it begins."""
        bounds, _ = await call(connection.lease, QUEUE, self.group, most_records=0)
        if not self._acknowledged <= bounds.first <= self._sent:
            self.records.problems.append(f"{self.group} begins at {bounds.first}, and did at {self._acknowledged}")
        if self._identity not in {None, bounds.identity}:
            self.records.problems.append(f"the ledger of {self.group} has another identity")
        self._identity = bounds.identity

    async def _lease(self, connection: TapConnection, most: int) -> int:
        """Lease some more, read all that is leased, and acknowledge some; return how many are ready."""
        bounds, ready = await call(connection.lease, QUEUE, self.group, most_records=most)
        self.leases += 1
        found = await call(fetch, connection, self.group, bounds.first, bounds.next, self._identity)
        if [at for at, _ in found] != list(range(bounds.first, bounds.next)):
            self.records.problems.append(f"{self.group}: {bounds} were there, and {len(found)} records came")
        for at, value in found:
            self.records.see(at, value)
        self._harness.count_events(len(found))
        if found and self._chance.random() < 0.5:
            offset = self._chance.randint(bounds.first, bounds.next)
            self._sent = max(self._sent, offset)
            await call(connection.ack, QUEUE, self.group, {0: GroupPosition(self._identity, offset)})
            self._acknowledged = offset
        return ready

    async def finish(self, connection: TapConnection) -> None:
        """Lease all that is left."""
        await self.look(connection)
        while await self._lease(connection, 1_000):
            pass


def fetch(connection: TapConnection, group: str, first: int, stop: int, identity: int) -> list[tuple[int, bytes]]:
    """Read a range of a ledger."""
    chunks = connection.fetch(QUEUE, 0, first, stop, identity=identity, group=group, most_bytes=20_000)
    return [(record.offset, bytes(record.value)) for columns in chunks for record in columns.records()]


class Found(NamedTuple):
    """What a run has brought."""

    problems: list[str]
    leases: int
    messages: int


async def run(directory: Path, kinds: Sequence[str], seed: int, *, work: int) -> Found:
    """Publish and lease, kill in turn, and look at all of it in the end."""
    chance, published = random.Random(seed), Records(QUEUE)
    async with trio.open_nursery() as output:
        async with Harness(directory, Oracle(), *OPTIONS) as harness:
            await harness.start(output)
            appenders = [
                Appender(harness, 10 + number, [published], random.Random(chance.getrandbits(64)))
                for number in range(2)
            ]
            leasers = [Leaser(harness, group, random.Random(chance.getrandbits(64))) for group in "ab"]
            async with trio.open_nursery() as leasing:
                for leaser in leasers:
                    leasing.start_soon(leaser.run)
                async with trio.open_nursery() as writing:
                    for appender in appenders:
                        writing.start_soon(appender.run)
                    await kill_in_turn(harness, kinds, chance, work, output)
                    harness.stop_publishing()
                harness.drain()
            async with tap(harness) as connection:
                for leaser in leasers:
                    await leaser.finish(connection)
        output.cancel_scope.cancel()
    problems = [problem for leaser in leasers for problem in leaser.records.problems]
    return Found(
        problems + differences(published, leasers), sum(each.leases for each in leasers), len(messages(leasers))
    )


def messages(leasers: Sequence[Leaser]) -> list[Message]:
    """Return all that was leased, by each group under each offset."""
    return [message for leaser in leasers for message in leaser.records.seen.values()]


def differences(published: Records, leasers: Sequence[Leaser]) -> list[str]:
    """Return what is wrong with what was leased in the end."""
    problems, found = [], messages(leasers)
    for leaser in leasers:
        if sorted(leaser.records.seen) != list(range(len(leaser.records.seen))):
            problems.append(f"{leaser.group}: there are holes among {len(leaser.records.seen)} offsets")
    if len(set(found)) != len(found):
        problems.append(f"{len(found) - len(set(found))} messages were leased twice")
    if missing := published.confirmed - set(found):
        problems.append(f"{len(missing)} of {len(published.confirmed)} are lost, as {min(missing)}")
    return problems


def assert_whole(found: Found, seed: int) -> None:
    print(f"seed {seed}: {found.messages} messages in {found.leases} leases")
    assert not found.problems, "\n".join([f"seed {seed}", *found.problems[:20]])
    assert found.messages


async def test_kills_leave_each_message_in_one_place(tmp_path: Path) -> None:
    with trio.fail_after(120):
        found = await run(tmp_path, FEW, seed=1, work=3000)
    assert_whole(found, 1)


@pytest.mark.crash
async def test_many_kills_leave_each_message_in_one_place(tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    kinds = drawn_kills(rounds, seed)
    with trio.fail_after(60 + 10 * rounds):
        found = await run(tmp_path, kinds, seed, work=6000)
    assert_whole(found, seed)
