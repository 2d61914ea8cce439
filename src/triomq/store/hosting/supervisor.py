"""The supervisor of a store's process: an actor that starts it, restarts it, and runs a session with it.

    broker ── actor StoreSupervisor ── host 1 (died) ── host 2 ── …       one session for each host
                  └── journal: outlives hosts and sessions, and has all that is not on disk yet

- The process may die (kill -9, out of memory) without harm: the actor starts another one, and the session sends again
  what was not answered. The store skips the batches that it has.
- A full disk, an unwritable directory, files that were moved away, no descriptor for a process: waited for, and tried
  again once a second. The journal's ``fault`` shows it meanwhile, and publishing pauses.
- A host that follows another has to find the store that this one had, by its identity, and all that was committed. In
  an empty place it would begin with an empty store, and confirm into that.
- What trying again does not mend (a damaged file, a directory that another broker has, a process that dies five times
  in a row without having committed anything) ends the actor with the error. The broker ends too: it could confirm
  nothing any more.

The host is not a child actor: its death must not count against the broker's restart limit, and the journal must not
lose a batch to a restart of this actor.
"""

import errno
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from math import inf
from pathlib import Path
from typing import ClassVar

import trio

from triomq.actors import Actor, Request, unwrap_group
from triomq.errors import StoreError, StoreLost, StoreUnwritable
from triomq.process import python_command
from triomq.store.hosting.hosts import StoreSettings, open_host
from triomq.store.hosting.session import PASSING, StoreSession
from triomq.store.journal import Journal
from triomq.store.lost_note import leave_note, remove_notes
from triomq.store.presence import KnownStore

_log = logging.getLogger("triomq.store")

_MOST_DEATHS = 5
"""Hosts that may die one after the other without having committed anything, before that is an error."""

_PAUSE = 0.2
"""Seconds between the deaths of the first host and the start of the third; each further pause is longer by as much."""


_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
"""What starting a program fails of that is none, and never for want of something."""

LEAST_WAIT = 5.0
"""Seconds that the last batches are given in any case: a disk may be slow, and there may be many megabytes."""

_NO_HOST = 1.0
"""Seconds until a host is tried again that could not start or could not open the store; as often as a full disk."""


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
        deadline: Returns until when, on Trio's clock, the last batches may take to be written; ``LEAST_WAIT`` seconds
            are given in any case.
    """

    waits_for: ClassVar[tuple[type, ...]] = ()  # others wait for the store, so it waits for none

    def __init__(self, journal: Journal, settings: StoreSettings, deadline: Callable[[], float] = lambda: -inf) -> None:
        self.journal = journal
        self.settings = settings
        self._deadline = deadline
        self._is_noted = False  # whether a note was left that the store is lost
        journal.on_fault(self._fault_changed)
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
        """Wait until all that was added to the journal is on disk, or until the time is up."""
        if self._runs_hosts:
            until = max(self._deadline(), trio.current_time() + LEAST_WAIT)
            fault = self.journal.fault
            if fault is not None and self.journal.committed < self.journal.require_commit():
                seconds = round(until - trio.current_time(), 3)
                _log.warning("waiting for the store", extra={"fields": {"seconds": seconds, "fault": str(fault)}})
            with trio.move_on_at(until):
                await self.wait_committed(WaitCommitted())

    def _fault_changed(self, fault: StoreError | None) -> None:
        if isinstance(fault, StoreLost) and not self._is_noted and self._known is not None:
            self._is_noted = True
            leave_note(self.settings.directory, self._known, str(fault))
        elif fault is None and self._is_noted:
            self._is_noted = False
            remove_notes(self.settings.directory)

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
                    host = await stack.enter_async_context(open_host(self.settings, known=self._known))
                    session = StoreSession(self.journal, host.stream)
                    notices = await session.begin()
                except (OSError, *PASSING) as error:
                    self._note_no_host(error)
                    notices = None
                else:
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
            if notices is None and self.journal.fault is not None:
                await trio.sleep(_NO_HOST)
            else:
                deaths = 1 if self.journal.committed > before else deaths + 1
                await self._pause_after_death(deaths)

    @property
    def _known(self) -> KnownStore | None:
        """What a host has to find; None for the first one."""
        return KnownStore(self.journal.identity, self.journal.committed) if self.journal.is_open else None

    def _note_no_host(self, error: Exception) -> None:
        """Report that no host can be started or cannot open the store: what may pass is waited for.

        Raises:
            StoreError: The broker is only starting, so that there is nothing to go on with.
        """
        fault = error if isinstance(error, StoreError) else None
        if isinstance(error, OSError):
            way = "Raise the limit of open files or of processes, or free memory"
            if error.errno in _NO_PROGRAM:
                way = f"{error.filename} is no program that can be run; was it replaced since the broker began?"
            fault = StoreUnwritable(
                f"the process of the store in {self.settings.directory} cannot be started ({error.strerror}). {way}; "
                "the broker tries again by itself"
            )
        assert fault is not None
        if not self.journal.is_open:
            raise fault from error
        self.journal.failed(fault)

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
