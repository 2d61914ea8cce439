"""Deadlines and heartbeats of one connection, without a clock.

Time only comes in with ``handle(now)``. What begins between two calls (a close to wait for, a heartbeat agreed on) is
not armed yet: then ``next()`` returns "at once", and the call that follows brings the time.
"""

from typing import Literal, TypeAlias

Due: TypeAlias = Literal["deadline", "heartbeat", "lost"]

# Traffic sets a flag; a quarter of the interval later the flag is looked at. A quarter with nothing sent makes a
# heartbeat, and the next look is due half an interval later: an idle connection is woken for heartbeats alone, and
# none comes later than three quarters of the interval after the last octet (with RabbitMQ it may be a whole one).
QUARTERS = 4
# Section 4.2.7: a peer from which nothing came for two intervals or more is given up.
SILENT_QUARTERS = 2 * QUARTERS


class Timers:
    """Owned by one engine. ``has_received`` and ``has_sent`` are set by traffic, cleared by ticks."""

    __slots__ = (
        "_deadline",
        "_now",
        "_quarters",
        "_silent",
        "_started",
        "_tick",
        "_unarmed",
        "has_received",
        "has_sent",
        "interval",
        "paused",
    )

    def __init__(self, now: float, seconds: float) -> None:
        self._now = self._started = now
        self._deadline: float | None = now + seconds
        self._unarmed: float | None = None
        self._tick: float | None = None
        self._quarters = 1  # of the interval, until the next tick
        self._silent = 0  # quarters without an octet of the peer
        self.interval = 0
        self.has_received = self.has_sent = False
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
        """Start heartbeats with an interval in seconds; 0 is none."""
        self.interval = interval
        self._tick = None
        self._quarters, self._silent = 1, 0

    def stop(self) -> None:
        """Stop all timers."""
        self.expect_nothing()
        self.beat(0)

    def next(self) -> float | None:
        """Return when to call ``handle``."""
        if self._unarmed is not None or (self.interval and self._tick is None):
            return self._now
        if self._tick is None or (self._deadline is not None and self._deadline < self._tick):
            return self._deadline
        return self._tick

    def handle(self, now: float) -> list[Due]:
        """Arm what has begun; return what is due."""
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
            self._tick = now + self._quarters * self.interval / QUARTERS
        return due

    def _look(self) -> list[Due]:
        """Return what is due by the flags that traffic has set since the last tick."""
        # While we do not read, nothing can come from the peer: its silence is not counted.
        self._silent = 0 if self.has_received or self.paused else self._silent + self._quarters
        sent, self.has_received, self.has_sent = self.has_sent, False, False
        if self._silent >= SILENT_QUARTERS:
            return ["lost"]
        self._quarters = 1 if sent else min(2, SILENT_QUARTERS - self._silent)
        return [] if sent else ["heartbeat"]
