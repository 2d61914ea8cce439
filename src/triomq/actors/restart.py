"""A restart that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from triomq.actors.ref import Ref

__all__ = ["Restart"]


class Restart:
    """Children that are to run again, in order, after a delay; made and cancelled by their supervisor.

    A later crash that concerns any of them cancels this restart and takes its members over.
    """

    __slots__ = ("delay", "members", "scope")

    def __init__(self, members: list[Ref], delay: float) -> None:
        self.members = members
        self.delay = delay
        self.scope = trio.CancelScope()
