"""The deadlines, acks and heartbeats of one connection, without a clock: time only comes in with ``handle(now)``.

What begins between two calls is armed by the next one, so ``next()`` may return a moment that has passed. What is
under way, or waits for an ack, is told by a number that differs for each: another number is another deadline.
"""

from typing import Literal, TypeAlias

from triomq.protocols.heartbeats import Heartbeats

Due: TypeAlias = Literal["handshake", "frame", "ack", "heartbeat", "silent"]

SILENT_INTERVALS = 3
"""An interval may be lost on the way, and another to a busy machine."""


class _Deadline:
    """A time that something may take, counted from when it is first seen."""

    __slots__ = ("number", "seconds", "until")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.number = 0
        self.until: float | None = None

    def arm(self, now: float, number: int) -> None:
        if number != self.number:
            self.number = number
            self.until = now + self.seconds if number else None

    def is_over(self, now: float) -> bool:
        return self.until is not None and now >= self.until


class Timers:
    """Owned by one engine.

    Args:
        now: the present moment.
        handshake: seconds until the handshake must be over.
        frame: seconds that a frame which was begun may take.
        ack: seconds that an ack may wait for more to acknowledge.
    """

    __slots__ = ("_ack", "_beats", "_frame", "_handshake", "_interval", "_now")

    def __init__(self, now: float, handshake: float, frame: float, ack: float) -> None:
        self._now = now
        self._handshake: float | None = now + handshake
        self._frame = _Deadline(frame)
        self._ack = _Deadline(ack)
        self._beats: Heartbeats | None = None
        self._interval = 0.0

    def end_handshake(self) -> None:
        """Drop the handshake's deadline."""
        self._handshake = None

    def agree(self, *, heartbeat: float, ack: float) -> None:
        """Go on with what is agreed: seconds between heartbeats, 0 for none, and until an ack."""
        self._ack.seconds = ack
        if heartbeat:
            self._beats = Heartbeats(self._now, heartbeat)
            self._beats.running = True
            self._interval = heartbeat

    def next(self, under_way: int, waiting: int) -> float | None:
        """Return when to call ``handle``.

        Args:
            under_way: which frame was begun and is not whole; 0 for none.
            waiting: which messages wait for their ack; 0 for none.
        """
        if under_way != self._frame.number or waiting != self._ack.number:
            return self._now
        moments = (self._handshake, self._frame.until, self._ack.until, self._beats.next() if self._beats else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def handle(self, now: float, under_way: int, waiting: int, *, heard: bool, said: bool) -> list[Due]:
        """Arm what has begun; return what is due.

        Args:
            now: the present moment.
            under_way: as ``next`` has it.
            waiting: likewise.
            heard: whether something has come since the last call.
            said: whether something has gone.
        """
        self._now = now
        self._frame.arm(now, under_way)
        self._ack.arm(now, waiting)
        due: list[Due] = []
        if self._handshake is not None and now >= self._handshake:
            due.append("handshake")
        if self._frame.is_over(now):
            due.append("frame")
        if self._ack.is_over(now):
            due.append("ack")
        if self._beats is not None:
            beat = self._beats.beat(now, silence=SILENT_INTERVALS * self._interval, heard=heard, said=said)
            if beat is not None:
                due.append(beat)
        return due
