"""States of jobs, as they are asked for and as they change."""

from collections.abc import Iterator, Sequence
from typing import Self

import trio

from triomq.protocols.emqp import ENDED, MOST_IDS, Extension, PeerEngine, StateReported


class EMQPReports:
    """What has become of some jobs; made by ``EMQPConnection.follow``, ends with its block.

    An async iterator: first one report of each job, then another one whenever something has changed, until all have
    ended. A slow reader gets the last one of each job.

    Args:
        jobs: Their ids.
        results: Whether answers are wanted with them.
        changes: Whether more than the first report is wanted.
    """

    def __init__(self, jobs: Sequence[bytes], *, results: bool, changes: bool) -> None:
        self.jobs = tuple(dict.fromkeys(jobs))
        self._going = dict.fromkeys(self.jobs)  # those that have not ended, as far as is known here
        self._extension = Extension(follow=changes, result=results)
        self._reports: dict[bytes, StateReported] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._error: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateReported:
        await trio.lowlevel.checkpoint()
        while (report := self.take()) is None:
            if self._error is not None:
                raise self._error
            if not self._going:
                raise StopAsyncIteration
            await self._lot.park()
        return report

    def take(self) -> StateReported | None:
        """Return the next report, if it has come."""
        return self._reports.pop(next(iter(self._reports))) if self._reports else None

    # For the connection

    def questions(self) -> Iterator[tuple[bytes, ...]]:
        """Return so many ids at a time as can be asked for, of jobs that have not ended."""
        going = tuple(self._going)
        for first in range(0, len(going), MOST_IDS):
            yield going[first : first + MOST_IDS]

    def ask(self, engine: PeerEngine, jobs: Sequence[bytes]) -> bytes:
        """Ask for some of them."""
        return engine.ask_states(jobs, self._extension)

    def end(self, engine: PeerEngine) -> None:
        """Have no changes reported any more: a question without ``follow`` ends one that had it."""
        if self._extension.follow:
            for jobs in self.questions():
                engine.ask_states(jobs)

    def put(self, report: StateReported) -> None:
        """Note a report."""
        if report.request in self._going:
            self._reports[report.request] = report
            if report.state.state in ENDED:
                del self._going[report.request]
            self._lot.unpark_all()

    def fail(self, error: Exception) -> None:
        """End: no more will come."""
        self._error = error
        self._lot.unpark_all()
