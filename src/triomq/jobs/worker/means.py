"""How long jobs take, and so how many of them may wait where."""

from typing import Final

from triomq.jobs.child.tokens import MOST_JOBS

_WEIGHT: Final = 0.2
"""Of the last job in a mean: one that differs from all before it changes little, five of them most of it."""

AHEAD: Final = 0.002
"""Seconds of work that a child may hold: long beside the wake-up that it saves (0.05 ms), short for those that wait."""

WORTH: Final = 0.005
"""Seconds of work that a worker asks its broker for beyond what it can begin: several round trips."""

MOST_CREDIT: Final = 64
"""Jobs that a worker asks for beyond one for each slot: with more, little is gained (81 µs a job with 64, 72 with 128),
and more have to be taken back from a worker that dies or is slow."""

SLOW: Final = 0.010
"""Seconds after which those behind a job are taken back, and a child counts as one that works on one job only."""


class Mean:
    """An exponentially weighted mean of run times; 0 as long as it is unknown."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count a run."""
        mean = self.seconds
        self.seconds = mean + _WEIGHT * (seconds - mean) if mean else seconds

    @property
    def cost(self) -> float:
        """Seconds to expect of one run, at least those that leave ``MOST_JOBS`` to a child; unknown ones fill it."""
        return max(self.seconds, AHEAD / MOST_JOBS) if self.seconds else AHEAD

    def worth(self, slots: int) -> int:
        """Return how many jobs some slots end within ``WORTH``, of those that may wait here."""
        if not self.seconds:
            return 0
        return max(0, min(int(slots * WORTH / self.seconds), MOST_CREDIT - slots))
