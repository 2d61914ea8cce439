from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import chain
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness, open_harness
from triomq.core import (
    Bind,
    Binding,
    Comparison,
    Condition,
    Directory,
    Predicate,
    Properties,
    Quotas,
    Session,
    SinkKind,
    Target,
    TooManyKeys,
    TooManySteps,
    Unbind,
    make_binding,
    make_predicate,
)
from triomq.core.routing.bindings import RoutingTable, make_table
from triomq.core.routing.guards import MOST_CONDITIONS, Guards
from triomq.errors import PreconditionFailed

T = TypeVar("T", bound=Hashable)

LARGE = make_predicate([Condition("size", Comparison.AT_LEAST, 10)])
SMALL = make_predicate([Condition("size", Comparison.LESS, 10)])
PREDICATES = {"large": LARGE, "small": SMALL}


def guarded(destination: str, key: str = "", predicate: str = "large", **arguments: object) -> Binding:
    return make_binding("s", Target.QUEUE, destination, key, arguments, predicate=PREDICATES[predicate])


def no_headers() -> Mapping[str, object]:
    raise AssertionError("nobody needs them")


def no_properties() -> Properties:
    raise AssertionError("nobody needs them")


def admitted(guards: Guards[T], key: str, **headers: object) -> list[T]:
    found = guards.match(key, lambda: headers, no_properties)
    return [] if found is None else list(found[0])


def test_predicate_makes_another_binding() -> None:
    assert len({guarded("q"), guarded("q", predicate="small"), make_binding("s", Target.QUEUE, "q")}) == 3
    assert guarded("q") == guarded("q")


ALL_KEPT = [kind for kind in SinkKind if kind is not SinkKind.CONSISTENT_HASH]
"""Kinds in which a message goes to all bindings that match."""


@pytest.mark.parametrize("kind", ALL_KEPT)
def test_any_kind_of_sink_may_guard_its_bindings(kind: SinkKind) -> None:
    guards: Guards[str] = Guards(kind)
    for binding in (guarded("a", "k"), guarded("b", "k", "small")):
        guards.add(binding, binding.destination)
    assert admitted(guards, "k", size=10) == ["a"]
    assert admitted(guards, "k", size=9) == ["b"]
    guards.remove(guarded("a", "k"), "a")
    assert admitted(guards, "k", size=10) == []
    assert len(guards) == 1


def test_headers_are_looked_at_only_when_the_key_leads_to_a_guard() -> None:
    guards: Guards[str] = Guards(SinkKind.TOPIC)
    guards.add(guarded("q", "a.*"), "q")
    assert guards.match("b.c", no_headers, no_properties) is None
    assert guards.match("a.c", dict, no_properties) is not None


def test_headers_sink_asks_for_both() -> None:
    guards: Guards[str] = Guards(SinkKind.HEADERS)
    guards.add(guarded("q", colour="red"), "q")
    assert admitted(guards, "", size=10, colour="red") == ["q"]
    assert not admitted(guards, "", size=10)
    assert not admitted(guards, "", colour="red")


def names(harness: Harness, key: str = "", **headers: object) -> list[str]:
    return [ref.name.removeprefix("queue.") for ref in harness.directory.route("s", key, lambda: headers).queues]


def bind(harness: Harness, binding: Binding) -> bool:
    return harness.domain.ask_nowait(Bind(binding, harness.session))


async def test_guarded_and_other_bindings_lead_to_a_queue_once(harness: Harness) -> None:
    harness.sink("s", SinkKind.TOPIC)
    harness.queue("a")
    harness.queue("b")
    harness.bind("s", "a", "#")
    assert bind(harness, guarded("a", "k"))
    assert bind(harness, guarded("b", "k"))
    assert not bind(harness, guarded("b", "k"))
    assert names(harness, "k", size=10) == ["a", "b"]
    assert names(harness, "k", size=9) == names(harness, "other", size=10) == ["a"]


