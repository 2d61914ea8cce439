"""Heartbeats, silence and the repetition of INFORM, without a clock: time only comes in with ``handle(now)``.

What begins between two calls is armed by the next one, so ``next()`` may return a moment that has passed.
"""

from typing import Literal, TypeAlias

Due: TypeAlias = Literal["inform", "heartbeat", "silent"]

# Traffic sets flags that are looked at so often in an interval, so that a heartbeat is late by half of it at most: 4.5
# instead of 3 seconds, and released routers drop who is silent for 5. More would cost each idle peer a call a second.
TICKS_PER_INTERVAL = 2


class Timers:
    """Owned by one engine.

    Args:
        now: the present moment.
        heartbeat: seconds of own silence after which a heartbeat is due.
        inform: seconds after which INFORM is to be said again.
    """

    __slots__ = (
        "_heard_at",
        "_heartbeat",
        "_inform",
        "_inform_at",
        "_now",
        "_said_at",
        "_tick_at",
        "informing",
        "running",
    )

    def __init__(self, now: float, heartbeat: float, inform: float) -> None:
        self.informing = False
        """Whether INFORM is said again and again."""
        self.running = False
        """Whether the peer's silence counts, and one's own."""
        self._now = self._heard_at = self._said_at = now
        self._heartbeat = heartbeat
        self._inform = inform
        self._inform_at: float | None = None
        self._tick_at: float | None = None

    def next(self) -> float | None:
        """Return when to call ``handle``."""
        moments = []
        if self.informing:
            moments.append(self._now if self._inform_at is None else self._inform_at)
        if self.running:
            moments.append(self._now if self._tick_at is None else self._tick_at)
        return min(moments, default=None)

    def handle(self, now: float, *, silence: float, heard: bool, said: bool) -> list[Due]:
        """Arm what has begun; return what is due.

        Args:
            now: the present moment.
            silence: seconds that the peer may be silent.
            heard: whether something has come since the last call.
            said: whether something has gone.
        """
        self._now = now
        due: list[Due] = []
        if not self.informing:
            self._inform_at = None
        elif self._inform_at is None or now >= self._inform_at:
            if self._inform_at is not None:
                due.append("inform")
            self._inform_at = now + self._inform
        if not self.running:
            self._tick_at = None
            return due
        if heard or self._tick_at is None:
            self._heard_at = now
        if said or self._tick_at is None:
            self._said_at = now
        if self._tick_at is None or now >= self._tick_at:
            self._tick_at = now + self._heartbeat / TICKS_PER_INTERVAL
            if now - self._heard_at >= silence:
                due.append("silent")
            elif now - self._said_at >= self._heartbeat:
                self._said_at = now
                due.append("heartbeat")
        return due
