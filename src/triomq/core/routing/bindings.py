"""Bindings, and the tables in which the kinds of sink look them up.

A table answers one question: where does a message with this key and these headers go? Adding a kind of sink is adding a
table here.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from triomq.core.packing import pack_arguments, unpack_arguments
from triomq.core.routing.hash_ring import HashTable
from triomq.core.routing.header_match import HeaderRule
from triomq.core.routing.predicate import Predicate
from triomq.core.routing.topic_trie import TopicTrie
from triomq.core.topology.options import SinkKind
from triomq.errors import PreconditionFailed
from triomq.properties import Properties

T = TypeVar("T", bound=Hashable)

Headers = Callable[[], Mapping[str, object]]
"""Returns a message's headers; called only where they are needed, since it may have to decode them."""

PropertiesOf = Callable[[], Properties | None]
"""Returns a message's properties, None if they cannot be decoded; called only where they are needed."""


class Target(Enum):
    """What a binding leads to."""

    QUEUE = "queue"
    SINK = "sink"


class Binding(msgspec.Struct, frozen=True, gc=False):
    """A rule that leads from a sink to a queue or to another sink. Two with equal fields are the same binding.

    Args:
        source: The sink's name.
        target: What kind of thing it leads to.
        destination: The name of what it leads to.
        key: The routing key or pattern.
        encoded_arguments: The arguments, encoded in one canonical way; see ``make_binding``.
        predicate: What headers must be like besides; None asks nothing.
    """

    source: str
    target: Target
    destination: str
    key: str = ""
    encoded_arguments: bytes = b""
    predicate: Predicate | None = None

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments as they were given."""
        if not self.encoded_arguments:
            return {}
        return unpack_arguments(self.encoded_arguments)


def make_binding(
    source: str,
    target: Target,
    destination: str,
    key: str = "",
    arguments: Mapping[str, object] | None = None,
    *,
    predicate: Predicate | None = None,
) -> Binding:
    """Make a binding whose arguments are compared by value, whatever their order.

    Raises:
        PreconditionFailed: An argument is nothing that a header can be.
    """
    try:
        encoded = pack_arguments(dict(arguments)) if arguments else b""
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        raise PreconditionFailed(f"the arguments of a binding to {destination!r} cannot be kept: {error}") from None
    return Binding(source, target, destination, key, encoded, predicate)


class RoutingTable(Protocol[T]):
    """How one kind of sink finds destinations."""

    @property
    def cost(self) -> int:
        """What a look-up can cost, in queue pushes."""

    def add(self, binding: Binding, destination: T) -> None:
        """Add a binding that leads to a destination.

        Raises:
            PreconditionFailed: The binding's arguments mean nothing to this kind of sink.
        """

    def remove(self, binding: Binding, destination: T) -> None:
        """Remove a binding that was added."""

    def weight(self, binding: Binding) -> int:
        """Return the steps that a look-up can take for this binding at worst; 0 if it is found without looking."""

    def require_room(self, binding: Binding) -> None:
        """Check that look-ups stay cheap with one more binding, whatever it contains.

        Raises:
            PreconditionFailed: They would not.
        """

    def match(self, key: str, headers: Headers) -> Collection[T]:
        """Return each destination once."""


class DirectTable(Generic[T]):
    """The key must be equal (AMQP 0-9-1 section 3.1.3.1)."""

    __slots__ = ("_keys",)

    cost: Final = 0

    def __init__(self) -> None:
        self._keys: dict[str, dict[T, int]] = {}

    def add(self, binding: Binding, destination: T) -> None:
        """Add a destination under the binding's key."""
        found = self._keys.setdefault(binding.key, {})
        found[destination] = found.get(destination, 0) + 1

    def remove(self, binding: Binding, destination: T) -> None:
        """Undo one ``add``."""
        found = self._keys[binding.key]
        take_one(found, destination)
        if not found:
            del self._keys[binding.key]

    def weight(self, binding: Binding) -> int:
        """Return 0: a look-up is one."""
        return 0

    def require_room(self, binding: Binding) -> None:
        """Do nothing: a look-up stays one."""

    def match(self, key: str, headers: Headers) -> Collection[T]:
        """Return what is bound with this very key."""
        return self._keys.get(key, ())


