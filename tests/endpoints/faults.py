"""What a store may do to endpoints: it cannot be written, or it takes its time."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from triomq.app import Broker
from triomq.errors import StoreUnwritable
from triomq.store import Journal
from triomq.store.hosting import StoreSupervisor


def journal_of(broker: Broker) -> Journal:
    persistence = broker.directory.persistence
    assert persistence is not None
    return persistence.journal


async def written(broker: Broker) -> None:
    """Wait until all that was to be written is on disk: an answer to that would end a fault."""
    journal = journal_of(broker)
    number = journal.require_commit()
    while journal.committed < number:  # noqa: ASYNC110  # the store is another process
        await trio.sleep(0.001)


@contextmanager
def unwritable(broker: Broker) -> Iterator[None]:
    """Let the journal hear that the store cannot be written, as the store's actor tells it, and then that it can."""
    journal = journal_of(broker)
    journal.failed(StoreUnwritable("the disk is in a bad mood; soothe it"))
    try:
        yield
    finally:
        journal.answered(journal.committed)
        journal.wake()


@contextmanager
def frozen(broker: Broker) -> Iterator[int]:
    """Let the store's process stand still; its number is given."""
    top = broker.endpoints.ref.parent
    assert top is not None
    supervisor = top.children["store"].actor
    assert isinstance(supervisor, StoreSupervisor)
    assert supervisor.pid is not None
    os.kill(pid := supervisor.pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)
