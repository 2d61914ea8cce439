"""Brokers whose disk is full, whose directory is read-only, whose files are torn: what is refused, what goes on."""

import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from pamqp import commands

from .harness import Harness
from .message import body_of, read_body
from .oracle import Oracle
from .wire import Answer, Delivery, Refused, Wire, ack, publish

_LARGE = 50_000

UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
"""What lets root, too, write only where permissions say so."""

FULL = 2_000_000
"""Octets of a file from which on the disk is full."""


class Talk:
    """A connection in confirm mode, and its answers."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.sent = 0
        self.answers: dict[int, bool] = {}
        self.blocked: str | None = None

    async def publish(self, queue: str, size: int = 0, *, persistent: bool = True) -> int:
        """Publish a message whose number is its tag."""
        self.sent += 1
        await self.wire.send(publish("", queue, body_of(1, self.sent, size=size), persistent=persistent))
        return self.sent

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read until a condition holds."""
        while not condition():
            for event in await self.wire.events():
                if isinstance(event, Answer):
                    tags = range(1, event.tag + 1) if event.multiple else [event.tag]
                    self.answers |= {tag: event.accepted for tag in tags if tag not in self.answers}
                elif isinstance(event, commands.Connection.Blocked):
                    self.blocked = event.reason
                elif isinstance(event, commands.Connection.Unblocked):
                    self.blocked = None

    async def accepted(self, tag: int) -> bool:
        """Wait for the answer to a publish."""
        await self.until(lambda: tag in self.answers)
        return self.answers[tag]

    async def fill_disk(self, queue: str) -> None:
        """Publish one large message after the other, until the broker is blocked."""
        while self.blocked is None:
            await self.publish(queue, _LARGE)
            with trio.move_on_after(0.05):  # what was on its way when the disk was full is answered when it is not
                await self.until(lambda: self.sent in self.answers or self.blocked is not None)

    @property
    def refused(self) -> set[int]:
        return {tag for tag, accepted in self.answers.items() if not accepted}


@asynccontextmanager
async def opened(
    directory: Path, *options: str, prefix: Sequence[str] = ()
) -> AsyncIterator[tuple[Harness, trio.Nursery]]:
    """Run a broker; the nursery is for starting it again."""
    async with prepared(directory, *options, prefix=prefix) as (harness, output):
        await harness.start(output)
        yield harness, output


@asynccontextmanager
async def prepared(
    directory: Path, *options: str, prefix: Sequence[str] = ()
) -> AsyncIterator[tuple[Harness, trio.Nursery]]:
    """Prepare a broker that is started in the nursery."""
    with trio.fail_after(300):  # against hanging: beside other work a start takes some seconds
        async with trio.open_nursery() as output:
            async with Harness(directory, Oracle(), *options, prefix=prefix) as harness:
                yield harness, output
            output.cancel_scope.cancel()


@asynccontextmanager
async def talking(harness: Harness, *queues: str) -> AsyncIterator[Talk]:
    async with harness.wire() as wire:
        for name in queues:
            await wire.call(commands.Queue.Declare(queue=name, durable=True), commands.Queue.DeclareOk)
        await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        yield Talk(wire)


async def take_out(harness: Harness, queue: str) -> list[int]:
    """Take all of a queue out, and give the numbers."""
    async with harness.wire() as wire:
        declare = commands.Queue.Declare(queue=queue, passive=True)
        count = (await wire.call(declare, commands.Queue.DeclareOk)).message_count
        await wire.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        numbers: list[int] = []
        while len(numbers) < count:
            deliveries = [event for event in await wire.events() if isinstance(event, Delivery)]
            numbers += [read_body(delivery.body)[0].number for delivery in deliveries]
            await wire.send(b"".join(ack(delivery.tag) for delivery in deliveries))
        await wire.call(commands.Basic.Qos(), commands.Basic.QosOk)
    return numbers


async def kill(harness: Harness) -> None:
    """End broker and store, and forget them."""
    assert harness.life is not None
    await harness.signal_store(signal.SIGKILL)
    harness.life.kill_broker()
    await harness.wait_gone()


def limit_files(harness: Harness, octets: int) -> None:
    """Let the store's files grow no further, as on a disk that is full."""
    assert harness.life is not None
    store = harness.life.store
    assert store is not None
    _, hard = resource.prlimit(store, resource.RLIMIT_FSIZE)
    resource.prlimit(store, resource.RLIMIT_FSIZE, (octets, hard))


