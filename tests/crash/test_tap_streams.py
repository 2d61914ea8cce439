"""Whoever is killed, whenever: commits are whole and happen once, groups stay where they were, what has gone is gone.

All over tap, beside publishers over AMQP. Most of what is read comes from the store, in the middle of its merging.
"""

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import pytest
import trio

from triomq.chunks import RecordRun, encode_chunk
from triomq.clients import TapConnection, open_tap
from triomq.errors import Disconnected, OutOfRange, Refused, UnknownStage
from triomq.protocols.tap import GroupPosition

from .harness import Harness
from .oracle import Oracle
from .scenarios import drawn_kills, kill_in_turn
from .test_streams import FEW, Appender, Records
from .wire import Gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

PARTS = 3
FUTURE = 1 << 40
"""A batch that nobody stages."""

merged = set[bool]()
"""Whether chunks were read that the store has merged: others have one time each."""

OPTIONS = ("--tap", "--queue-memory=16384")
P = ParamSpec("P")
R = TypeVar("R")


async def call(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Let a client block in a thread."""
    return await trio.to_thread.run_sync(partial(function, *args, **kwargs))


@asynccontextmanager
async def tap(harness: Harness) -> AsyncIterator[TapConnection]:
    """Connect to the broker that runs, or to the next one; raises ``Gone`` when it is gone."""
    await harness.wait_for(lambda: harness.life is not None)
    assert harness.life is not None
    try:
        connection = await call(open_tap, f"tap://guest:guest@127.0.0.1:{harness.life.tap_port}/?timeout=60")
        with connection:
            yield connection
    except Disconnected:
        raise Gone from None


class Row(NamedTuple):
    """What a staged record says of itself: its place in its batch, and how many its part has."""

    writer: int
    batch: int
    part: int
    attempt: int
    index: int
    count: int


class Writer:
    """Stages batches, some parts several times, and commits each until that is answered."""

    def __init__(self, harness: Harness, number: int, chance: random.Random) -> None:
        self.number = number
        self.batch = 0  # all below were answered
        self.again = 0  # batches that a restart has cost their stages
        self.problems: list[str] = []
        self._harness = harness
        self._chance = chance
        self._name = f"writer-{number}"
        self._attempt = 0
        self._attempts: dict[int, int] | None = None  # of a commit that was sent and not answered
        self._answered: dict[int, int] = {}  # of the one that was answered last

    async def run(self) -> None:
        """Commit until it is time to stop; the last one is answered."""
        while not self._harness.stopping or self._attempts is not None:
            try:
                async with tap(self._harness) as connection:
                    await self._check_restart(connection)
                    while not self._harness.stopping or self._attempts is not None:
                        await self._commit_next(connection)
            except Gone:
                pass

    async def _check_restart(self, connection: TapConnection) -> None:
        """Repeat what was answered, and commit what nobody has staged."""
        if self.batch:
            await self._commit(connection, self.batch - 1, self._answered)
        try:
            await self._commit(connection, FUTURE, {0: 0})
        except UnknownStage:
            return
        self.problems.append(f"{self._name}: what was never staged was committed")

    async def _commit_next(self, connection: TapConnection) -> None:
        if self._attempts is None:
            self._attempts = await self._stage(connection)
        try:
            await self._commit(connection, self.batch, self._attempts)
        except UnknownStage:
            self.again += 1
            self._attempts = None
            return
        self._answered, self._attempts = self._attempts, None
        self.batch += 1
        self._harness.count_events(PARTS * 20)

    async def _commit(self, connection: TapConnection, batch: int, attempts: dict[int, int]) -> None:
        while True:
            try:
                return await call(connection.commit, "orders", self._name, batch=batch, attempts=attempts)
            except UnknownStage:
                raise
            except Refused:
                pass  # the store is away

    async def _stage(self, connection: TapConnection) -> dict[int, int]:
        """Stage a few attempts at each part, and choose one."""
        chosen: dict[int, int] = {}
        for part in range(PARTS):
            for _ in range(self._chance.choice([1, 1, 2])):
                self._attempt += 1
                count = self._chance.randint(2, 40)
                half = count // 2
                for rows in (range(half), range(half, count)):
                    chunk = self._chunk(part, rows, count)
                    numbers = {"batch": self.batch, "part": part, "attempt": self._attempt}
                    await call(connection.stage, "orders", self._name, **numbers, chunk=chunk)
            chosen[part] = self._attempt
        return chosen

    def _chunk(self, part: int, rows: range, count: int) -> bytes:
        values = [
            " ".join(map(str, Row(self.number, self.batch, part, self._attempt, row, count))).encode() for row in rows
        ]
        keys = [b"%d" % self._chance.getrandbits(10) for _ in rows]
        return encode_chunk(0, 0, [RecordRun(0, b"", keys, b"", values)])

    def check(self, rows: Sequence[Row]) -> list[str]:
        """Return what is wrong with what is there of this writer in the end."""
        batches: defaultdict[int, Counter[Row]] = defaultdict(Counter)
        for row in rows:
            batches[row.batch][row] += 1
        if sorted(batches) != list(range(self.batch)):
            self.problems.append(f"{self._name}: {self.batch} batches were answered, and {len(batches)} are there")
        for batch, counted in batches.items():
            expected: Counter[Row] = Counter()
            for part in range(PARTS):
                some = next((row for row in counted if row.part == part), None)
                if some is not None:
                    expected.update(some._replace(index=index) for index in range(some.count))
            if counted != expected or len({row.part for row in counted}) != PARTS:
                self.problems.append(f"{self._name}: batch {batch} is not there whole and once")
        return self.problems


class BoundedRecords(Records):
    """What is known of a stream that drops what is old."""

    def check_from(self, base: int, stop: int) -> list[str]:
        """Return what is wrong, once all was read that is left."""
        left = [self.seen[offset] for offset in range(base, stop) if offset in self.seen]
        if len(left) != stop - base:
            self.problems.append(f"{self.name}: {stop - base - len(left)} of the offsets from {base} on are missing")
        if len(set(self.seen.values())) != len(self.seen):
            self.problems.append(f"{self.name}: records are there twice")
        oldest = {message.publisher: message.number for message in reversed(left)}
        for message in self.confirmed - set(left):
            if message.number > oldest.get(message.publisher, message.number):
                self.problems.append(f"{self.name}: {message} is lost, and older ones are there")
        return self.problems


class GroupReader:
    """Reads the bounded stream as a group, at its end; or what was its oldest record, until that is gone."""

    def __init__(self, harness: Harness, records: BoundedRecords, group: str, *, behind: bool) -> None:
        self.group = group
        self._harness = harness
        self._records = records
        self._behind = behind
        self._identity: int | None = None
        self._acknowledged = self._sent = 0
        self.gaps = 0

    async def run(self) -> None:
        """Read until all publishers have ended."""
        while not self._harness.draining:
            try:
                async with tap(self._harness) as connection:
                    await self._read(connection)
            except Gone:
                pass

    async def look(self, connection: TapConnection) -> int:
        """Check where the group is, and whether the stream is the same; return the position."""
        [bounds] = await call(connection.offsets, self._records.name, self.group)
        position = bounds.position or 0
        if not self._acknowledged <= position <= self._sent:
            self._records.problems.append(f"group {self.group} is at {position}, and was at {self._acknowledged}")
        if self._identity not in {None, bounds.identity}:
            self._records.problems.append("the stream has another identity")
        self._identity = bounds.identity
        return position

    async def _read(self, connection: TapConnection) -> None:
        offset = await self.look(connection)
        name, base = self._records.name, 0
        while not self._harness.draining:
            try:
                found = await call(fetch, connection, name, offset)
            except OutOfRange:
                self.gaps += 1
                [bounds] = await call(connection.offsets, name)
                if not max(base, offset + 1) <= bounds.first:
                    self._records.problems.append(f"{offset} was refused, and {bounds.first} is the first one")
                offset = base = bounds.first
                continue
            for at, value in found:
                if at != offset:
                    self._records.problems.append(f"{offset} was to come, and {at} came")
                self._records.see(at, value)
                offset = at + 1
            if offset > self._acknowledged:
                self._sent = offset
                await call(connection.ack, name, self.group, {0: GroupPosition(self._identity, offset)})
                self._acknowledged = offset
            self._harness.count_events(len(found))
            if self._behind:
                offset = base  # until that is gone


def fetch(connection: TapConnection, stream: str, offset: int, partition: int = 0) -> list[tuple[int, bytes]]:
    """Read a few chunks, or wait for a moment."""
    found: list[tuple[int, bytes]] = []
    for columns in islice(connection.fetch(stream, partition, offset, most_bytes=20_000, wait=0.2), 8):
        merged.add(columns.head.time < columns.head.last_time)
        found += [(record.offset, bytes(record.value)) for record in columns.records()]
    return found


async def read_left(connection: TapConnection, records: BoundedRecords, readers: Sequence[GroupReader]) -> None:
    """Check what is left in the end of the stream that drops what is old."""
    for reader in readers:
        await reader.look(connection)
    [bounds] = await call(connection.offsets, records.name)
    with pytest.raises(OutOfRange):
        await call(fetch, connection, records.name, bounds.first - 1)
    offset = bounds.first
    while offset < bounds.next:
        for at, value in await call(fetch, connection, records.name, offset):
            records.see(at, value)
            offset = at + 1
    records.check_from(bounds.first, bounds.next)


async def read_rows(connection: TapConnection) -> list[Row]:
    """Read all that was committed."""
    rows: list[Row] = []
    for partition, bounds in enumerate(await call(connection.offsets, "orders")):
        offset = 0
        while offset < bounds.next:
            for at, value in await call(fetch, connection, "orders", offset, partition):
                assert at == offset
                rows.append(Row(*map(int, value.split())))
                offset += 1
    return rows


class Found(NamedTuple):
    """What a run has brought."""

    problems: list[str]
    batches: int
    again: int
    gaps: int


async def run(directory: Path, kinds: Sequence[str], seed: int, *, work: int) -> Found:
    """Commit, append and read, kill in turn, and look at all of it in the end."""
    chance, bounded = random.Random(seed), BoundedRecords("bounded")
    merged.clear()
    async with trio.open_nursery() as output:
        async with Harness(directory, Oracle(), *OPTIONS) as harness:
            await harness.start(output)
            writers = [Writer(harness, number, random.Random(chance.getrandbits(64))) for number in range(2)]
            appenders = [
                Appender(harness, 10 + number, [bounded], random.Random(chance.getrandbits(64))) for number in range(2)
            ]
            readers = [
                GroupReader(harness, bounded, "keeps up", behind=False),
                GroupReader(harness, bounded, "falls behind", behind=True),
            ]
            async with trio.open_nursery() as reading:
                for reader in readers:
                    reading.start_soon(reader.run)
                async with trio.open_nursery() as writing:
                    for each in (*writers, *appenders):
                        writing.start_soon(each.run)
                    await kill_in_turn(harness, kinds, chance, work, output)
                    harness.stop_publishing()
                harness.drain()
            async with tap(harness) as connection:
                await read_left(connection, bounded, readers)
                rows = await read_rows(connection)
        output.cancel_scope.cancel()
    problems = list(bounded.problems)
    for writer in writers:
        problems += writer.check([row for row in rows if row.writer == writer.number])
    return Found(
        problems,
        sum(writer.batch for writer in writers),
        sum(writer.again for writer in writers),
        sum(reader.gaps for reader in readers),
    )


def assert_whole(found: Found, seed: int) -> None:
    print(f"seed {seed}: {found.batches} batches, {found.again} staged again, {found.gaps} gaps")
    assert not found.problems, "\n".join([f"seed {seed}", *found.problems[:20]])
    assert found.batches
    assert found.gaps
    assert True in merged


async def test_kills_leave_commits_whole_groups_in_place_and_no_holes(tmp_path: Path) -> None:
    with trio.fail_after(120):
        found = await run(tmp_path, FEW, seed=1, work=3000)
    assert_whole(found, 1)


@pytest.mark.crash
async def test_many_kills_leave_commits_whole(tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    kinds = drawn_kills(rounds, seed)
    with trio.fail_after(60 + 10 * rounds):
        found = await run(tmp_path, kinds, seed, work=6000)
    assert_whole(found, seed)
