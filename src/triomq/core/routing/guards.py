"""Guards: bindings that lead somewhere only for messages whose headers fulfil a predicate."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from triomq.core.routing.bindings import Binding, Headers, RoutingTable, make_table
from triomq.core.routing.predicate import Predicate
from triomq.core.topology.options import SinkKind

T = TypeVar("T")


class _Guard(Generic[T]):
    """What a table leads to instead of the destination behind a predicate."""

    __slots__ = ("admits", "destination")

    def __init__(self, predicate: Predicate, destination: T) -> None:
        self.admits = predicate.rule()
        self.destination = destination


class Guards(Generic[T]):
    """The guarded bindings of one sink, looked up first as its kind looks up others, then by their predicates.

    Made by a sink with the first of them, so that a sink without pays nothing.
    """

    __slots__ = ("_guards", "_table")

    def __init__(self, kind: SinkKind) -> None:
        self._table: RoutingTable[_Guard[T]] = make_table(kind)
        self._guards: dict[Binding, _Guard[T]] = {}

    def __len__(self) -> int:
        """Tell how many bindings are guarded."""
        return len(self._guards)

    def add(self, binding: Binding, destination: T) -> None:
        """Let a binding that has a predicate lead to a destination.

        Raises:
            PreconditionFailed: The binding's arguments mean nothing to this kind of sink.
        """
        assert binding.predicate is not None
        guard = _Guard(binding.predicate, destination)
        self._table.add(binding, guard)
        self._guards[binding] = guard

    def remove(self, binding: Binding) -> None:
        """Take a binding back that was added."""
        self._table.remove(binding, self._guards.pop(binding))

    def match(self, key: str, headers: Headers) -> Iterable[T] | None:
        """Give the destinations of all that match; None when no header had to be looked at."""
        found = list(self._table.match(key, headers))
        if not found:
            return None
        values = headers()
        return [guard.destination for guard in found if guard.admits(values)]
