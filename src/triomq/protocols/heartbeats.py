"""Heartbeats over ZeroMQ, which has no connections that could be seen to break: who says nothing says that it is there.

Time only comes in with ``beat(now)``: there is no clock. What begins between two calls is armed by the next one, so
``next()`` may return a moment that has passed.
"""

from typing import Final, Literal, TypeAlias

DueBeat: TypeAlias = Literal["heartbeat", "silent"]

TICKS_PER_HEARTBEAT: Final = 2
"""Traffic sets flags that are looked at so often in an interval, so that a heartbeat is late by half of it at most.

That is 4.5 instead of 3 seconds with eMQP, whose released routers drop who is silent for 5. More would cost each idle
peer a call a second.
"""


class Heartbeats:
    """The heartbeats of one conversation; owned by its engine.

    Args:
        now: the present moment.
        heartbeat: seconds of own silence after which a heartbeat is due.
    """

    __slots__ = ("_heard_at", "_heartbeat", "_now", "_said_at", "_tick_at", "running")

    def __init__(self, now: float, heartbeat: float) -> None:
        self.running = False
        """Whether the peer's silence counts, and one's own."""
        self._now = self._heard_at = self._said_at = now
        self._heartbeat = heartbeat
        self._tick_at: float | None = None

    def next(self) -> float | None:
        """Return when to call ``beat``."""
        if not self.running:
            return None
        return self._now if self._tick_at is None else self._tick_at

    def beat(self, now: float, *, silence: float, heard: bool, said: bool) -> DueBeat | None:
        """Arm what has begun; return what is due.

        Args:
            now: the present moment.
            silence: seconds that the peer may be silent.
            heard: whether something has come since the last call.
            said: whether something has gone.
        """
        self._now = now
        if not self.running:
            self._tick_at = None
            return None
        if heard or self._tick_at is None:
            self._heard_at = now
        if said or self._tick_at is None:
            self._said_at = now
        if self._tick_at is not None and now < self._tick_at:
            return None
        self._tick_at = now + self._heartbeat / TICKS_PER_HEARTBEAT
        if now - self._heard_at >= silence:
            return "silent"
        if now - self._said_at >= self._heartbeat:
            self._said_at = now
            return "heartbeat"
        return None
