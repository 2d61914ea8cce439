"""The actor in front of a store: it sends what the journal gathers, and keeps the store's process alive.

The death of the process is something that happens to this actor, not its own end: it starts another one and sends again
what was not answered, which the store does not do twice. A disk that is full is waited for. What cannot be mended by
trying again (a damaged file, a directory that another broker has) ends the actor with the error that says so.
"""

import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import ClassVar

import msgspec
import trio

from triomq.actors import Actor, Request, unwrap_group
from triomq.errors import StoreError, StoreUnwritable
from triomq.store.directory import PATIENCE
from triomq.store.hosting.hosts import Host, HostKind, open_host
from triomq.store.hosting.session import StoreSession
from triomq.store.journal import Journal
from triomq.store.reserve import DISK_RESERVE

_log = logging.getLogger("triomq.store")

_MOST_DEATHS = 5
"""Hosts that may die one after the other without having kept anything, before that is an error."""

_PAUSE = 0.2
"""Seconds between the second and the third of them; each further pause is longer by as much."""


_NO_HOST = 1.0
"""Seconds until a host is tried again that could not be started; as often as a full disk."""


class StoreSettings(msgspec.Struct, frozen=True):
    """Where a store is, and how its work is done.

    Args:
        directory: Made if it is not there.
        host: ``process``, or ``thread`` where no child may be started.
        patience: Seconds to wait for a broker that is leaving the directory.
        reserve: Octets on the disk below which nothing new is kept.
    """

    directory: Path
    host: HostKind = "process"
    patience: float = PATIENCE
    reserve: int = DISK_RESERVE


class WaitCommitted(Request[None], frozen=True):
    """To the store's actor: answer when all that was said to the journal so far is on disk."""


class BackUpStore(Request[StoreError | None], frozen=True):
    """To the store's actor: copy the store to a directory that is not there yet; answers why it cannot be done."""

    path: Path


class StoreSupervisor(Actor):
    """The store's actor; a child of the broker, before all that have something to keep.

    When it has started, ``journal.recovered`` is what was found.

    Args:
        journal: What is to be kept; belongs to the parent.
        settings: Where and how.
    """

    waits_for: ClassVar[tuple[type, ...]] = ()  # whoever waits for the store must not be waited for by it

    def __init__(self, journal: Journal, settings: StoreSettings) -> None:
        self.journal = journal
        self.settings = settings
        self.pid: int | None = None
        """The number of the store's process; None while there is none."""
        self._session: StoreSession | None = None
        self._runs_hosts = False  # false again after an error that trying again does not mend
        self._progress = trio.Event()  # replaced whenever batches have come to be on disk, or a host has come or gone

    async def run(self) -> None:
        """Keep a host alive beside the actor's own loop."""
        try:
            async with trio.open_nursery() as self._nursery:
                await super().run()
                self._nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None

    async def on_start(self) -> None:
        """Open the store, and read what is there.

        Raises:
            StoreError: It cannot be opened.
        """
        await self._nursery.start(self._supervise_hosts)

    async def on_stop(self) -> None:
        """Wait until all that was said is on disk."""
        if self._runs_hosts:
            await self._wait_committed()

    async def _supervise_hosts(self, task_status: trio.TaskStatus[None]) -> None:
        """Run hosts until the actor ends, or until an error that trying again does not mend."""
        self._runs_hosts = True
        try:
            await self._run_hosts(task_status)
        finally:
            self._runs_hosts = False

    async def _run_hosts(self, task_status: trio.TaskStatus[None]) -> None:
        """Start one host after the other; the first has opened the store when the task counts as started."""
        deaths, started = 0, False
        while True:
            before = self.journal.committed
            async with AsyncExitStack() as stack:
                try:
                    host = await stack.enter_async_context(self._open_host())
                except OSError as error:
                    await self._wait_for_host(error)
                    continue
                session = StoreSession(self.journal, host.stream, self._signal_progress)
                notices = await session.begin()
                if notices is not None:
                    for notice in notices:
                        _log.warning(notice)
                    self.pid, self._session = host.pid, session
                    self.journal.answered(self.journal.committed)  # if there was no host for a while, that is over
                    if not started:
                        started = True
                        task_status.started()
                    self._signal_progress()
                    await session.run()
                    self.pid = self._session = None
            deaths = 1 if self.journal.committed > before else deaths + 1
            await self._pause_after_death(deaths)

    def _open_host(self) -> AbstractAsyncContextManager[Host]:
        settings = self.settings
        return open_host(
            settings.host,
            settings.directory,
            fresh=not self.journal.is_open,
            patience=settings.patience,
            reserve=settings.reserve,
        )

    async def _wait_for_host(self, error: OSError) -> None:
        """Let a broker that runs go on without a store for a while: it has no descriptor or no memory for a process.

        Raises:
            StoreUnwritable: The broker does not run yet.
        """
        fault = StoreUnwritable(
            f"the process of the store in {self.settings.directory} cannot be started ({error.strerror}). Raise the "
            "limit of open files or of processes, or free memory; the broker tries again by itself"
        )
        if not self.journal.is_open:
            raise fault from error
        self.journal.failed(fault)
        await trio.sleep(_NO_HOST)

    async def _pause_after_death(self, deaths: int) -> None:
        if deaths > _MOST_DEATHS:
            raise StoreError(
                f"the process of the store in {self.settings.directory} has ended {deaths} times without having kept "
                "anything; what it wrote to standard error says why"
            )
        _log.warning("the store's process has ended; starting another", extra={"fields": {"in_a_row": deaths}})
        await trio.sleep(_PAUSE * (deaths - 1))

    def _signal_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def wait_committed(self, message: WaitCommitted) -> None:
        """Answer when all that was said so far is on disk."""
        await self._wait_committed()

    async def _wait_committed(self) -> None:
        wanted = self.journal.last_batch
        self.journal.wake()  # marks alone wake nobody up
        while self.journal.committed < wanted:
            await self._progress.wait()

    async def back_up(self, message: BackUpStore) -> StoreError | None:
        """Copy the store."""
        while self._session is None:
            await self._progress.wait()
        try:
            await self._session.back_up(message.path)
        except StoreError as error:
            return error
        return None
