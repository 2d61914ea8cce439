"""The jobs that have ended lately, so that one that is sent again is not done again."""

from collections.abc import Callable
from typing import Final

from triomq.endpoints.jobs.job import End

GENERATION: Final = 32_768
"""Jobs of a generation, of which two are remembered, unless they would go in less than ``SECONDS``."""

SECONDS: Final = 60.0
"""For which a job is remembered: a client that was away is back by then, and has sent again what it has no ACK for."""

MOST: Final = 65_536
"""Jobs of a generation in any case: two take some 20 MiB. So a broker that does thousands of jobs a second remembers
them for fewer seconds."""


class EndedJobs:
    """How the last jobs have ended, by their ids.

    Args:
        now: Gives the time.
    """

    __slots__ = ("_began", "_now", "_older", "_young")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._young: dict[bytes, End] = {}
        self._older: dict[bytes, End] = {}

    def add(self, job: bytes, end: End) -> None:
        """Remember a job's end."""
        self._young[job] = end
        if len(self._young) >= GENERATION:
            self._look()

    def _look(self) -> None:
        """Begin another generation, if it is time for it."""
        now = self._now()
        if now - self._began >= SECONDS or len(self._young) >= MOST:
            self._older, self._young, self._began = self._young, {}, now

    def get(self, job: bytes) -> End | None:
        """Return how a job has ended; None if it has not, or too long ago."""
        return self._young.get(job) or self._older.get(job)

    def forget(self, job: bytes) -> None:
        """Forget a job, which begins again."""
        self._young.pop(job, None)
        self._older.pop(job, None)
