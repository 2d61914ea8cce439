"""A house with a store for tests: what is kept goes to a disk that does what it is told to, when it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory_store import MemoryStore
from triomq.actors import Backoff
from triomq.core import Directory, Get, Head, NotResident, Persistence, QueueState, recover
from triomq.core.backlog import PagedBacklog

from .cast import Harness, open_harness
from .machine.disk import Disk

KEPT = Head(routing_key="q", persistent=True)
TRANSIENT = Head(routing_key="q")

ONE = 1
"""A memory for queues so small that all but the first message is away."""


class DurableHarness:
    """A house and its disk."""

    def __init__(self, harness: Harness, disk: Disk, persistence: Persistence) -> None:
        self.harness = harness
        self.disk = disk
        self.persistence = persistence


def open_kept(store: MemoryStore, queue_memory: int, name: str = "house") -> tuple[Disk, Directory]:
    """Open what a store has."""
    disk = Disk(store)
    directory = Directory(name, persistence=Persistence(disk.journal, queue_memory))
    recover(directory)
    return disk, directory


@asynccontextmanager
async def open_durable_harness(
    store: MemoryStore | None = None,
    queue_memory: int = 1 << 20,
    *,
    max_restarts: int = 10_000,
    backoff: Backoff | None = None,
) -> AsyncIterator[DurableHarness]:
    """Open a house over a store; what it has not been told when the house closes is lost."""
    disk, directory = open_kept(store or MemoryStore(), queue_memory)
    assert directory.persistence is not None
    async with open_harness(directory, max_restarts=max_restarts, backoff=backoff) as harness:
        yield DurableHarness(harness, disk, directory.persistence)


def backlog_of(queue: QueueState) -> PagedBacklog:
    assert isinstance(queue.backlog, PagedBacklog)
    return queue.backlog


def get(queue: QueueState, disk: Disk) -> tuple[bytes, bool] | None:
    """Get a message, and whether it is marked; the disk works if it is asked to."""
    for _ in range(2):
        try:
            batch = queue.ref.ask_nowait(Get())
        except NotResident:
            disk.work()
        else:
            return None if batch is None else (batch.message(0).content, batch.redelivered)
    raise AssertionError("the messages are not at hand though they were read")
