"""A domain with a store for tests: durable things go to a simulated disk, which works when it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory_store import MemoryStore
from triomq.actors import Backoff
from triomq.core import Directory, Get, Head, NotResident, Persistence, QueueState, recover, traits_of
from triomq.core.backlog import PagedBacklog

from .harness import Harness, open_harness
from .simulated_disk import SimulatedDisk

PERSISTENT = Head(routing_key="q", traits=traits_of(persistent=True))
TRANSIENT = Head(routing_key="q")

ONE = 1
"""A memory for queues so small that all but the first message is paged out."""


class DurableHarness:
    """A harness and its disk."""

    def __init__(self, harness: Harness, disk: SimulatedDisk, persistence: Persistence) -> None:
        self.harness = harness
        self.disk = disk
        self.persistence = persistence


def open_durable_directory(
    store: MemoryStore, queue_memory: int, name: str = "domain"
) -> tuple[SimulatedDisk, Directory]:
    """Open the contents of a store."""
    disk = SimulatedDisk(store)
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
    """Open a harness over a store; what was not written when the harness closes is lost."""
    disk, directory = open_durable_directory(store or MemoryStore(), queue_memory)
    assert directory.persistence is not None
    async with open_harness(directory, max_restarts=max_restarts, backoff=backoff) as harness:
        yield DurableHarness(harness, disk, directory.persistence)


def backlog_of(queue: QueueState) -> PagedBacklog:
    assert isinstance(queue.backlog, PagedBacklog)
    return queue.backlog


def get(queue: QueueState, disk: SimulatedDisk) -> tuple[bytes, bool] | None:
    """Get a message, and whether it is marked; the disk works if it is asked to."""
    for _ in range(2):
        try:
            batch = queue.ref.ask_nowait(Get())
        except NotResident:
            disk.work()
        else:
            return None if batch is None else (batch.message(0).content, batch.redelivered)
    raise AssertionError("the messages are not resident though they were read")
