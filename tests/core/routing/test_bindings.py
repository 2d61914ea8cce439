from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Binding, SinkKind, Target, make_binding
from triomq.core.routing.bindings import RoutingTable, make_table
from triomq.errors import PreconditionFailed

KINDS = list(SinkKind)
KEYS = st.sampled_from(["", "a", "b", "a.b", "#", "*"])
ARGUMENTS = st.sampled_from([{}, {"h": 1}, {"x-match": "any", "h": 2}])


def no_headers() -> Mapping[str, object]:
    return {}


def binding(key: str = "", destination: str = "q", **arguments: object) -> Binding:
    return make_binding("s", Target.QUEUE, destination, key, arguments)


def test_order_of_arguments_does_not_make_another_binding() -> None:
    one, other = binding(a=1, b=2), binding(b=2, a=1)
    assert one == other
    assert hash(one) == hash(other)
    assert one.arguments == {"a": 1, "b": 2}


def test_argument_of_another_type_makes_another_binding() -> None:
    assert binding(a=1) != binding(a=True)


def test_arguments_of_every_type_come_back() -> None:
    assert binding(a=Decimal("1.5"), b=b"b", c=[None, {"d": 1.0}]).arguments == {
        "a": Decimal("1.5"),
        "b": b"b",
        "c": [None, {"d": 1.0}],
    }
    assert binding().arguments == {}


@pytest.mark.parametrize("value", [2**70, object(), "\udcff"])
def test_arguments_that_cannot_be_kept_are_refused(value: object) -> None:
    with pytest.raises(PreconditionFailed, match="the arguments of a binding to 'q' cannot be kept"):
        binding(a=value)


@given(st.sampled_from(KINDS), st.lists(st.tuples(KEYS, ARGUMENTS, st.integers(0, 3)), unique_by=str, max_size=8), KEYS)
def test_table_gives_each_destination_once_and_forgets_what_is_removed(
    kind: SinkKind, rows: list[tuple[str, dict[str, object], int]], key: str
) -> None:
    table: RoutingTable[int] = make_table(kind)
    if kind is SinkKind.CONSISTENT_HASH:
        rows = [("2", arguments, destination) for _, arguments, destination in rows][:1]  # its keys are weights
    bindings = [(binding(where, str(destination), **arguments), destination) for where, arguments, destination in rows]
    for one, destination in bindings:
        table.add(one, destination)
    while bindings:
        found = list(table.match(key, lambda: {"h": 1}))
        assert len(found) == len(set(found))
        assert set(found) <= {destination for _, destination in bindings}
        table.remove(*bindings.pop())
    assert list(table.match(key, lambda: {"h": 1})) == []


def test_direct_table_compares_keys() -> None:
    table: RoutingTable[int] = make_table(SinkKind.DIRECT)
    table.add(binding("a"), 1)
    assert list(table.match("a", no_headers)) == [1]
    assert list(table.match("#", no_headers)) == []


def test_fanout_table_does_not_look_at_keys() -> None:
    table: RoutingTable[int] = make_table(SinkKind.FANOUT)
    table.add(binding("a"), 1)
    table.add(binding("b"), 1)
    assert list(table.match("c", no_headers)) == [1]
    table.remove(binding("a"), 1)
    assert list(table.match("c", no_headers)) == [1]


def test_topic_table_matches_patterns() -> None:
    table: RoutingTable[int] = make_table(SinkKind.TOPIC)
    table.add(binding("a.*"), 1)
    assert list(table.match("a.b", no_headers)) == [1]


def test_headers_table_asks_for_headers_once_and_only_if_it_has_bindings() -> None:
    table: RoutingTable[int] = make_table(SinkKind.HEADERS)
    asked: list[int] = []

    def headers() -> Mapping[str, object]:
        asked.append(1)
        return {"h": 1}

    assert list(table.match("", headers)) == []
    assert not asked
    table.add(binding(h=1), 1)
    table.add(binding(h=1, key="other"), 1)
    table.add(binding(h=2), 2)
    assert list(table.match("", headers)) == [1]
    assert asked == [1]


def test_headers_table_refuses_arguments_that_mean_nothing() -> None:
    table: RoutingTable[int] = make_table(SinkKind.HEADERS)
    with pytest.raises(PreconditionFailed):
        table.add(binding(**{"x-match": "never"}), 1)
    assert list(table.match("", no_headers)) == []


def test_arguments_of_all_bindings_of_a_headers_sink_are_limited() -> None:
    table: RoutingTable[str] = make_table(SinkKind.HEADERS)
    arguments = {f"k{number}": number for number in range(998)}
    for number in range(50):
        binding = make_binding("s", Target.QUEUE, str(number), arguments=arguments)
        table.require_room(binding)
        table.add(binding, str(number))
    one_more = make_binding("s", Target.QUEUE, "more")
    with pytest.raises(PreconditionFailed, match="have 50000 arguments already"):
        table.require_room(one_more)
    table.remove(make_binding("s", Target.QUEUE, "0", arguments=arguments), "0")
    table.require_room(one_more)


def test_bindings_of_a_consistent_hash_sink_are_limited() -> None:
    table: RoutingTable[str] = make_table(SinkKind.CONSISTENT_HASH)
    for number in range(500):
        binding = make_binding("s", Target.QUEUE, str(number), "1")
        table.require_room(binding)
        table.add(binding, str(number))
    with pytest.raises(PreconditionFailed, match="has 500 bindings, which is the most"):
        table.require_room(make_binding("s", Target.QUEUE, "more", "1"))
