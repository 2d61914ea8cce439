"""A house with a store for tests: what is kept goes to a disk that does what it is told to, when it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory_store import MemoryStore
from triomq.actors import Backoff
from triomq.core import Directory, Get, Head, Keeping, NotResident, QueueStore, recover
from triomq.core.backlog import PagedBacklog

from .cast import House, open_house
from .machine.disk import Disk

KEPT = Head(routing_key="q", persistent=True)
TRANSIENT = Head(routing_key="q")

ONE = 1
"""A memory for queues so small that all but the first message is away."""


class KeptHouse:
    """A house and its disk."""

    def __init__(self, house: House, disk: Disk, keeping: Keeping) -> None:
        self.house = house
        self.disk = disk
        self.keeping = keeping


def open_kept(store: MemoryStore, queue_memory: int, name: str = "house") -> tuple[Disk, Directory]:
    """Open what a store has."""
    disk = Disk(store)
    directory = Directory(name, keeping=Keeping(disk.journal, queue_memory))
    recover(directory)
    return disk, directory


@asynccontextmanager
async def open_kept_house(
    store: MemoryStore | None = None,
    queue_memory: int = 1 << 20,
    *,
    max_restarts: int = 10_000,
    backoff: Backoff | None = None,
) -> AsyncIterator[KeptHouse]:
    """Open a house over a store; what it has not been told when the house closes is lost."""
    disk, directory = open_kept(store or MemoryStore(), queue_memory)
    assert directory.keeping is not None
    async with open_house(directory, max_restarts=max_restarts, backoff=backoff) as house:
        yield KeptHouse(house, disk, directory.keeping)


def backlog_of(store: QueueStore) -> PagedBacklog:
    assert isinstance(store.backlog, PagedBacklog)
    return store.backlog


def get(store: QueueStore, disk: Disk) -> tuple[bytes, bool] | None:
    """Get a message, and whether it is marked; the disk works if it is asked to."""
    for _ in range(2):
        try:
            batch = store.ref.ask_nowait(Get())
        except NotResident:
            disk.work()
        else:
            return None if batch is None else (batch.message(0).content, batch.redelivered)
    raise AssertionError("the messages are not at hand though they were read")
