"""The deadlines of one connection, without a clock: time only comes in with ``handle(now)``.

There are no heartbeats. A client that waits for an answer knows how long it may take, and asks PING when it wants to
know; a client that asks nothing may be busy for an hour with what it was given, in the only thread that it has. What
has died without a word is found by TCP's own probes.

What begins between two calls is armed by the next one, so ``next()`` may return "at once".
"""

from typing import Literal, TypeAlias

Due: TypeAlias = Literal["handshake", "frame"]


class Timers:
    """Owned by one engine.

    Args:
        now: the present moment.
        handshake: seconds until the handshake must be over.
        frame: seconds that a frame which was begun may take.
    """

    __slots__ = ("_begun", "_frame", "_handshake", "_now", "_until")

    def __init__(self, now: float, handshake: float, frame: float) -> None:
        self._now = now
        self._handshake: float | None = now + handshake
        self._frame = frame
        self._begun = 0
        self._until: float | None = None  # when the frame that was begun must be whole

    def end_handshake(self) -> None:
        """Drop the handshake's deadline."""
        self._handshake = None

    def next(self, begun: int) -> float | None:
        """Return when to call ``handle``; ``begun`` is the number of the frame under way, 0 for none."""
        if begun != self._begun:
            return self._now
        return min((moment for moment in (self._handshake, self._until) if moment is not None), default=None)

    def handle(self, now: float, begun: int) -> Due | None:
        """Arm what has begun; return what is due."""
        self._now = now
        if begun != self._begun:
            self._begun = begun
            self._until = now + self._frame if begun else None
        if self._handshake is not None and now >= self._handshake:
            return "handshake"
        if self._until is not None and now >= self._until:
            return "frame"
        return None
