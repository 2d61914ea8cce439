"""Guards: the bindings of one sink that have a predicate.

    key ──▶ table of the sink's kind ──▶ groups ──▶ header and value ──▶ guards ──▶ destinations

- The key comes first, by a table of the sink's own kind. It leads to *groups*: all bindings that this table cannot tell
  apart are one, such as those with the same key. Sinks without guards, and keys that lead to no group, pay nothing, and
  their routes can be remembered.
- In a group each predicate is one *guard*, whose conditions are tried once, however many bindings have it.
- A guard with conditions of equality is filed under one of them: the one whose value has the fewest others. It is
  looked at only for messages whose header has this value; its other conditions are tried then. So two hundred filters
  for a customer each cost a message two looks into dicts, and those for a customer and a kind of order as well.
- All other guards are tried for each message, 0.1 µs for each condition, and some 10 µs for one that looks for a text
  in a long one.

Equality means here what it means in ``predicate``: values are filed by their kind first, so numbers of all types are
found as each other, and a truth value is found as none.

Others pay for what is tried. So what guards can take at worst is limited by *weight*, and what they have taken is
counted, by the lengths of the texts that were searched.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar, cast

from triomq.core.routing.bindings import Binding, Headers, PropertiesOf, RoutingTable, make_table, take_one
from triomq.core.routing.predicate import (
    MISSING,
    Comparison,
    Condition,
    Place,
    Predicate,
    Values,
    kind_of,
    rule_of,
    steps_to_search,
    with_standard,
)
from triomq.core.topology.options import SinkKind
from triomq.errors import PreconditionFailed

MOST_CONDITIONS = 50_000
"""Steps of all guarded bindings of a sink: one for each condition, two for each binding, and more for conditions that
take longer (``Condition.worst_weight``). A publish that has to try all of them takes 4 to 9 ms, whatever is in it."""

_OF_STANDARD = 2
"""Steps in which a place of a standard property is looked up, once for each message."""

_PER_PUSH = 8
"""Conditions that take as long as a queue push."""

T = TypeVar("T", bound=Hashable)


def guard_weight(predicate: Predicate) -> int:
    """Return the steps that a publish can take for a predicate at worst."""
    return 2 + sum([one.worst_weight + (_OF_STANDARD if one.standard else 0) for one in predicate.conditions])


class _Guard(Generic[T]):
    """One predicate in a group, and what its bindings lead to.

    Args:
        conditions: All of them.
        filed: The one that it is filed under; None if it has to be tried for each message.
    """

    __slots__ = ("destinations", "filed", "passes", "searched", "weight")

    def __init__(self, conditions: tuple[Condition, ...], filed: Condition | None) -> None:
        rest = [one for one in conditions if one is not filed]
        self.filed = filed
        self.passes = rule_of(rest) if rest else None
        self.weight = 2 + sum([one.weight for one in conditions])
        self.searched = [one.place for one in conditions if one.searches]
        self.destinations: dict[T, int] = {}  # and how many bindings lead there


_Filed = dict[Place, dict[str | None, dict[object, dict[_Guard[T], None]]]]
"""Guards by the place, the kind and the value of the condition that they are filed under."""


class GuardGroup(Generic[T]):
    """The guards of all bindings that a table cannot tell apart.

    Args:
        binding: One of them, which stands for all in the table.
    """

    __slots__ = ("_filed", "_guards", "_others", "_others_searched", "_others_weight", "binding")

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self._guards: dict[Predicate, _Guard[T]] = {}
        self._filed: _Filed[T] = {}
        self._others: dict[_Guard[T], None] = {}
        self._others_weight = 0
        self._others_searched: Counter[Place] = Counter()

    def __bool__(self) -> bool:
        """Return whether there is any guard."""
        return bool(self._guards)

    def add(self, predicate: Predicate, destination: T) -> None:
        guard = self._guards.get(predicate)
        if guard is None:
            guard = self._guards[predicate] = self._file(predicate.conditions)
        guard.destinations[destination] = guard.destinations.get(destination, 0) + 1

    def remove(self, predicate: Predicate, destination: T) -> None:
        guard = self._guards[predicate]
        take_one(guard.destinations, destination)
        if not guard.destinations:
            del self._guards[predicate]
            self._take_out(guard)

    def _file(self, conditions: tuple[Condition, ...]) -> _Guard[T]:
        equalities = [one for one in conditions if one.comparison is Comparison.EQUAL]
        if not equalities:
            guard = _Guard[T](conditions, None)
            self._others[guard] = None
            self._others_weight += guard.weight
            self._others_searched.update(guard.searched)
            return guard
        chosen = min(equalities, key=self._count)
        guard = _Guard[T](conditions, chosen)
        kinds = self._filed.setdefault(chosen.place, {})
        kinds.setdefault(kind_of(chosen.value), {}).setdefault(chosen.value, {})[guard] = None
        return guard

    def _count(self, condition: Condition) -> int:
        """Return how many guards are filed under a condition."""
        kinds = self._filed.get(condition.place, {})
        return len(kinds.get(kind_of(condition.value), {}).get(condition.value, ()))

    def _take_out(self, guard: _Guard[T]) -> None:
        condition = guard.filed
        if condition is None:
            del self._others[guard]
            self._others_weight -= guard.weight
            for place in guard.searched:
                self._others_searched[place] -= 1
                if not self._others_searched[place]:
                    del self._others_searched[place]
            return
        place, kind, value = condition.place, kind_of(condition.value), condition.value
        kinds = self._filed[place]
        values = kinds[kind]
        del values[value][guard]
        if not values[value]:
            del values[value]
        if not values:
            del kinds[kind]
        if not kinds:
            del self._filed[place]

    def admit(self, values: Values, found: dict[T, int]) -> int:
        """Add the destinations of all guards whose conditions hold; return the steps that it took."""
        steps = self._others_weight
        for place, count in self._others_searched.items():
            steps += count * steps_to_search(values.get(place))
        for guard in self._others:
            assert guard.passes is not None
            if guard.passes(values):
                found.update(guard.destinations)
        filed = self._filed
        if not filed:
            return steps
        places = filed if len(filed) < len(values) else values
        steps += len(places)
        for place in places:
            kinds = filed.get(place)
            if kinds is None:
                continue
            value = values.get(place, MISSING)
            same = kinds.get(kind_of(value))
            if same is None:
                continue
            for guard in same.get(value, ()):
                steps += guard.weight
                for place in guard.searched:
                    steps += steps_to_search(values.get(place))
                if guard.passes is None or guard.passes(values):
                    found.update(guard.destinations)
        return steps


class Guards(Generic[T]):
    """The guarded bindings of one sink, looked up first as its kind looks up others, then by their predicates.

    Made by a sink with the first of them, so that a sink without pays nothing.
    """

    __slots__ = ("_conditions", "_count", "_groups", "_kind", "_standard", "_table")

    def __init__(self, kind: SinkKind) -> None:
        self._kind = kind
        self._table: RoutingTable[GuardGroup[T]] = make_table(kind)
        self._groups: dict[Hashable, GuardGroup[T]] = {}
        self._count = 0
        self._conditions = 0
        self._standard: dict[tuple[str, str], int] = {}  # places that messages' headers have not, and their conditions

    def __len__(self) -> int:
        """Return how many bindings are guarded."""
        return self._count

    def require_room(self, binding: Binding) -> None:
        """Require that look-ups stay cheap with one more binding.

        Raises:
            PreconditionFailed: They would not.
        """
        assert binding.predicate is not None
        self._table.require_room(binding)
        if self._conditions + guard_weight(binding.predicate) > MOST_CONDITIONS:
            raise PreconditionFailed(
                f"cannot bind {binding.destination!r}: the predicates in bindings of sink {binding.source!r} have "
                f"{self._conditions} conditions already, two more for each binding, and may have {MOST_CONDITIONS}; "
                "use fewer, or another sink"
            )

    def add(self, binding: Binding, destination: T) -> None:
        """Add a binding that has a predicate.

        Raises:
            PreconditionFailed: The binding's arguments mean nothing to this kind of sink.
        """
        assert binding.predicate is not None
        where = self._where(binding)
        group = self._groups.get(where)
        if group is None:
            group = GuardGroup[T](binding)
            self._table.add(binding, group)
            self._groups[where] = group
        group.add(binding.predicate, destination)
        self._count_in(binding.predicate, 1)

    def remove(self, binding: Binding, destination: T) -> None:
        """Remove a binding that was added."""
        assert binding.predicate is not None
        where = self._where(binding)
        group = self._groups[where]
        group.remove(binding.predicate, destination)
        if not group:
            self._table.remove(group.binding, group)
            del self._groups[where]
        self._count_in(binding.predicate, -1)

    def _where(self, binding: Binding) -> Hashable:
        """Return what bindings of the same group have in common: all that a sink of this kind looks at."""
        match self._kind:
            case SinkKind.FANOUT:
                return None
            case SinkKind.HEADERS:
                return binding.encoded_arguments
            case SinkKind.CONSISTENT_HASH:
                return binding
            case _:
                return binding.key

    def _count_in(self, predicate: Predicate, sign: int) -> None:
        self._count += sign
        self._conditions += sign * guard_weight(predicate)
        for condition in predicate.conditions:
            if isinstance(condition.place, tuple):
                count = self._standard.get(condition.place, 0) + sign
                self._standard[condition.place] = count
                if not count:
                    del self._standard[condition.place]

    def match(self, key: str, headers: Headers, properties: PropertiesOf) -> tuple[dict[T, int], int] | None:
        """Return the destinations of all that match, as keys, and the cost in queue pushes; None if none was asked."""
        groups = self._table.match(key, headers)
        if not groups:
            return None
        found, cost = self.admit(groups, headers(), properties)
        return found, self._table.cost + cost

    def groups(self, key: str) -> Collection[GuardGroup[T]]:
        """Return what a key leads to in a sink that looks at nothing else to begin with."""
        return self._table.match(key, dict)

    def admit(
        self, groups: Collection[GuardGroup[T]], headers: Mapping[str, object], properties: PropertiesOf
    ) -> tuple[dict[T, int], int]:
        """Return the destinations of all guards of some groups that let a message pass, and the cost."""
        values = cast("Values", headers)  # a mapping with fewer keys
        if self._standard:
            values = with_standard(headers, properties(), self._standard)
        found: dict[T, int] = {}
        steps = _OF_STANDARD * len(self._standard)
        for group in groups:
            steps += group.admit(values, found)
        return found, steps // _PER_PUSH
