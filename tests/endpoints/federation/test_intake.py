"""What a peer delivers, and how it is answered: acks in time, and the end where it counts otherwise."""

from collections.abc import Iterable

import pytest
import trio
import trio.testing

from core.harness import Harness, close, open_harness, ready, settle
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.actors import InPlaceActor
from triomq.core import Changed, Directory, Outcome, Persistence, QueueOptions
from triomq.core.topology.options import Overflow
from triomq.endpoints.federation.intake import Intake
from triomq.errors import DiskFull, RemoteProtocolError, TriomqError
from triomq.protocols.amqp import BasicDeliver, DeliverRun, Framing

PERSISTENT, TRANSIENT = b"\x10\x00\x02x", b"\x10\x00\x01x"
"""Properties with nothing but a delivery mode (section 1.8.1), and a body."""


class Wire:
    """In place of a connection to a peer: records what is settled."""

    def __init__(self) -> None:
        self.settled: list[tuple[int, list[int], list[int]]] = []
        self.ends: list[TriomqError] = []
        self.link = self

    def settle(self, *, up_to: int = 0, single: Iterable[int] = (), refused: Iterable[int] = ()) -> None:
        self.settled.append((up_to, list(single), list(refused)))

    def end(self, error: TriomqError) -> None:
        self.ends.append(error)


class Taker(InPlaceActor):
    def __init__(self, harness: Harness) -> None:
        self.wire = Wire()
        self.known = {"q", "r"}
        harness.start(self)
        knows = self.known.__contains__
        self.intake = Intake(self.wire, harness.directory, knows, self)  # type: ignore[arg-type]

    def changed(self, message: Changed) -> None:
        """Handle something, as every actor does."""

    def after_batch(self) -> None:
        self.intake.settle()

    def take(self, tag: str, first: int, *bodies: bytes, redelivered: bool = False) -> None:
        self.ref.run_in_turn(self._take, tag, first, bodies, redelivered)

    def _take(self, tag: str, first: int, bodies: tuple[bytes, ...], redelivered: bool) -> None:
        method = BasicDeliver(tag, first, redelivered, "s", "k")
        tags = list(range(first, first + len(bodies)))
        flags = 0x1000 if bodies[0] in (PERSISTENT, TRANSIENT) else 0
        stop = 3 if flags else 0
        framing = Framing(0, 0, stop, stop, 0, flags)
        self.intake.take(DeliverRun(1, method, tags, framing, list(bodies), sum(map(len, bodies))))
        self.ref.touch()


async def test_message_that_a_peer_delivers_again_is_marked_as_redelivered() -> None:
    async with open_harness() as harness:
        queue, taker, consumer = harness.queue("q"), Taker(harness), harness.consumer()
        taker.take("x:q", 1, b"1")
        taker.take("x:q", 2, b"2", redelivered=True)
        feed = harness.feed(queue, consumer)
        close(feed)
        settle(consumer.batches.pop(), Outcome.RETURN)  # never sent
        harness.feed(queue, consumer)
        marks = {content: batch.redelivered for batch in consumer.batches for content in batch.contents}
        assert marks == {b"1": False, b"2": True}


@pytest.mark.parametrize("tag", ["x:q", "q:q"])
async def test_message_that_a_queue_has_is_acked(tag: str) -> None:
    async with open_harness() as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        taker.take(tag, 1, b"1", b"2")
        taker.take(tag, 3, b"3")
        assert ready(queue) == [b"1", b"2", b"3"]
        assert taker.wire.settled == [(2, [], []), (0, [3], [])]
        assert taker.intake.received == 3
        (entry, *_) = queue.backlog.entries()
        assert (entry.message.head.exchange, entry.message.head.routing_key) == ("s", "k")


async def test_durable_message_is_acked_when_it_is_on_disk() -> None:
    disk = SimulatedDisk(MemoryStore())
    async with open_harness(Directory("house", persistence=Persistence(disk.journal))) as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        taker.take("x:q", 1, PERSISTENT, PERSISTENT, TRANSIENT)
        assert len(ready(queue)) == 3
        assert taker.wire.settled == []
        disk.work()
        assert taker.wire.settled == [(3, [], [])]


async def test_messages_wait_while_a_store_cannot_be_written() -> None:
    disk = SimulatedDisk(MemoryStore())
    async with open_harness(Directory("house", persistence=Persistence(disk.journal))) as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        disk.journal.failed(DiskFull("full"))
        taker.take("x:q", 1, PERSISTENT)
        assert ready(queue) == []
        disk.work()
        disk.journal.answered(disk.store.committed)
        await trio.testing.wait_all_tasks_blocked()
        assert len(ready(queue)) == 1
        disk.work()
        assert taker.wire.settled == [(0, [1], [])]


@pytest.mark.parametrize("tag", ["x:unknown", "y:q", "q", "x:r", "x:alone"])
async def test_message_that_belongs_nowhere_is_refused(tag: str) -> None:
    async with open_harness() as harness:
        taker = Taker(harness)
        taker.known.add("alone")
        queues = [harness.queue("q"), harness.queue("alone", QueueOptions(exclusive=True))]
        taker.take(tag, 1, b"1")
        taker.take("x:q", 2, b"2")
        assert [ready(queue) for queue in queues] == [[b"2"], []]
        assert taker.wire.settled == [(0, [], [1]), (0, [2], [])]


async def test_message_that_a_queue_refuses_is_rejected() -> None:
    async with open_harness() as harness:
        harness.queue("q", QueueOptions(max_length=1, overflow=Overflow.REJECT_PUBLISH))
        taker = Taker(harness)
        taker.take("x:q", 1, b"1", b"2")
        assert taker.wire.settled == [(0, [1], [2])]


async def test_message_under_way_to_a_queue_that_restarts_is_acked_when_it_is_there() -> None:
    async with open_harness() as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        harness.queue("r")
        harness.crash_nowait(queue)
        taker.take("x:q", 1, b"1")
        taker.take("x:r", 2, b"2")
        assert taker.wire.settled == [(0, [2], [])]
        await queue.ref.wait_running()
        assert ready(queue) == [b"1"]
        assert taker.wire.settled[1:] == [(0, [1], [])]


async def test_while_memory_is_short_nothing_is_taken_and_then_all_in_order() -> None:
    async with open_harness() as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        harness.directory.memory.on = True
        taker.take("x:q", 1, b"1")
        taker.take("x:q", 2, b"2")
        assert (ready(queue), taker.wire.settled) == ([], [])
        harness.directory.memory.set_mark(0)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert ready(queue) == [b"1", b"2"]
        harness.directory.memory.on = True
        taker.take("x:q", 3, b"3")
        taker.intake.forget()
        harness.directory.memory.set_mark(0)
        await trio.lowlevel.checkpoint()
        assert ready(queue) == [b"1", b"2"]


async def test_peer_that_counts_otherwise_is_left() -> None:
    async with open_harness() as harness:
        queue, taker = harness.queue("q"), Taker(harness)
        taker.take("x:q", 7, b"1")
        assert ready(queue) == []
        (error,) = taker.wire.ends
        assert isinstance(error, RemoteProtocolError)
        assert str(error) == "delivery 7 came where 1 was due"
