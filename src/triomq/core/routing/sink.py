"""A sink: what one publishes into. It owns bindings and routes by them; it stores nothing.

Routing is a read, so it is a function of the directory over the sinks' tables, not a message; bindings change by
messages to the sink's actor.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from triomq.actors import InPlaceActor, Ref, Request
from triomq.core.packing import pack_arguments
from triomq.core.queue.queue_state import QueueState
from triomq.core.routing.bindings import Binding, Headers, PropertiesOf, RoutingTable, Target, make_table
from triomq.core.routing.guards import GuardGroup, Guards, guard_weight
from triomq.core.topology.options import SinkKind, SinkOptions
from triomq.core.topology.policy import Policies, Policy, sink_options
from triomq.core.topology.requests import SinkUnused

_HOP = 15
"""Steps for which a binding to another sink counts: to go there takes some 2 µs to 3 µs."""


class SinkState:
    """The state of a sink that outlives its incarnations; created and owned by the domain.

    Args:
        name: The sink's name.
        declared: What it was declared with.
        policies: Those of the domain.
        origin: The peer that made it; empty if it is this broker's own.
        user: The user whose session declared it, who is charged for it; empty if it was the program itself.
    """

    __slots__ = (
        "bindings",
        "bound",
        "declared",
        "gone",
        "guards",
        "is_plain",
        "makers",
        "name",
        "options",
        "origin",
        "origins",
        "policy",
        "ref",
        "table",
        "user",
    )

    ref: Ref

    def __init__(self, name: str, declared: SinkOptions, policies: Policies, origin: str = "", user: str = "") -> None:
        self.name = name
        self.origin = origin
        self.origins: dict[Binding, str] | None = None  # of bindings that peers made
        self.user = user
        self.makers: dict[Binding, str] | None = None  # the users who are charged for bindings
        self.declared = declared
        self.options = declared
        self.policy: Policy | None = None
        self.bindings: dict[Binding, Destination] = {}
        self.gone = False  # whether it was deleted; then its bindings go bit by bit
        self.bound: dict[Binding, SinkState] | None = None  # the bindings to it, with their sources
        self.table: RoutingTable[Destination] = make_table(declared.kind)
        self.guards: Guards[Destination] | None = None  # the bindings that have a predicate
        self.apply_policy(policies)

    def apply_policy(self, policies: Policies) -> bool:
        """Apply the policy that there is for this sink; return whether its options have changed."""
        self.policy, before = policies.of_sink(self.name), self.options
        self.options = sink_options(self.declared, self.policy)
        self._look()
        return self.options != before

    def _look(self) -> None:
        """Check whether a message's key and the table are all that a route needs."""
        options = self.options
        by_properties = options.kind is SinkKind.HEADERS or options.hash_header is not None
        self.is_plain = not (
            by_properties
            or options.hash_property is not None
            or options.alternate is not None
            or self.guards is not None
        )

    def add(self, binding: Binding, destination: "Destination") -> None:
        """Route by a binding from now on.

        Raises:
            PreconditionFailed: The binding's arguments or its key mean nothing to this kind of sink.
        """
        if binding.predicate is None:
            self.table.add(binding, destination)
        else:
            guards = Guards(self.options.kind) if self.guards is None else self.guards
            guards.add(binding, destination)
            self.guards = guards
            self._look()
        self.bindings[binding] = destination

    def remove(self, binding: Binding) -> "Destination | None":
        """Route by a binding no longer; return where it led, None if it is not there."""
        destination = self.bindings.pop(binding, None)
        if destination is None:
            return None
        if self.origins is not None:
            self.origins.pop(binding, None)
        if self.makers is not None:
            self.makers.pop(binding, None)
        if destination.bound is not None and destination.bound.get(binding) is self:
            del destination.bound[binding]
        if self.guards is None or binding.predicate is None:
            self.table.remove(binding, destination)
        else:
            self.guards.remove(binding, destination)
            self.guards = self.guards if len(self.guards) else None
            self._look()
        return destination

    def origin_of(self, binding: Binding) -> str:
        """Return which peer had a binding made; empty if it is this broker's own."""
        return "" if self.origins is None else self.origins.get(binding, "")

    def weight(self, binding: Binding) -> int:
        """Return the steps that a publish can take for a binding at worst; of a user's all are limited together."""
        weight = self.table.weight(binding) + (_HOP if binding.target is Target.SINK else 0)
        return weight if binding.predicate is None else weight + guard_weight(binding.predicate)

    def require_room(self, binding: Binding) -> None:
        """Require that a publish stays cheap with one more binding, whatever it contains.

        Raises:
            PreconditionFailed: It would not.
        """
        if binding.predicate is None:
            self.table.require_room(binding)
        else:
            guards = Guards[Destination](self.options.kind) if self.guards is None else self.guards
            guards.require_room(binding)

    def set_maker(self, binding: Binding, origin: str, user: str) -> None:
        """Record which peer made a binding, and which user is charged for it; either may be empty."""
        if origin:
            self.origins = {} if self.origins is None else self.origins
            self.origins[binding] = origin
        if user:
            self.makers = {} if self.makers is None else self.makers
            self.makers[binding] = user

    def maker_of(self, binding: Binding) -> str:
        """Return the user who is charged for a binding; empty if there is none."""
        return "" if self.makers is None else self.makers.get(binding, "")

    def search(self, keys: tuple[str, ...], headers: Headers, properties: PropertiesOf, most: float) -> "Found":
        """Find where a message with these keys goes from here, the alternate left aside.

        Args:
            keys: The routing key, and any others that it is routed by as well.
            headers: Gives its headers.
            properties: Gives all its properties.
            most: What trying guards may cost; once it costs more, not all that is there is found.
        """
        options = self.options
        if options.kind is SinkKind.CONSISTENT_HASH:
            text = self._hashed(keys[0], headers, properties)
            keys, by_headers = (text,), options.hash_header is not None or options.hash_property is not None
        else:
            by_headers = options.kind is SinkKind.HEADERS
        if self.guards is None and len(keys) == 1:
            return Found(self.table.match(keys[0], headers), by_headers, 0)
        found: dict[Destination, None] = {}
        cost = 0
        for key in keys:
            found.update(dict.fromkeys(self.table.match(key, headers)))
            if self.guards is not None and (admitted := self.guards.match(key, headers, properties)) is not None:
                by_headers = True
                found.update(dict.fromkeys(admitted[0]))
                cost += admitted[1]
                if cost > most:
                    break
        return Found(found, by_headers, cost)

    def by_key(self, key: str) -> "ByKey | None":
        """Return what a key alone says; None where headers or other properties count from the beginning."""
        if self.options.kind in (SinkKind.HEADERS, SinkKind.CONSISTENT_HASH):
            return None
        return ByKey(self.table.match(key, dict), () if self.guards is None else self.guards.groups(key))

    def _hashed(self, key: str, headers: Headers, properties: "PropertiesOf") -> str:
        """Return the text by which a consistent-hash sink chooses; all that lack what is asked for belong together."""
        options = self.options
        if options.hash_header is not None:
            return _text(headers().get(options.hash_header))
        if options.hash_property is not None:
            found = properties()
            return "" if found is None else _text(getattr(found, options.hash_property))
        return key


