"""A sink: what one publishes into. It owns bindings and routes by them; it stores nothing.

Routing is a read, so it is a function of the directory over the sinks' tables, not a message; bindings change by
messages to the sink's actor.
"""

from collections.abc import Callable

from triomq.actors import InPlaceActor, Ref, Request
from triomq.core.bindings import Binding, Table, make_table
from triomq.core.guards import Guards
from triomq.core.options import SinkOptions
from triomq.core.queue_store import QueueStore
from triomq.core.requests import SinkUnused

__all__ = ["AddBinding", "Destination", "RemoveBinding", "Sink", "SinkStore"]


class SinkStore:
    """What of a sink outlives its incarnations; made and kept by the domain."""

    __slots__ = ("bindings", "bound", "guards", "name", "options", "ref", "table")

    ref: Ref

    def __init__(self, name: str, options: SinkOptions) -> None:
        """Start without bindings."""
        self.name = name
        self.options = options
        self.bindings: dict[Binding, Destination] = {}
        self.bound: dict[Binding, None] | None = None
        self.table: Table[Destination] = make_table(options.kind)
        self.guards: Guards[Destination] | None = None  # the bindings that have a predicate

    def add(self, binding: Binding, destination: "Destination") -> None:
        """Route by a binding from now on.

        Raises:
            PreconditionFailed: The binding's arguments mean nothing to this kind of sink.
        """
        if binding.predicate is None:
            self.table.add(binding, destination)
        else:
            guards = Guards(self.options.kind) if self.guards is None else self.guards
            guards.add(binding, destination)
            self.guards = guards
        self.bindings[binding] = destination

    def remove(self, binding: Binding) -> "Destination | None":
        """Route by a binding no longer; give where it led, None if it is not there."""
        destination = self.bindings.pop(binding, None)
        if destination is None:
            return None
        if self.guards is None or binding.predicate is None:
            self.table.remove(binding, destination)
        else:
            self.guards.remove(binding)
            self.guards = self.guards if len(self.guards) else None
        return destination


Destination = QueueStore | SinkStore
"""What a binding leads to, as the tables keep it."""


class AddBinding(Request[bool], frozen=True):
    """To a sink: route by this binding too. Answers whether it is new."""

    binding: Binding
    destination: Destination


class RemoveBinding(Request[bool], frozen=True):
    """To a sink: route by this binding no longer. Answers whether it was there."""

    binding: Binding


class Sink(InPlaceActor):
    """The actor of one sink; started by its domain, lives until deleted."""

    __slots__ = ("_changed", "_store")

    def __init__(self, store: SinkStore, changed: Callable[[], None]) -> None:
        """Take over the bindings of an earlier incarnation; ``changed`` is called when routes may lead elsewhere."""
        self._store = store
        self._changed = changed

    def add_binding(self, message: AddBinding) -> bool:
        """Add a binding, once."""
        store, binding, destination = self._store, message.binding, message.destination
        if binding in store.bindings:
            return False
        store.add(binding, destination)
        if destination.bound is None:
            destination.bound = {}
        destination.bound[binding] = None
        self._changed()
        return True

    def remove_binding(self, message: RemoveBinding) -> bool:
        """Remove a binding, if it is there; tell the domain when an auto-delete sink has none left."""
        store = self._store
        destination = store.remove(message.binding)
        if destination is None:
            return False
        if destination.bound is not None:
            destination.bound.pop(message.binding, None)
        self._changed()
        if store.options.auto_delete and not store.bindings:
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(SinkUnused(store.name))
        return True
