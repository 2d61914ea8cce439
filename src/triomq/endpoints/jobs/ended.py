"""The jobs that have ended lately, so that one that is sent again is not done again."""

from typing import Final

from triomq.endpoints.jobs.job import End

GENERATION: Final = 32_768
"""Jobs of a generation, of which two are remembered: some 10 MiB, and some seconds of a busy broker, in which a client
that was away is back and has sent again what it has no ACK for."""


class EndedJobs:
    """How the last jobs have ended, by their ids."""

    __slots__ = ("_older", "_young")

    def __init__(self) -> None:
        self._young: dict[bytes, End] = {}
        self._older: dict[bytes, End] = {}

    def add(self, job: bytes, end: End) -> None:
        """Remember a job's end."""
        self._young[job] = end
        if len(self._young) >= GENERATION:
            self._older, self._young = self._young, {}

    def get(self, job: bytes) -> End | None:
        """Return how a job has ended; None if it has not, or too long ago."""
        return self._young.get(job) or self._older.get(job)

    def forget(self, job: bytes) -> None:
        """Forget a job, which begins again."""
        self._young.pop(job, None)
        self._older.pop(job, None)