async def test_route_through_a_guard_must_be_found_anew_for_each_message(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    bind(harness, guarded("q", "k"))
    assert harness.directory.route("s", "k", dict).by_headers
    assert not harness.directory.route("s", "other", no_headers).by_headers


async def test_guard_may_stand_before_another_sink(harness: Harness) -> None:
    harness.sink("s")
    harness.sink("inner", SinkKind.FANOUT)
    harness.queue("q")
    harness.bind("inner", "q")
    harness.domain.ask_nowait(Bind(make_binding("s", Target.SINK, "inner", predicate=LARGE), harness.session))
    assert names(harness, size=10) == ["q"]
    assert names(harness, size=1) == []


async def test_last_guard_that_goes_takes_its_table_along(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    sink = harness.directory.sinks["s"]
    harness.bind("s", "q")
    assert sink.guards is None
    bind(harness, guarded("q"))
    assert sink.guards is not None
    unbind = Unbind(guarded("q"), harness.session)
    assert [harness.domain.ask_nowait(unbind) for _ in range(2)] == [True, False]
    assert sink.guards is None
    assert names(harness) == ["q"]


async def test_arguments_that_mean_nothing_leave_no_guard(harness: Harness) -> None:
    harness.sink("s", SinkKind.HEADERS)
    harness.queue("q")
    with pytest.raises(PreconditionFailed):
        bind(harness, guarded("q", **{"x-match": "never"}))
    sink = harness.directory.sinks["s"]
    assert (sink.guards, dict(sink.bindings)) == (None, {})


async def test_queue_that_is_deleted_takes_its_guards_along(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    bind(harness, guarded("q"))
    harness.delete("q")
    assert harness.directory.sinks["s"].guards is None


def test_guard_chosen_by_hash_admits_or_not() -> None:
    guards: Guards[str] = Guards(SinkKind.CONSISTENT_HASH)
    guards.add(guarded("q", "1"), "q")
    assert admitted(guards, "any", size=10) == ["q"]
    assert admitted(guards, "any", size=9) == []


@given(
    st.sampled_from(ALL_KEPT),
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["large", "small"]), st.integers(0, 2)), unique=True),
    st.sampled_from("ab"),
    st.integers(9, 10),
)
def test_guards_give_what_the_kind_and_the_predicates_allow(
    kind: SinkKind, rows: list[tuple[str, str, int]], key: str, size: int
) -> None:
    guards: Guards[int] = Guards(kind)
    for where, predicate, destination in rows:
        guards.add(guarded(str(destination), where, predicate), destination)
    by_key = kind in (SinkKind.DIRECT, SinkKind.TOPIC)
    expected = {
        destination
        for where, predicate, destination in rows
        if (where == key or not by_key) and (predicate == "large") is (size == 10)
    }
    assert set(admitted(guards, key, size=size)) == expected
    for where, predicate, destination in rows:
        guards.remove(guarded(str(destination), where, predicate), destination)
    assert guards.match(key, no_headers, no_properties) is None


# By equality

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE = [1, 1.0, Decimal("1.00")]
ALL_ALIKE: list[list[object]] = [
    [*ONE],
    [True],
    [False],
    [0, 0.0, -0.0, Decimal("-0")],
    [2**53, float(2**53)],
    [2**53 + 1],
    [0.1],
    [Decimal("0.1")],
    [float("inf"), Decimal("Infinity")],
    ["1"],
    [b"1"],
    [""],
    [b""],
    [NOON, NOON.astimezone(timezone(timedelta(hours=1)))],
    [NOON.replace(tzinfo=None)],
]
"""Values that are equal to those in the same row, and to no others."""

NEVER_EQUAL: list[object] = [None, [], [1], {}, {"a": 1}, float("nan"), Decimal("nan"), Decimal("snan")]


def equal(**values: object) -> Predicate:
    return make_predicate([Condition(name, Comparison.EQUAL, value) for name, value in values.items()])


def bound(destination: str, predicate: Predicate, key: str = "") -> Binding:
    return make_binding("s", Target.QUEUE, destination, key, predicate=predicate)


def test_values_are_found_by_what_they_are() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number, row in enumerate(ALL_ALIKE):
        guards.add(bound(str(number), equal(h=row[0])), number)
    for number, row in enumerate(ALL_ALIKE):
        assert [admitted(guards, "", h=value) for value in row] == [[number]] * len(row)
    assert [admitted(guards, "", h=value) for value in NEVER_EQUAL] == [[]] * len(NEVER_EQUAL)
    assert admitted(guards, "", other=1) == []


def tried(guards: Guards[T], **headers: object) -> int:
    found = guards.match("", lambda: headers, no_properties)
    assert found is not None
    return found[1]


