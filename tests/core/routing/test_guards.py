from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness
from triomq.core import Bind, Binding, Comparison, Condition, SinkKind, Target, Unbind, make_binding, make_predicate
from triomq.core.routing.sink import Guards
from triomq.errors import PreconditionFailed

LARGE = make_predicate([Condition("size", Comparison.AT_LEAST, 10)])
SMALL = make_predicate([Condition("size", Comparison.LESS, 10)])
PREDICATES = {"large": LARGE, "small": SMALL}


def guarded(destination: str, key: str = "", predicate: str = "large", **arguments: object) -> Binding:
    return make_binding("s", Target.QUEUE, destination, key, arguments, predicate=PREDICATES[predicate])


def no_headers() -> Mapping[str, object]:
    raise AssertionError("nobody needs them")


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
    assert list(guards.match("k", lambda: {"size": 10}) or ()) == ["a"]
    assert list(guards.match("k", lambda: {"size": 9}) or ()) == ["b"]
    guards.remove(guarded("a", "k"))
    assert list(guards.match("k", lambda: {"size": 10}) or ()) == []
    assert len(guards) == 1


def test_headers_are_looked_at_only_when_the_key_leads_to_a_guard() -> None:
    guards: Guards[str] = Guards(SinkKind.TOPIC)
    guards.add(guarded("q", "a.*"), "q")
    assert guards.match("b.c", no_headers) is None
    assert list(guards.match("a.c", dict) or ["nothing"]) == ["nothing"]


def test_headers_sink_asks_for_both() -> None:
    guards: Guards[str] = Guards(SinkKind.HEADERS)
    guards.add(guarded("q", colour="red"), "q")
    assert list(guards.match("", lambda: {"size": 10, "colour": "red"}) or ()) == ["q"]
    assert not guards.match("", lambda: {"size": 10})
    assert not guards.match("", lambda: {"colour": "red"})


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
    assert list(guards.match("any", lambda: {"size": 10}) or ()) == ["q"]
    assert guards.match("any", lambda: {"size": 9}) == []


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
    assert set(guards.match(key, lambda: {"size": size}) or ()) == expected
    for where, predicate, destination in rows:
        guards.remove(guarded(str(destination), where, predicate))
    assert guards.match(key, no_headers) is None
