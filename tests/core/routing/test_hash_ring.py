from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triomq.core import Binding, Target, make_binding
from triomq.core.routing.hash_ring import SLOTS, HashTable, read_weight, slot_of
from triomq.errors import PreconditionFailed

KEYS = [f"user-{number}" for number in range(20_000)]


def binding(destination: str, weight: str = "1") -> Binding:
    return make_binding("s", Target.QUEUE, destination, weight)


def made(*destinations: str, weight: str = "1") -> HashTable[str]:
    table: HashTable[str] = HashTable()
    for destination in destinations:
        table.add(binding(destination, weight), destination)
    return table


def chosen(table: HashTable[str], keys: Iterable[str] = KEYS) -> dict[str, str]:
    return {key: found for key in keys for found in table.match(key, dict)}


def shares(table: HashTable[str]) -> dict[str, float]:
    return {name: count / len(KEYS) for name, count in Counter(chosen(table).values()).items()}


@pytest.mark.parametrize(("text", "weight"), [("1", 1), ("010", 10), ("+5", 5), ("9" * 200, float("9" * 200))])
def test_weight_is_a_positive_integer(text: str, weight: float) -> None:
    assert read_weight(text) == weight


@pytest.mark.parametrize("text", ["", "a", "1.5", " 1", "1 ", "1e3", "--1", "+", "٣", "²", "1_000"])
def test_weight_must_be_an_integer(text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        read_weight(text)
    shown = f'"{text}"' if text else ""
    assert str(refused.value) == f"The binding key must be an integer: <<{shown}>>"


@pytest.mark.parametrize("text", ["0", "-1", "-0", "000"])
def test_weight_is_not_zero_or_less(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="The binding key must be greater than 0"):
        read_weight(text)


def test_texts_that_count_up_spread_over_all_slots() -> None:
    found = Counter(map(slot_of, KEYS))
    assert len(found) > SLOTS * 0.98
    assert max(found.values()) < 20
    assert slot_of("\udcff") in range(SLOTS)


def test_text_always_has_the_same_slot_and_destination() -> None:
    assert [slot_of(key) for key in ("", "a", "user-1")] == [0, 4005, 2910]
    assert chosen(made("a", "b", "c"), ["", "a", "user-1"]) == {"": "b", "a": "b", "user-1": "c"}


def test_order_of_bindings_changes_nothing() -> None:
    assert chosen(made("a", "b", "c")) == chosen(made("c", "a", "b"))


def test_equal_weights_have_equal_shares() -> None:
    for share in shares(made(*"abcdefghij")).values():
        assert share == pytest.approx(0.1, rel=0.15)


def test_shares_are_as_the_weights() -> None:
    table = made("a", "b")
    table.add(binding("large", "6"), "large")
    assert shares(table)["large"] == pytest.approx(0.75, rel=0.05)


def test_destination_that_is_bound_twice_has_both_weights() -> None:
    table = made("a", "b")
    table.add(binding("a", "2"), "a")
    assert shares(table)["a"] == pytest.approx(0.75, rel=0.05)
    table.remove(binding("a"), "a")
    assert shares(table)["a"] == pytest.approx(2 / 3, rel=0.05)


def test_destination_that_goes_moves_its_own_share_alone() -> None:
    table = made("a", "b", "c", "d")
    before = chosen(table)
    table.remove(binding("b"), "b")
    after = chosen(table)
    assert all(after[key] == before[key] for key in KEYS if before[key] != "b")
    assert set(after.values()) == {"a", "c", "d"}
    assert {after[key] for key in KEYS if before[key] == "b"} == {"a", "c", "d"}


def test_destination_that_comes_takes_its_share_and_moves_nothing_else() -> None:
    table = made("a", "b", "c")
    before = chosen(table)
    table.add(binding("d"), "d")
    after = chosen(table)
    assert all(after[key] in (before[key], "d") for key in KEYS)
    table.remove(binding("d"), "d")
    assert chosen(table) == before


def test_without_a_destination_nothing_matches() -> None:
    table = made()
    assert list(table.match("a", dict)) == []
    table.add(binding("q"), "q")
    table.remove(binding("q"), "q")
    assert list(table.match("a", dict)) == []


def test_bad_weight_leaves_everything_as_it_was() -> None:
    table = made("a")
    with pytest.raises(PreconditionFailed):
        table.add(binding("b", "many"), "b")
    assert set(chosen(table).values()) == {"a"}


@settings(max_examples=20)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.sampled_from(["1", "3"])), max_size=8))
def test_header_that_is_left_alone_decides_the_destination(steps: list[tuple[bool, str, str]]) -> None:
    table, left = made(), {}
    for coming, destination, weight in steps:
        one = binding(destination, weight)
        if coming and one not in left:
            table.add(one, destination)
            left[one] = destination
        elif not coming and one in left:
            table.remove(one, left.pop(one))
    again: HashTable[str] = HashTable()
    for one in sorted(left, key=lambda found: (found.destination, found.key)):
        again.add(one, left[one])
    assert chosen(table, KEYS[:500]) == chosen(again, KEYS[:500])