def test_only_guards_with_the_values_of_a_message_are_tried() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number in range(1000):
        guards.add(bound(str(number), equal(customer=number, region="eu")), number)
    assert admitted(guards, "", customer=7, region="eu") == [7]
    assert admitted(guards, "", customer=7, region="us") == []
    assert tried(guards, customer=7, region="us", size=1) <= 1
    for number in range(1000, 2000):
        guards.add(bound(str(number), PREDICATES["large" if number % 2 else "small"]), number)
    assert tried(guards, size=1) <= 1
    for number in range(2000, 3000):
        guards.add(bound(str(number), make_predicate([Condition("size", Comparison.LESS, number)])), number)
    assert tried(guards, size=1) >= 300


def test_guard_is_filed_where_the_fewest_are() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number in range(1000):
        guards.add(bound(str(number), equal(a="the same", b=number)), number)
    assert tried(guards, a="the same", b=7) <= 1


def test_only_bindings_of_the_same_key_share_an_index() -> None:
    guards: Guards[str] = Guards(SinkKind.TOPIC)
    guards.add(bound("q", equal(h=1), "a.*"), "q")
    guards.add(bound("r", equal(h=1), "*.b"), "r")
    assert set(admitted(guards, "a.b", h=1)) == {"q", "r"}
    assert admitted(guards, "a.c", h=1) == ["q"]
    guards.remove(bound("q", equal(h=1), "a.*"), "q")
    assert admitted(guards, "a.b", h=1) == ["r"]


EQUATABLE = list(chain.from_iterable(ALL_ALIKE))


@pytest.mark.parametrize("kind", [SinkKind.DIRECT, SinkKind.FANOUT, SinkKind.TOPIC, SinkKind.HEADERS])
def test_binding_that_differs_in_what_its_sink_does_not_look_at_counts_for_itself(kind: SinkKind) -> None:
    guards: Guards[str] = Guards(kind)
    keys, arguments = ("k", "k"), ({}, {"n": 1})
    if kind is SinkKind.HEADERS:
        keys, arguments = ("k", "other"), ({}, {})
    bindings = [
        make_binding("s", Target.QUEUE, "q", key, more, predicate=equal(h=1))
        for key, more in zip(keys, arguments, strict=True)
    ]
    for binding in bindings:
        guards.add(binding, "q")
    for binding in bindings:
        assert admitted(guards, "k", h=1) == ["q"]
        guards.remove(binding, "q")
    assert guards.match("k", no_headers, no_properties) is None


def test_keys_of_a_fanout_do_not_divide_its_index() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number in range(1000):
        guards.add(bound(str(number), equal(h=number), str(number)), number)
    assert tried(guards, h=7) <= 1


VALUES = st.sampled_from(EQUATABLE + NEVER_EQUAL)
COMPARABLE = st.sampled_from(EQUATABLE)
NUMBERS = st.sampled_from([*ONE, 0, 2, 0.5])
NAMES = st.sampled_from("xyz")
CONDITIONS = st.one_of(
    st.builds(Condition, NAMES, st.just(Comparison.EQUAL), COMPARABLE),
    st.builds(Condition, NAMES, st.just(Comparison.EQUAL), NUMBERS, st.sampled_from(["", "priority"])),
    st.builds(Condition, NAMES, st.just(Comparison.DIFFERENT), COMPARABLE),
    st.builds(Condition, NAMES, st.sampled_from([Comparison.LESS, Comparison.AT_LEAST]), NUMBERS),
    st.builds(Condition, NAMES, st.sampled_from([Comparison.PRESENT, Comparison.ABSENT])),
)
PREDICATE = st.lists(CONDITIONS, min_size=1, max_size=3).map(make_predicate)


def holds(predicate: Predicate, headers: dict[str, object], priority: int | None) -> bool:
    return all(
        make_predicate([Condition(one.name, one.comparison, one.value)]).rule()(
            {one.name: priority, **headers} if one.standard and priority is not None else {**headers}
        )
        for one in predicate.conditions
    )


@given(
    st.sampled_from(ALL_KEPT),
    st.lists(st.tuples(PREDICATE, st.sampled_from("ab"), st.integers(0, 3)), unique=True, max_size=20),
    st.data(),
)
def test_index_finds_what_trying_each_finds(
    kind: SinkKind, rows: list[tuple[Predicate, str, int]], data: st.DataObject
) -> None:
    guards: Guards[int] = Guards(kind)
    kept = set(rows)
    for predicate, key, destination in rows:
        guards.add(bound(str(destination), predicate, key), destination)
    if rows:
        for row in data.draw(st.lists(st.sampled_from(rows), unique=True)):
            predicate, key, destination = row
            guards.remove(bound(str(destination), predicate, key), destination)
            kept.remove(row)
    assert len(guards) == len(kept)
    headers = data.draw(st.dictionaries(NAMES, VALUES))
    priority = data.draw(st.sampled_from([None, 0, 1, 2]))
    found = guards.match("a", lambda: headers, lambda: Properties(priority=priority))
    by_key = kind in (SinkKind.DIRECT, SinkKind.TOPIC)
    reached = {row for row in kept if row[1] == "a" or not by_key}
    assert (found is None) is not bool(reached)
    assert set(found[0] if found else ()) == {row[2] for row in reached if holds(row[0], headers, priority)}