# A full disk


async def test_full_disk_refuses_what_is_to_be_kept_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, output):
        async with talking(harness, "q", "other") as talk, talking(harness, "another") as another:
            for _ in range(20):
                assert await talk.accepted(await talk.publish("other"))
            limit_files(harness, FULL)
            await talk.fill_disk("q")
            assert talk.blocked == "the store cannot be written"
            assert b"the store cannot be written" in harness.log
            # What is to be kept is refused, what need not be is taken.
            assert not await another.accepted(await another.publish("another"))
            assert another.blocked == "the store cannot be written"
            assert await another.accepted(await another.publish("another", persistent=False))
            # Consumers go on, and so do their acks.
            assert await take_out(harness, "other") == list(range(1, 21))
            # Without confirms there is but one way to refuse.
            async with harness.wire() as blind:
                await blind.send(publish("", "q", body_of(2, 1)))
                with pytest.raises(Refused, match="506"):
                    await heard_out(blind)
            # With room again, what waited for the disk is confirmed, and all goes on.
            limit_files(harness, resource.RLIM_INFINITY)
            assert await another.accepted(await unblocked(another))
            assert await talk.accepted(await unblocked(talk))
            await talk.until(lambda: len(talk.answers) == talk.sent)
            assert b"the store can be written again" in harness.log
            assert another.refused == {1}
        await kill(harness)
        await harness.start(output)
        kept = [tag for tag, accepted in sorted(talk.answers.items()) if accepted and tag > 20]
        assert await take_out(harness, "q") == kept
        assert await take_out(harness, "other") == []
        assert await take_out(harness, "another") == [3]


async def heard_out(wire: Wire) -> None:
    """Listen until the broker closes."""
    while True:
        await wire.events()


async def unblocked(talk: Talk) -> int:
    """Publish again, once that is allowed."""
    await talk.until(lambda: talk.blocked is None)
    return await talk.publish("q" if talk.sent > 20 else "another")


async def test_full_disk_undoes_nothing_that_was_confirmed(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, output):
        async with talking(harness, "q") as talk:
            limit_files(harness, FULL)
            await talk.fill_disk("q")
        await kill(harness)
        await harness.start(output)
        found = await take_out(harness, "q")
        assert found == sorted(found)
        assert {tag for tag, accepted in talk.answers.items() if accepted} <= set(found)


async def test_refusal_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, _), talking(harness, "q") as talk:
        limit_files(harness, FULL)
        await talk.fill_disk("q")
        with trio.fail_after(60):
            assert not await talk.accepted(await talk.publish("q"))


async def test_below_the_reserve_publishers_are_refused_and_consumers_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, output):
        await filled(harness, "q", count=10)
        await kill(harness)
        harness.options = (f"--disk-reserve={1 << 60}",)
        await harness.start(output)
        async with talking(harness) as talk:
            await talk.fill_disk("q")
            assert not await talk.accepted(await talk.publish("q"))
            assert await talk.accepted(await talk.publish("q", persistent=False))
        assert b"bytes of room on its disk" in harness.log
        assert (await take_out(harness, "q"))[:10] == list(range(1, 11))
        await kill(harness)
        harness.options = ()
        await harness.start(output)
        async with talking(harness) as talk:
            assert await talk.accepted(await talk.publish("q"))


# A directory that cannot be written


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root may write everywhere; setpriv takes that away")
async def test_broker_does_not_start_on_a_directory_that_it_cannot_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, output):
        await kill(harness)
        os.chmod(tmp_path, 0o500)
        try:
            harness.prefix = UNPRIVILEGED
            with pytest.raises(RuntimeError, match=r"did not start"):
                await harness.start(output)
            assert b"StoreUnwritable" in harness.log
            assert str(tmp_path).encode() in harness.log
        finally:
            os.chmod(tmp_path, 0o700)
        harness.prefix = []
        await harness.start(output)


# Files that are torn


def spoil(path: Path, *places: int) -> None:
    """Turn some octets of a file round."""
    octets = bytearray(path.read_bytes())
    for place in places:
        octets[place] ^= 0xFF
    path.write_bytes(octets)


