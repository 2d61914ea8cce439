"""Heartbeats, silence and the repetition of INFORM, without a clock: time only comes in with ``handle(now)``."""

from typing import Literal, TypeAlias

from triomq.protocols.heartbeats import DueBeat, Heartbeats

Due: TypeAlias = DueBeat | Literal["inform"]


class Timers(Heartbeats):
    """Owned by one engine.

    Args:
        now: the present moment.
        heartbeat: seconds of own silence after which a heartbeat is due.
        inform: seconds after which INFORM is to be said again.
    """

    __slots__ = ("_inform", "_inform_at", "informing")

    def __init__(self, now: float, heartbeat: float, inform: float) -> None:
        super().__init__(now, heartbeat)
        self.informing = False
        """Whether INFORM is said again and again."""
        self._inform = inform
        self._inform_at: float | None = None

    def next(self) -> float | None:
        """Return when to call ``handle``."""
        beat = super().next()
        if not self.informing:
            return beat
        inform = self._now if self._inform_at is None else self._inform_at
        return inform if beat is None else min(inform, beat)

    def handle(self, now: float, *, silence: float, heard: bool, said: bool) -> list[Due]:
        """Arm what has begun; return what is due; see ``Heartbeats.beat``."""
        due: list[Due] = []
        if not self.informing:
            self._inform_at = None
        elif self._inform_at is None or now >= self._inform_at:
            if self._inform_at is not None:
                due.append("inform")
            self._inform_at = now + self._inform
        beat = self.beat(now, silence=silence, heard=heard, said=said)
        return due if beat is None else [*due, beat]
