"""Deadlines and heartbeats of one connection, without a clock.

Time only comes in with ``handle(now)``. What begins between two calls (a close to wait for, a heartbeat agreed on) is
not armed yet: then ``next()`` says "at once", and the call that follows brings the time.
"""

from typing import Literal, TypeAlias

__all__ = ["Due", "Timers"]

Due: TypeAlias = Literal["deadline", "heartbeat", "lost"]

# Traffic sets a flag; a quarter of the interval later the flag is looked at. A quarter with nothing sent makes a
# heartbeat, so none comes later than half an interval after the last octet.
TICKS_PER_INTERVAL = 4
# Section 4.2.7: a peer from which nothing came for two intervals or more is given up.
SILENT_TICKS = 2 * TICKS_PER_INTERVAL


class Timers:
    """Owned by one engine. ``heard`` and ``spoke`` are set by traffic, cleared by ticks."""

    __slots__ = (
        "_deadline",
        "_now",
        "_silent",
        "_started",
        "_tick",
        "_unarmed",
        "heard",
        "interval",
        "paused",
        "spoke",
    )

    def __init__(self, now: float, seconds: float) -> None:
        """Begin with one deadline, ``seconds`` from ``now``."""
        self._now = self._started = now
        self._deadline: float | None = now + seconds
        self._unarmed: float | None = None
        self._tick: float | None = None
        self._silent = 0
        self.interval = 0
        self.heard = self.spoke = False
        self.paused = False

    def expect_nothing(self) -> None:
        """Drop the deadline."""
        self._deadline = self._unarmed = None

    def expect_since_start(self, seconds: float) -> None:
        """Replace the deadline by one that is counted from the beginning."""
        self._deadline, self._unarmed = self._started + seconds, None

    def expect_within(self, seconds: float) -> None:
        """Replace the deadline by one that is counted from the next ``handle``."""
        self._deadline, self._unarmed = None, seconds

    def beat(self, interval: int) -> None:
        """Keep heartbeats of so many seconds; 0 is none."""
        self.interval = interval
        self._tick = None
        self._silent = 0

    def stop(self) -> None:
        """Expect nothing more."""
        self.expect_nothing()
        self.beat(0)

    def next(self) -> float | None:
        """Say when ``handle`` wants to be called."""
        if self._unarmed is not None or (self.interval and self._tick is None):
            return self._now
        if self._tick is None or (self._deadline is not None and self._deadline < self._tick):
            return self._deadline
        return self._tick

    def handle(self, now: float) -> list[Due]:
        """Arm what has begun; say what is due."""
        self._now = now
        due: list[Due] = []
        if self._unarmed is not None:
            self._deadline, self._unarmed = now + self._unarmed, None
        elif self._deadline is not None and now >= self._deadline:
            self._deadline = None
            due.append("deadline")
        if self.interval and (self._tick is None or now >= self._tick):
            if self._tick is not None:
                due += self._look()
            self._tick = now + self.interval / TICKS_PER_INTERVAL
        return due

    def _look(self) -> list[Due]:
        """Look at the flags that traffic has set since the last tick."""
        # While we do not read, the peer cannot be heard: its silence is not counted.
        self._silent = 0 if self.heard or self.paused else self._silent + 1
        spoke, self.heard, self.spoke = self.spoke, False, False
        if self._silent >= SILENT_TICKS:
            return ["lost"]
        return [] if spoke else ["heartbeat"]
