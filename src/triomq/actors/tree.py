"""A snapshot of the tree; taken between two awaits, so it never shows a half-changed state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from triomq.actors.ref import Ref
    from triomq.actors.status import State


class TreeNode(msgspec.Struct, frozen=True):
    """One actor and those below it."""

    name: str
    path: str
    actor_class: str
    state: State
    epoch: int
    handled: int
    waiting: int
    children: tuple[TreeNode, ...]

    def walk(self) -> Iterator[TreeNode]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        yield (
            f"{indent}{self.name or '/'}  {self.actor_class}  {self.state}  epoch {self.epoch}  "
            f"handled {self.handled}  waiting {self.waiting}"
        )
        for child in self.children:
            yield from child._lines(indent + "  ")


def snapshot(ref: Ref) -> TreeNode:
    """Return the tree from one actor downwards."""
    return TreeNode(
        name=ref.name,
        path=ref.path,
        actor_class=ref.actor_class.__qualname__,
        state=ref.state,
        epoch=ref.epoch,
        handled=ref.handled,
        waiting=ref.waiting,
        children=tuple(snapshot(child) for child in ref.children.values()),
    )
