"""Freeing the memory of messages that are gone: a million of them take 50 ms, so they go in turns."""

from typing import TYPE_CHECKING

from triomq.core.backlog import Remains

if TYPE_CHECKING:
    from triomq.core.topology.chores import Chores
    from triomq.core.topology.domain import Domain

_PER_PUSH = 50
"""Messages freed for each queue push of a turn's budget: 50 ns each, where a push takes some 2 µs."""


_AT_ONCE = 16
"""Runs that are freed in the turn in which they go: some 10,000 messages, half a millisecond."""


def free(remains: list[Remains], chores: "Chores") -> None:
    """Free contents: few at once, many bit by bit."""
    if len(remains) > _AT_ONCE:
        chores.begin_later(FreeContents(remains))


class FreeContents:
    """A chore of the domain: let go of contents, one run of messages in each step.

    Args:
        remains: The contents of the runs; nobody else should hold these lists.
    """

    def __init__(self, remains: list[Remains]) -> None:
        self._remains = remains

    def step(self, domain: "Domain") -> bool:
        """Free one run."""
        if not self._remains:
            return False
        domain.system.turn.charge(len(self._remains.pop()) // _PER_PUSH)
        return bool(self._remains)
