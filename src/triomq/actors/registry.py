"""Actors by their path in the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triomq.errors import NoSuchActor

if TYPE_CHECKING:
    from triomq.actors.ref import Ref


class Registry:
    """Finds actors by path, ``/broker/domains/default/queue.a``; it *is* the tree, so it is never out of date.

    A ``/`` inside a name is written ``%2F``, a ``%`` as ``%25``; ``ref.path`` does so.
    """

    def __init__(self, root: Ref) -> None:
        self._root = root

    def find(self, path: str) -> Ref:
        """Return the actor at a path.

        Raises:
            NoSuchActor: there is none; the text has the part of the path that exists.
        """
        if not path.startswith("/"):
            raise NoSuchActor(f"{path!r} is no path: it must start with /")
        ref = self._root
        for part in path.split("/")[1:]:
            if part:
                child = ref.children.get(part.replace("%2F", "/").replace("%25", "%"))
                if child is None:
                    known = ", ".join(sorted(ref.children)) or "none"
                    raise NoSuchActor(f"there is no {path}: {ref.path} has no child {part!r}, but {known}")
                ref = child
        return ref

    def __contains__(self, path: str) -> bool:
        try:
            self.find(path)
        except NoSuchActor:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of all actors, parents before children, in order of their start."""
        return self._walk(self._root)

    def _walk(self, ref: Ref) -> Iterator[str]:
        yield ref.path
        for child in list(ref.children.values()):
            yield from self._walk(child)
