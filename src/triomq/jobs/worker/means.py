"""How long jobs take, and so how many of them may wait where."""

from typing import Final

_WEIGHT: Final = 0.2
"""Of the last job in a mean: one that differs from all before it changes little, five of them most of it."""

AHEAD: Final = 0.002
"""Seconds of work that a child may hold: long beside the wake-up that it saves (0.05 ms), short for those that wait."""

ENOUGH: Final = AHEAD / 2
"""Seconds of work for which no other child is woken: twenty times what waking one costs, its answers included."""

_BESIDE: Final = 0.00002
"""Seconds that a child takes for a job beside running it: token, arguments, answer."""

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
        """Seconds that a child is to be expected to take for one; an unknown one fills it."""
        return self.seconds + _BESIDE if self.seconds else AHEAD

    def worth(self, slots: int) -> int:
        """Return how many jobs some slots end within ``WORTH``, of those that may wait here."""
        if not self.seconds:
            return 0
        return max(0, min(int(slots * WORTH / self.seconds), MOST_CREDIT - slots))