# Bounds


def below(*limits: int) -> Predicate:
    return make_predicate([Condition("size", Comparison.LESS, limit) for limit in limits])


def test_conditions_of_all_guards_of_a_sink_are_limited() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number in range(50):
        binding = bound(str(number), below(*range(number, number + 998)))
        guards.require_room(binding)
        guards.add(binding, number)
    one_more = bound("more", LARGE)
    with pytest.raises(PreconditionFailed, match=f"have {MOST_CONDITIONS} conditions already"):
        guards.require_room(one_more)
    guards.remove(bound("0", below(*range(998))), 0)
    guards.require_room(one_more)


def searching(*texts: str) -> Predicate:
    return make_predicate([Condition("text", Comparison.CONTAINS, text) for text in texts])


def test_conditions_that_search_texts_are_limited_by_what_they_may_search() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    attack = [
        bound(str(number), searching(*("a" * (95 - n) + f"b{number}" for n in range(15)))) for number in range(300)
    ]
    for number, binding in enumerate(attack[:51]):
        guards.require_room(binding)
        guards.add(binding, number)
    with pytest.raises(PreconditionFailed, match="conditions already"):
        guards.require_room(attack[51])


def test_what_guards_cost_a_message_grows_with_the_texts_that_are_searched() -> None:
    guards: Guards[int] = Guards(SinkKind.FANOUT)
    for number in range(100):
        guards.add(bound(str(number), searching(f"b{number}")), number)

    def cost(text: object) -> int:
        found = guards.match("", lambda: {"text": text}, no_properties)
        assert found is not None
        return found[1]

    assert cost("a" * 10) == cost(5) == 300 // 8
    assert cost("a" * 640) == 1300 // 8
    assert cost("a" * 60_000) == cost("a" * 4_096) == 6700 // 8
    for number in range(99):
        guards.remove(bound(str(number), searching(f"b{number}")), number)
    assert cost("a" * 4_096) == 67 // 8


def test_lists_that_bindings_compare_are_limited_by_what_is_in_them() -> None:
    sink: RoutingTable[str] = make_table(SinkKind.HEADERS)
    plain, nested = ({"h": value} for value in (["a"], [[[1]]] * 1_000))
    assert sink.weight(make_binding("s", Target.QUEUE, "q", "", plain)) == 3
    assert sink.weight(make_binding("s", Target.QUEUE, "q", "", nested)) == 3 + 3_000 // 8
    assert sink.weight(make_binding("s", Target.QUEUE, "q", "", {"h": "a" * 40_960})) == 3 + 10


async def test_sinks_of_several_users_that_lead_to_each_other_are_too_many_steps_together() -> None:
    quotas = Quotas(lambda user, resource: 1_000_000)
    async with open_harness(Directory("domain", quotas=quotas)) as harness:
        for number in range(4):
            session = Session(harness.domain, harness.directory, user=f"user{number}")
            session.attach()
            harness.sink(f"s{number}", SinkKind.FANOUT)
            harness.queue(f"q{number}")
            for row in range(40):
                predicate = below(*range(row, row + 998))
                binding = make_binding(f"s{number}", Target.QUEUE, f"q{number}", predicate=predicate)
                harness.domain.ask_nowait(Bind(binding, session))
            if number:
                harness.domain.ask_nowait(Bind(make_binding(f"s{number - 1}", Target.SINK, f"s{number}"), session))
        headers = {"size": -1}
        assert len(harness.directory.route("s3", "", lambda: headers).queues) == 1
        assert len(harness.directory.route("s2", "", lambda: headers).queues) == 2
        with pytest.raises(TooManySteps, match="sink 's0' leads through"):
            harness.directory.route("s0", "", lambda: headers)
        assert len(harness.directory.route("s0", "", lambda: headers, inside=True).queues) == 4


