"""The deadlines of one connection, without a clock: time only comes in with ``handle(now)``.

A peer is heard by anything that it sends. One that is silent is asked by PING, and ends the connection when nothing
comes for twice the heartbeat: then the network is broken, whatever TCP believes. Peers that have never answered may not
know PING, which ZMTP has since 3.1; they are left to TCP's own probes. A peer's own PING may say for how long its
silence is to be borne; that ends the connection in the same way.

What begins between two calls is armed by the next one, so ``next()`` may return "at once". Traffic sets a flag alone,
which is looked at twice in a heartbeat.
"""

from typing import Final, Literal, TypeAlias

Due: TypeAlias = Literal["handshake", "message", "silent", "ping"]

_ASKED: Final = 0.5
"""Heartbeats of silence after which a PING is due, at the next look: so it has one whole heartbeat to be answered."""

_SILENT: Final = 1.5
"""Heartbeats after which a peer is gone; since its last word was heard half a heartbeat late at most, that is two."""


class Timers:
    """Owned by one engine.

    Args:
        now: The present moment.
        handshake: Seconds until the connection must be open.
        message: Seconds that a message which was begun may take.
        heartbeat: Seconds, as ``Settings.heartbeat``.
    """

    __slots__ = (
        "_begun",
        "_handshake",
        "_heard_at",
        "_heartbeat",
        "_message",
        "_now",
        "_tick_at",
        "_until",
        "answers",
        "heard",
        "patience",
    )

    def __init__(self, now: float, handshake: float, message: float, heartbeat: float) -> None:
        self._now = self._heard_at = now
        self._handshake: float | None = now + handshake
        self._message = message
        self._heartbeat = heartbeat
        self._begun = 0
        self._until: float | None = None  # when the message that was begun must be whole
        self._tick_at: float | None = None
        self.heard = False
        """Whether something has come since the last look."""
        self.answers = False
        """Whether the peer knows PING, so that its silence counts."""
        self.patience = 0.0
        """Seconds of silence that the peer itself has asked for; 0 if it has not."""

    def end_handshake(self) -> None:
        """Drop the handshake's deadline; silence counts from now on."""
        self._handshake = None

    def forgo_heartbeats(self) -> None:
        """Ask nobody: the peer does not know PING."""
        self._heartbeat = 0.0

    @property
    def _tick(self) -> float:
        """Seconds between two looks; 0 if nobody is asked."""
        if self._handshake is not None:
            return 0.0
        return min((each for each in (self._heartbeat, self.patience) if each), default=0.0) / 2

    def next(self, begun: int) -> float | None:
        """Return when to call ``handle``; ``begun`` is the number of the message under way, 0 for none."""
        if begun != self._begun or (self._tick_at is None and self._tick):
            return self._now
        moments = (self._handshake, self._until, self._tick_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def handle(self, now: float, begun: int, *, is_read: bool) -> Due | None:
        """Arm what has begun; return what is due.

        Args:
            now: The present moment.
            begun: As for ``next``.
            is_read: Whether anything is read at present: else silence is not the peer's.
        """
        self._now = now
        if begun != self._begun:
            self._begun = begun
            self._until = now + self._message if begun else None
        if self._handshake is not None and now >= self._handshake:
            return "handshake"
        if self._until is not None and now >= self._until:
            return "message"
        return self._look(now, is_read=is_read)

    def _look(self, now: float, *, is_read: bool) -> Due | None:
        tick = self._tick
        if not tick:
            self._tick_at = None
            return None
        if self.heard or self._tick_at is None or not is_read:
            self._heard_at, self.heard = now, False
        elif now < self._tick_at:
            return None
        self._tick_at = now + tick
        silence = now - self._heard_at
        if self.answers and self._heartbeat and silence >= _SILENT * self._heartbeat:
            return "silent"
        if self.patience and silence >= self.patience:
            return "silent"
        return "ping" if self._heartbeat and silence >= _ASKED * self._heartbeat else None
