"""The supervisor of a store's process: an actor that starts it, restarts it, and runs a session with it.

    broker ── actor StoreSupervisor ── host 1 (died) ── host 2 ── …       one session for each host
                  └── journal: outlives hosts and sessions, and has all that is not on disk yet

- The process may die (kill -9, out of memory) without harm: the actor starts another one, and the session sends again
  what was not answered. The store skips the batches that it has.
- A full disk, an unwritable directory, no descriptor for a process: waited for, and tried again once a second. The
  journal's ``fault`` shows it meanwhile, and publishing pauses.
- What trying again does not mend (a damaged file, a directory that another broker has, a process that dies five times
  in a row without having committed anything) ends the actor with the error. The broker ends too: it could confirm
  nothing any more.

The host is not a child actor: its death must not count against the broker's restart limit, and the journal must not
lose a batch to a restart of this actor.
"""

import errno
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar

import trio

from triomq.actors import Actor, Request, unwrap_group
from triomq.errors import StoreError, StoreUnwritable
from triomq.process import python_command
from triomq.store.hosting.hosts import StoreSettings, open_host
from triomq.store.hosting.session import StoreSession
from triomq.store.journal import Journal

_log = logging.getLogger("triomq.store")

_MOST_DEATHS = 5
"""Hosts that may die one after the other without having committed anything, before that is an error."""

_PAUSE = 0.2
"""Seconds between the deaths of the first host and the start of the third; each further pause is longer by as much."""


_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
"""What starting a program fails of that is none, and never for want of something."""

_NO_HOST = 1.0
"""Seconds until a host that could not be started is tried again; as often as a full disk."""


class WaitCommitted(Request[None], frozen=True):
    """To a ``StoreSupervisor``: answered when all that was added to the journal so far is on disk."""


class BackUpStore(Request[StoreError | None], frozen=True):
    """To a ``StoreSupervisor``: copy the store to a new directory; the answer is the error, or None."""

    path: Path


class StoreSupervisor(Actor):
    """The actor that runs the hosts of a store; a child of the broker, started before all that use the journal.

    When it has started, ``journal.recovered`` is set.

    Args:
        journal: The operations for the store; belongs to the parent.
        settings: Directory and host.
    """

    waits_for: ClassVar[tuple[type, ...]] = ()  # others wait for the store, so it waits for none

    def __init__(self, journal: Journal, settings: StoreSettings) -> None:
        self.journal = journal
        self.settings = settings
        self.pid: int | None = None
        """The number of the store's process; None while there is none, and on a thread."""
        self._session: StoreSession | None = None
        self._runs_hosts = False  # false again after an error that trying again does not mend
        self._opened = trio.Event()  # set while there is a session; replaced when it ends
        self._hosts = trio.CancelScope()  # in which they run

    async def run(self) -> None:
        """Run hosts in a task beside the actor's own loop.

        A broker whose block is cancelled ends its actors in order, and the store last. So hosts are shielded from that:
        otherwise none would be there to write what the others have left, for which ``on_stop`` waits.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                try:
                    await super().run()
                finally:
                    self._hosts.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None

    async def on_start(self) -> None:
        """Open the store and recover what it has.

        Raises:
            StoreError: It cannot be opened.
        """
        await self._nursery.start(self._supervise_hosts)

    async def on_stop(self) -> None:
        """Wait until all that was added to the journal is on disk."""
        if self._runs_hosts:
            await self.wait_committed(WaitCommitted())

    async def _supervise_hosts(self, task_status: trio.TaskStatus[None]) -> None:
        """Run hosts until the actor ends, or until an error that trying again does not mend."""
        self._runs_hosts = True
        try:
            with self._hosts:
                await self._run_hosts(task_status)
        finally:
            self._runs_hosts = False

    async def _run_hosts(self, task_status: trio.TaskStatus[None]) -> None:
        """Run one host after the other; the task counts as started when the first has opened the store."""
        deaths, started = 0, False
        while True:
            before = self.journal.committed
            async with AsyncExitStack() as stack:
                try:
                    host = await stack.enter_async_context(open_host(self.settings, fresh=not self.journal.is_open))
                except OSError as error:
                    await self._wait_for_host(error)
                    continue
                session = StoreSession(self.journal, host.stream)
                notices = await session.begin()
                if notices is not None:
                    for notice in notices:
                        _log.warning(notice)
                    self.pid, self._session = host.pid, session
                    self.journal.answered(self.journal.committed)  # clears the fault of a time without a host
                    self.journal.merge_again()
                    if not started:
                        started = True
                        self._hosts.shield = True
                        task_status.started()
                    self._opened.set()
                    await session.run()
                    self.pid = self._session = None
                    self._opened = trio.Event()
            deaths = 1 if self.journal.committed > before else deaths + 1
            await self._pause_after_death(deaths)

    async def _wait_for_host(self, error: OSError) -> None:
        """Report that no host can be started, and pause: the broker lacks a descriptor or memory for a process.

        Raises:
            StoreUnwritable: The broker is only starting, so that there is nothing to go on with.
        """
        way = "Raise the limit of open files or of processes, or free memory"
        if error.errno in _NO_PROGRAM:
            way = f"{error.filename} is no program that can be run; was it replaced or removed since the broker began?"
        fault = StoreUnwritable(
            f"the process of the store in {self.settings.directory} cannot be started ({error.strerror}). {way}; the "
            "broker tries again by itself"
        )
        if not self.journal.is_open:
            raise fault from error
        self.journal.failed(fault)
        await trio.sleep(_NO_HOST)

    async def _pause_after_death(self, deaths: int) -> None:
        if deaths > _MOST_DEATHS:
            raise StoreError(
                f"the process of the store in {self.settings.directory} has ended {deaths} times without having "
                "committed anything; what it wrote to standard error says why. It was started by "
                f"{python_command('')[0]}: an interpreter of Python that has triomq?"
            )
        _log.warning("the store's process has ended; starting another", extra={"fields": {"in_a_row": deaths}})
        await trio.sleep(_PAUSE * (deaths - 1))

    async def wait_committed(self, message: WaitCommitted) -> None:
        """Wait until all that was added so far is on disk."""
        wanted = self.journal.require_commit()
        if self.journal.committed < wanted:
            committed = trio.Event()
            self.journal.when_committed(wanted, committed.set)
            await committed.wait()

    async def back_up(self, message: BackUpStore) -> StoreError | None:
        """Copy the store, once a host is open."""
        while self._session is None:
            await self._opened.wait()
        try:
            await self._session.back_up(message.path)
        except StoreError as error:
            return error
        return None
