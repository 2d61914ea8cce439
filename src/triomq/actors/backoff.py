"""The delays before restarts: exponential, with jitter."""

from __future__ import annotations

import random

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """The delays between crash and restart of one child.

    The first restart is immediate, as OTP's are; the second waits ``initial`` seconds, each further one ``factor``
    times as long, up to ``maximum``. A child that has lived for a supervisor's ``period`` starts again from the
    beginning. Jitter subtracts up to that share of a delay, so that children that crashed together do not start
    together.
    """

    initial: float = 0.1
    factor: float = 2.0
    maximum: float = 30.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.initial < 0 or self.factor < 1 or self.maximum < self.initial or not 0 <= self.jitter <= 1:
            raise ValueError(f"{self} makes no sense: 0 <= initial <= maximum, factor >= 1, 0 <= jitter <= 1")

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row, the present one included."""
        if failures <= 1:
            return 0.0
        try:
            full = min(self.maximum, self.initial * self.factor ** (failures - 2))
        except OverflowError:
            full = self.maximum
        return full * (1 - self.jitter * random.random())