class ByKey(NamedTuple):
    """Where a key leads.

    Args:
        destinations: Where each message with it goes.
        groups: Guards that have to be asked besides.
    """

    destinations: Collection["Destination"]
    groups: Collection["GuardGroup[Destination]"]


class Found(NamedTuple):
    """Where a sink leads.

    Args:
        destinations: Each once.
        by_headers: Whether more than keys was looked at.
        cost: What trying guards has cost, in queue pushes.
    """

    destinations: Collection["Destination"]
    by_headers: bool
    cost: int


def _text(value: object) -> str:
    """Return a header's value as a text, equal ones an equal text; a text stands for itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else pack_arguments({"": value}).decode("latin-1")


Destination = QueueState | SinkState
"""What a binding leads to, as the tables hold it."""


class AddBinding(Request[bool], frozen=True):
    """To a sink: route by this binding too. Answers whether it is new."""

    binding: Binding
    destination: Destination


class RemoveBinding(Request[bool], frozen=True):
    """To a sink: route by this binding no longer. Answers whether it was there."""

    binding: Binding


class Sink(InPlaceActor):
    """The actor of one sink; started by its domain, lives until deleted."""

    __slots__ = ("_changed", "_sink")

    def __init__(self, sink: SinkState, changed: Callable[[], None]) -> None:
        self._sink = sink
        self._changed = changed

    def add_binding(self, message: AddBinding) -> bool:
        """Add a binding, once."""
        sink, binding, destination = self._sink, message.binding, message.destination
        if binding in sink.bindings:
            return False
        sink.add(binding, destination)
        if destination.bound is None:
            destination.bound = {}
        destination.bound[binding] = sink
        self._changed()
        return True

    def remove_binding(self, message: RemoveBinding) -> bool:
        """Remove a binding, if it is there; tell the domain when an auto-delete sink has none left."""
        sink = self._sink
        if sink.remove(message.binding) is None:
            return False
        self._changed()
        if sink.options.auto_delete and not sink.bindings:
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(SinkUnused(sink.name))
        return True
