"""A journal with a store behind it, and what tests do with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import trio

from triomq.actors.testing import open_test_system
from triomq.errors import StoreError
from triomq.store import Journal, QueueDeclared, Reading, SegmentFound, SqliteStore, assemble
from triomq.store.hosting import HostKind, StoreSettings, StoreSupervisor, WaitCommitted

Answer = Reading | StoreError


class Harness:
    """A journal with a store behind it."""

    def __init__(self, journal: Journal, supervisor: StoreSupervisor) -> None:
        self.journal = journal
        self.supervisor = supervisor

    async def committed(self) -> None:
        with trio.fail_after(60):
            await self.supervisor.ref.ask(WaitCommitted())

    async def fetched(self, first: int, stop: int) -> Answer:
        answers: list[Answer] = []
        done = trio.Event()

        def note(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        self.journal.fetch(1, first, stop, 1 << 20, note)
        with trio.fail_after(60):
            await done.wait()
        return answers[0]


@asynccontextmanager
async def harness(directory: Path, host: HostKind, *, patience: float = 0) -> AsyncIterator[Harness]:
    journal = Journal()
    async with open_test_system() as system:
        ref = await system.start(
            lambda: StoreSupervisor(journal, StoreSettings(directory, host, patience)), name="store"
        )
        assert isinstance(ref.actor, StoreSupervisor)
        yield Harness(journal, ref.actor)


def declare(journal: Journal) -> None:
    journal.add(QueueDeclared(1, b"q", b"options"))


def segments(directory: Path) -> list[SegmentFound]:
    with closing(SqliteStore(directory, patience=0)) as store:
        return assemble(store.recover()).queues[1].segments
