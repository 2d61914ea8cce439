"""The jobs that have ended lately, so that one that is sent again is not done again."""

from collections.abc import Callable
from typing import Final, TypeAlias

from triomq.endpoints.jobs.job import End

GENERATION: Final = 32_768
"""Jobs of a generation, of which two are remembered, unless they would go in less than ``SECONDS``."""

SECONDS: Final = 60.0
"""For which a job is remembered: a client that was away is back by then, and has sent again what it has no ACK for."""

MOST: Final = 65_536
"""Jobs of a generation in any case: two take some 20 MiB. So a broker that does thousands of jobs a second remembers
them for fewer seconds."""


_HowEnded: TypeAlias = tuple[End, float, str]
"""How, when by Unix time, and whose it was."""


class EndedJobs:
    """How the last jobs have ended, by their ids.

    Args:
        now: Gives the time.
    """

    __slots__ = ("_at", "_began", "_latest", "_now", "_older", "_young")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._young: dict[bytes, _HowEnded] = {}
        self._older: dict[bytes, _HowEnded] = {}
        self._at = 0.0
        self._latest: dict[tuple[End, str], _HowEnded] = {}  # jobs that have ended alike share one

    def begin(self, at: float) -> None:
        """Have what ends from now on end at a Unix time."""
        self._at = at
        self._latest.clear()

    def add(self, job: bytes, end: End, user: str) -> None:
        """Remember how a job of a user has ended."""
        key = (end, user)
        self._young[job] = self._latest.get(key) or self._latest.setdefault(key, (end, self._at, user))
        if len(self._young) >= GENERATION:
            self._look()

    def _look(self) -> None:
        """Begin another generation, if it is time for it."""
        now = self._now()
        if now - self._began >= SECONDS or len(self._young) >= MOST:
            self._older, self._young, self._began = self._young, {}, now

    def get(self, job: bytes) -> End | None:
        """Return how a job has ended; None if it has not, or too long ago."""
        found = self._young.get(job) or self._older.get(job)
        return None if found is None else found[0]

    def user(self, job: bytes) -> str:
        """Return whose job it was; empty if that is not known."""
        found = self._young.get(job) or self._older.get(job)
        return "" if found is None else found[2]

    def since(self, job: bytes) -> float:
        """Return when a job has ended, by Unix time; 0 if that is not known."""
        found = self._young.get(job) or self._older.get(job)
        return 0.0 if found is None else found[1]
