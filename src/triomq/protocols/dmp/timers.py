"""Deadlines and null messages of one direct connection, without a clock: time only comes in with ``handle(now)``.

What begins between two calls is armed by the next one, so ``next()`` may return "at once".
"""

from typing import Literal, TypeAlias

Due: TypeAlias = Literal["handshake", "message", "null", "silent"]

# Traffic sets a flag that is looked at so often in an interval, so a null message is late by a fifth at most, or by as
# much as the caller is late.
TICKS_PER_INTERVAL = 5
# An interval may be lost on the way, and another to a busy machine.
SILENT_INTERVALS = 3


class Timers:
    """Owned by one engine."""

    __slots__ = (
        "_begun",
        "_handshake",
        "_interval",
        "_kind",
        "_message_timeout",
        "_now",
        "_quiet_since",
        "_tick",
        "_until",
    )

    def __init__(self, now: float, handshake: float, message_timeout: float) -> None:
        self._now = now
        self._handshake: float | None = now + handshake
        self._message_timeout = message_timeout
        self._begun = 0
        self._until: float | None = None  # when the message that was begun must be whole
        self._interval = 0.0
        self._kind: Due = "null"
        self._tick: float | None = None
        self._quiet_since = now

    def run(self, kind: Literal["null", "silent"], interval: float) -> None:
        """Drop the handshake's deadline; then look every so often whether there was traffic, 0 being never."""
        self._handshake = None
        self._kind, self._interval = kind, interval

    def stop(self) -> None:
        """Stop all timers."""
        self._handshake = self._until = self._tick = None
        self._interval = 0.0

    def next(self, begun: int) -> float | None:
        """Return when to call ``handle``; ``begun`` is the number of the message under way, 0 for none."""
        if begun != self._begun or (self._interval and self._tick is None):
            return self._now
        moments = [moment for moment in (self._handshake, self._until, self._tick) if moment is not None]
        return min(moments, default=None)

    def handle(self, now: float, begun: int, traffic: bool) -> list[Due]:
        """Arm what has begun; return what is due. ``traffic`` is whether there was any since the last call."""
        self._now = now
        if traffic:
            self._quiet_since = now
        if begun != self._begun:
            self._begun = begun
            self._until = now + self._message_timeout if begun else None
        due: list[Due] = []
        if self._handshake is not None and now >= self._handshake:
            due.append("handshake")
        if self._until is not None and now >= self._until:
            due.append("message")
        if self._interval and (self._tick is None or now >= self._tick):
            if self._tick is None:
                self._quiet_since = now
            self._tick = now + self._interval / TICKS_PER_INTERVAL
            if now - self._quiet_since >= self._interval * (SILENT_INTERVALS if self._kind == "silent" else 1):
                self._quiet_since = now
                due.append(self._kind)
        return due