def test_keys_of_guards_are_limited_as_those_of_others() -> None:
    guards: Guards[int] = Guards(SinkKind.TOPIC)
    for number in range(20):
        guards.add(bound("q", LARGE, f"#.{number}" + ".*" * 99), number)
    with pytest.raises(PreconditionFailed, match="have 2000 words behind '#' already"):
        guards.require_room(bound("q", LARGE, "#.more"))


async def test_user_may_bind_guards_until_a_publish_could_take_long() -> None:
    quotas = Quotas(lambda user, resource: 1_000_000)
    async with open_harness(Directory("domain", quotas=quotas)) as harness:
        ada = Session(harness.domain, harness.directory, user="ada")
        ada.attach()
        harness.queue("q")
        harness.sink("s")
        plain, guard = make_binding("s", Target.QUEUE, "q"), bound("q", below(1, 2, 3))
        for binding in (plain, guard):
            harness.domain.ask_nowait(Bind(binding, ada))
        assert quotas.count("ada", "steps") == 5
        harness.domain.ask_nowait(Unbind(guard, ada))
        assert quotas.count("ada", "steps") == 0
        for number in range(50):
            harness.domain.ask_nowait(Bind(bound("q", below(*range(number, number + 998))), ada))
        with pytest.raises(PreconditionFailed, match="conditions already"):
            harness.domain.ask_nowait(Bind(guard, ada))
        assert bind(harness, guard)  # the program itself may


async def test_several_keys_are_too_many_where_they_lead_to_many_guards(harness: Harness) -> None:
    harness.sink("s", SinkKind.TOPIC)
    harness.queue("q")
    for number in range(100):
        bind(harness, bound("q", below(*range(-number, 398 - number)), "#"))
    keys = [str(number) for number in range(5)]
    assert len(harness.directory.route_all("s", keys[:3], lambda: {"size": -1000}).queues) == 1
    with pytest.raises(TooManyKeys):
        harness.directory.route_all("s", keys, lambda: {"size": -1000})


async def test_what_trying_guards_takes_counts_against_the_turn(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    harness.queue("q")
    spent: list[int] = []
    harness.directory.spend = spent.append
    for number in range(1000):
        bind(harness, bound("q", equal(h=number)))
    assert names(harness, h=7) == ["q"]
    assert spent == []
    for number in range(1000):
        bind(harness, bound("q", below(number)))
    assert names(harness, size=10_000) == []
    assert spent == [1 + 3 * 1000 // 8]


# Standard properties


def by_priority(limit: int, **others: object) -> Predicate:
    conditions = [Condition("priority", Comparison.AT_LEAST, limit, standard="priority")]
    return make_predicate([*conditions, *(Condition(name, Comparison.EQUAL, value) for name, value in others.items())])


async def test_standard_property_counts_where_the_header_is_missing(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    harness.queue("q")
    bind(harness, bound("q", by_priority(5)))

    def passes(properties: Properties | None) -> bool:
        headers = {} if properties is None else properties.headers or {}
        route = harness.directory.route("s", "", lambda: headers, properties=lambda: properties)
        return bool(route.queues)

    assert passes(Properties(priority=5))
    assert not passes(Properties(priority=4))
    assert not passes(Properties())
    assert not passes(None)
    assert passes(Properties(priority=4, headers={"priority": 5}))
    assert not passes(Properties(priority=5, headers={"priority": 4}))


def test_properties_are_looked_at_only_while_a_guard_names_one() -> None:
    guards: Guards[str] = Guards(SinkKind.FANOUT)
    text = make_predicate([Condition("kind", Comparison.EQUAL, "a", standard="type")])
    guards.add(bound("q", text), "q")
    guards.add(bound("r", by_priority(1, h=1)), "r")
    for properties, headers, expected in (
        (Properties(type="a", priority=1), {"h": 1}, {"q", "r"}),
        (Properties(type="b", priority=1), {"h": 1}, {"r"}),
        (Properties(type="b", priority=1), {"kind": "a"}, {"q"}),
        (Properties(type="a", priority=1), {"type": "b"}, {"q"}),
    ):
        found = guards.match("", lambda headers=headers: headers, lambda properties=properties: properties)
        assert found is not None
        assert set(found[0]) == expected
    guards.add(bound("plain", equal(h=1)), "plain")
    guards.remove(bound("q", text), "q")
    guards.remove(bound("r", by_priority(1, h=1)), "r")
    assert admitted(guards, "", h=1) == ["plain"]