async def filled(harness: Harness, *queues: str, count: int = 50, size: int = 2000) -> None:
    """Publish to each queue, all confirmed one by one, so that each has a batch of its own."""
    async with talking(harness, *queues) as talk:
        for queue in queues:
            for _ in range(count):
                assert await talk.accepted(await talk.publish(queue, size))


async def refused(harness: Harness, output: trio.Nursery, *texts: str) -> None:
    """Start a broker in vain, and find some texts in its log."""
    with pytest.raises(RuntimeError, match="did not start"):
        await harness.start(output)
    for text in ("StoreCorrupt", "triomq store salvage", *texts):
        assert text.encode() in harness.log


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that was killed, with fifty messages in the queue ``q``; to be copied."""
    directory = tmp_path_factory.mktemp("killed") / "data"

    async def make() -> None:
        async with opened(directory) as (harness, _):
            await filled(harness, "q")
            await kill(harness)

    trio.run(make)
    return directory


@pytest.fixture
def damaged(killed: Path, tmp_path: Path) -> Path:
    """A copy of that directory, to be damaged."""
    return Path(shutil.copytree(killed, tmp_path / "data"))


@pytest.mark.parametrize("place", ["at a tenth", "in the middle", "at the end"])
async def test_changed_bit_in_the_log_is_refused_and_loses_no_message(damaged: Path, place: str) -> None:
    log = damaged / "store.db-wal"
    octets = log.read_bytes()
    position = {"at a tenth": len(octets) // 10, "in the middle": len(octets) // 2, "at the end": len(octets) - 99}
    spoil(log, position[place])
    async with prepared(damaged) as (harness, output):
        await refused(harness, output, str(damaged))
        log.write_bytes(octets)
        await harness.start(output)
        assert await take_out(harness, "q") == list(range(1, 51))


@pytest.mark.parametrize("damage", ["removed", "emptied", "cut", "header", "no database"])
async def test_missing_log_is_found(damaged: Path, damage: str) -> None:
    log = damaged / "store.db-wal"
    match damage:
        case "removed":
            log.unlink()
        case "emptied":
            os.truncate(log, 0)
        case "cut":
            os.truncate(log, log.stat().st_size * 3 // 4 - 11)
        case "header":
            spoil(log, *range(32))
        case "no database":
            (damaged / "store.db").unlink()
    async with prepared(damaged) as (harness, output):
        await refused(harness, output, str(damaged))


@pytest.mark.parametrize("name", ["header", "shorter"])
async def test_broker_does_not_start_on_a_damaged_file(damaged: Path, name: str) -> None:
    file = damaged / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if name == "header":
        spoil(file, *range(16))
    else:
        os.truncate(file, 16384 * 2)
    async with prepared(damaged) as (harness, output):
        await refused(harness, output, str(file))


async def test_damaged_body_is_set_aside_and_all_others_are_delivered(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, output):
        await filled(harness, "well", "damaged", size=30_000, count=10)
        await kill(harness)
        file = tmp_path / "store.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in (11, 15):  # the first and the fifth in the second queue
            needle = body_of(1, number, size=30_000)[-1000:]
            spoil(file, file.read_bytes().index(needle) + 500)
        await harness.start(output)
        async with harness.wire() as wire:
            await wire.call(commands.Basic.Consume(queue="damaged"), commands.Basic.ConsumeOk)
            numbers: list[int] = []
            while len(numbers) < 8:
                deliveries = [event for event in await wire.events() if isinstance(event, Delivery)]
                numbers += [read_body(delivery.body)[0].number for delivery in deliveries]
        assert numbers == [12, 13, 14, 16, 17, 18, 19, 20]
        assert b"messages are damaged and set aside" in harness.log
        assert b"'queue': 'damaged', 'messages': 1, 'first': 5" in harness.log
        assert await take_out(harness, "well") == list(range(1, 11))
        async with talking(harness, "damaged") as talk:
            assert await talk.accepted(await talk.publish("damaged"))
            purge = commands.Queue.Purge(queue="damaged")
            await talk.wire.call(purge, commands.Queue.PurgeOk)
            assert await talk.accepted(await talk.publish("damaged"))
        await kill(harness)
        log = len(harness.log)
        await harness.start(output)
        assert await take_out(harness, "damaged") == [2]
        assert b"damaged and set aside" not in harness.log[log:]