class FanoutTable(Generic[T]):
    """Everything goes everywhere (AMQP 0-9-1 section 3.1.3.2)."""

    __slots__ = ("_all",)

    cost: Final = 0

    def __init__(self) -> None:
        self._all: dict[T, int] = {}

    def add(self, binding: Binding, destination: T) -> None:
        """Add a destination."""
        self._all[destination] = self._all.get(destination, 0) + 1

    def remove(self, binding: Binding, destination: T) -> None:
        """Undo one ``add``."""
        take_one(self._all, destination)

    def weight(self, binding: Binding) -> int:
        """Return 0: there is nothing to look up."""
        return 0

    def require_room(self, binding: Binding) -> None:
        """Do nothing: there is nothing to look up."""

    def match(self, key: str, headers: Headers) -> Collection[T]:
        """Return all destinations."""
        return self._all


class TopicTable(Generic[T]):
    """The key must match a pattern (AMQP 0-9-1 section 3.1.3.3)."""

    __slots__ = ("_trie",)

    def __init__(self) -> None:
        self._trie: TopicTrie[T] = TopicTrie()

    @property
    def cost(self) -> int:
        """What a look-up can cost, in queue pushes."""
        return self._trie.cost

    def add(self, binding: Binding, destination: T) -> None:
        """Add a destination under the binding's pattern."""
        self._trie.add(binding.key, destination)

    def remove(self, binding: Binding, destination: T) -> None:
        """Undo one ``add``."""
        self._trie.remove(binding.key, destination)

    def weight(self, binding: Binding) -> int:
        """Return the words from the first wildcard on, unless that is a ``#`` at the end."""
        return self._trie.weight(binding.key)

    def require_room(self, binding: Binding) -> None:
        """Require that the patterns have few enough words behind wildcards.

        Raises:
            PreconditionFailed: They would have too many.
        """
        self._trie.require_room(binding.key)

    def match(self, key: str, headers: Headers) -> Collection[T]:
        """Return what is bound with a pattern that matches."""
        return self._trie.match(key)


MOST_HEADERS = 50_000
"""Arguments of all bindings of a headers sink, and two for each: a publish compares all with headers, which takes 2 to
5 ms for as many. Lists, tables and long texts count for several, see ``HeaderRule.weight``."""


class HeadersTable(Generic[T]):
    """The headers must match (AMQP 0-9-1 section 3.1.3.4)."""

    __slots__ = ("_arguments", "_rules")

    def __init__(self) -> None:
        self._rules: dict[Binding, tuple[HeaderRule, T]] = {}
        self._arguments = 0

    @property
    def cost(self) -> int:
        """What a look-up can cost, in queue pushes: a step takes some 0.1 µs to 0.2 µs."""
        return self._arguments >> 3

    def add(self, binding: Binding, destination: T) -> None:
        """Add a destination behind the rule in the binding's arguments."""
        rule = HeaderRule(binding.arguments)
        self._rules[binding] = (rule, destination)
        self._arguments += rule.weight

    def remove(self, binding: Binding, destination: T) -> None:
        """Undo one ``add``."""
        rule, _ = self._rules.pop(binding)
        self._arguments -= rule.weight

    def weight(self, binding: Binding) -> int:
        """Return the steps of comparing all arguments with headers."""
        return HeaderRule(binding.arguments).weight

    def require_room(self, binding: Binding) -> None:
        """Require that the bindings have few enough arguments.

        Raises:
            PreconditionFailed: They would have too many, or the binding's arguments mean nothing.
        """
        if self._arguments + self.weight(binding) > MOST_HEADERS:
            raise PreconditionFailed(
                f"cannot bind {binding.destination!r}: the bindings of sink {binding.source!r} have {self._arguments} "
                f"arguments already, two more for each binding, and may have {MOST_HEADERS}; use fewer, or another sink"
            )

    def match(self, key: str, headers: Headers) -> Collection[T]:
        """Return what is bound with a rule that matches."""
        if not self._rules:
            return ()
        values = headers()
        return {destination: None for rule, destination in self._rules.values() if rule.matches(values)}


def make_table(kind: SinkKind) -> RoutingTable[T]:
    """Make an empty table for a kind of sink."""
    tables: dict[SinkKind, Callable[[], RoutingTable[T]]] = {
        SinkKind.DIRECT: DirectTable,
        SinkKind.FANOUT: FanoutTable,
        SinkKind.TOPIC: TopicTable,
        SinkKind.HEADERS: HeadersTable,
        SinkKind.CONSISTENT_HASH: HashTable,
    }
    return tables[kind]()


def take_one(found: dict[T, int], destination: T) -> None:
    """Count a destination once less, and drop it with the last time."""
    found[destination] -= 1
    if not found[destination]:
        del found[destination]
