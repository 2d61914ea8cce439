"""The records of a supervisor: how to create a child, when to restart it, how often it has crashed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import trio

if TYPE_CHECKING:
    from triomq.actors.actor import Actor, InPlaceActor
    from triomq.actors.ref import Ref

RestartPolicy = Literal["permanent", "transient", "temporary"]
"""OTP's words: always restarted; restarted after a crash; never restarted."""

SHUTDOWN: Final = 5.0
"""Seconds a child may take to drain before it is cancelled, as in OTP."""


Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""The children that are restarted with one that crashed: no other; all; those that were started after it."""


class ChildSpec(msgspec.Struct, frozen=True):
    """How to create, restart and stop a child.

    Args:
        factory: Creates one incarnation, with all that must survive a crash; the child can rebuild all else.
        name: Unique among its siblings; ``None`` for the class's name with a number.
        restart: Whether it is restarted when it ends.
        shutdown: Seconds to drain when stopped, then it is cancelled. ``None`` means 5 s for a worker and no limit
            for a supervisor, whose children have limits of their own.
    """

    factory: Callable[[], Actor | InPlaceActor]
    name: str | None = None
    restart: RestartPolicy = "permanent"
    shutdown: float | None = None

    def restarts_after(self, error: BaseException | None) -> bool:
        """Return whether a child that ended with this error, or with none, is to be started again."""
        return self.restart == "permanent" or (self.restart == "transient" and error is not None)


def _no_more() -> InPlaceActor:
    raise LookupError("the actor has stopped for good, and its factory is gone")


ENDED: Final = ChildSpec(_no_more)
"""The spec of a Ref whose actor has stopped for good."""


class ChildEnded(msgspec.Struct, frozen=True):
    """Tells a supervisor, ahead of its mailbox, that an incarnation of a child has ended by itself."""

    ref: Ref
    epoch: int
    error: BaseException | None


class Parent:
    """The interface of a supervisor for its own Ref; :class:`Supervisor` implements it."""

    def _on_child_started(self, ref: Ref) -> None:
        raise NotImplementedError

    def _on_child_ended(self, ended: ChildEnded) -> None:
        raise NotImplementedError


class Restarts:
    """Counts restarts within a sliding period against a limit."""

    __slots__ = ("_times", "limit", "period")

    def __init__(self, limit: int, period: float) -> None:
        self.limit = limit
        self.period = period
        self._times: deque[float] = deque()

    def exceed(self, now: float) -> bool:
        """Count a restart now; return whether that is one too many."""
        times = self._times
        times.append(now)
        while times[0] <= now - self.period and len(times) > 1:
            times.popleft()
        return len(times) > self.limit


class History:
    """The record of a child that has crashed: how often in a row, and when it last started."""

    __slots__ = ("failures", "restarts", "started")

    def __init__(self, limit: int, period: float) -> None:
        self.restarts = Restarts(limit, period)
        self.failures = 0
        self.started = math.inf  # not since its first crash

    def fail(self, now: float) -> None:
        """Count a crash; one that comes after a whole period of life is the first in a row."""
        if now - self.started >= self.restarts.period:
            self.failures = 0
        self.failures += 1


class Restart:
    """Children that are to run again, in order, after a delay; created and cancelled by their supervisor.

    A later crash of any of them cancels this restart, and the restart for it takes its members over.
    """

    __slots__ = ("delay", "members", "scope")

    def __init__(self, members: list[Ref], delay: float) -> None:
        self.members = members
        self.delay = delay
        self.scope = trio.CancelScope()


def restarted_with(ref: Ref, siblings: list[Ref], strategy: Strategy) -> list[Ref]:
    """Return the children that are restarted with one of them, itself included, in order."""
    if strategy == "one_for_all":
        return siblings
    if strategy == "rest_for_one":
        return siblings[siblings.index(ref) :]
    return [ref]
