from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Batch, Head, Ledger, Numbered, Outcome, UnknownDelivery

Settled = list[tuple[Batch, Outcome, list[int]]]


def batch_of(count: int) -> Batch:
    return Batch(Head(), [b"x"] * count, range(1, count + 1), False, count, count)


def ledger_into(settled: Settled) -> Ledger:
    """A ledger whose settlements are written down instead of told."""

    def settler(numbered: Numbered, outcome: Outcome, offsets: Sequence[int]) -> None:
        settled.append((numbered.batch, outcome, list(numbered.at(offsets))))

    ledger = Ledger()
    ledger.settler = settler
    return ledger


def numbers(ledger: Ledger) -> list[int]:
    return [number for _, group in ledger.groups() for number in group]


def test_deliveries_are_numbered_from_1_and_neighbours_are_settled_together() -> None:
    settled: Settled = []
    ledger, first, second = ledger_into(settled), batch_of(3), batch_of(2)
    assert (ledger.enter(first), ledger.enter(second)) == (1, 4)
    ledger.settle_each([2, 3, 4, 1], Outcome.ACCEPT)
    assert settled == [(first, Outcome.ACCEPT, [1, 2]), (second, Outcome.ACCEPT, [0]), (first, Outcome.ACCEPT, [0])]


def test_numbers_of_a_consumer_that_does_not_settle_lead_nowhere() -> None:
    ledger = Ledger()
    assert ledger.skip(5) == 1
    assert (ledger.next_number, numbers(ledger)) == (6, [])
    with pytest.raises(UnknownDelivery, match="number 3"):
        ledger.settle_each([3], Outcome.ACCEPT)


def test_deliveries_before_an_unknown_number_are_settled() -> None:
    settled: Settled = []
    ledger, batch = ledger_into(settled), batch_of(3)
    ledger.enter(batch)
    with pytest.raises(UnknownDelivery) as refused:
        ledger.settle_each([1, 9, 2], Outcome.ACCEPT)
    assert (refused.value.number, settled, numbers(ledger)) == (9, [(batch, Outcome.ACCEPT, [0])], [2, 3])


def test_up_to_an_unknown_number_nothing_is_settled() -> None:
    ledger = Ledger()
    ledger.enter(batch_of(3))
    with pytest.raises(UnknownDelivery):
        ledger.settle_up_to(7, Outcome.ACCEPT)
    assert numbers(ledger) == [1, 2, 3]


def test_up_to_0_means_all_even_if_there_are_none() -> None:
    settled: Settled = []
    ledger = ledger_into(settled)
    ledger.settle_up_to(0, Outcome.ACCEPT)
    ledger.enter(batch_of(2))
    ledger.settle_up_to(0, Outcome.ACCEPT)
    assert [positions for _, _, positions in settled] == [[0, 1]]
    assert numbers(ledger) == []


def test_number_after_milliards_of_deliveries_is_found_at_once() -> None:
    settled: Settled = []
    ledger = ledger_into(settled)
    ledger.next_number = 10**12
    ledger.enter(batch_of(2))
    ledger.settle_up_to(10**12 + 1, Outcome.ACCEPT)
    assert numbers(ledger) == []


def test_messages_that_go_out_again_have_new_numbers_and_the_same_places() -> None:
    settled: Settled = []
    ledger, batch = ledger_into(settled), batch_of(4)
    ledger.enter(batch)
    ledger.settle_each([2], Outcome.ACCEPT)
    (old, left) = next(ledger.groups())
    again = ledger.renumber(old, left)
    assert (again.first, again.positions, numbers(ledger)) == (5, [0, 2, 3], [5, 6, 7])
    assert ledger.still(old, [1, 3]) == []
    ledger.settle_each([6], Outcome.REJECT)
    assert settled[-1] == (batch, Outcome.REJECT, [2])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_restored_deliveries_can_be_settled_again(sizes: list[int], data: st.DataObject) -> None:
    kept: list[tuple[Numbered, Sequence[int]]] = []
    ledger = Ledger()
    ledger.settler = lambda numbered, outcome, offsets: kept.append((numbered, offsets))
    for size in sizes:
        ledger.enter(batch_of(size))
    before = numbers(ledger)
    taken = data.draw(st.lists(st.sampled_from(before), unique=True, min_size=1))
    ledger.settle_each(taken, Outcome.ACCEPT)
    assert numbers(ledger) == [number for number in before if number not in taken]
    ledger.restore(kept)
    assert numbers(ledger) == before
    kept.clear()
    ledger.settle_up_to(max(before), Outcome.ACCEPT)
    assert numbers(ledger) == []
    assert sum(len(offsets) for _, offsets in kept) == len(before)


def test_fifty_thousand_deliveries_are_found_wherever_they_are() -> None:
    settled: Settled = []
    ledger = ledger_into(settled)
    batches = [batch_of(10) for _ in range(5_000)]
    for batch in batches:
        ledger.enter(batch)
    ledger.settle_each([1], Outcome.ACCEPT)
    ledger.settle_each([25_000, 25_001, 49_999], Outcome.ACCEPT)
    ledger.settle_each([12, 13], Outcome.ACCEPT)
    assert [(batch, positions) for batch, _, positions in settled] == [
        (batches[0], [0]),
        (batches[2499], [9]),
        (batches[2500], [0]),
        (batches[4999], [8]),
        (batches[1], [1, 2]),
    ]
    with pytest.raises(UnknownDelivery) as refused:
        ledger.settle_each([3, 40_000, 25_000, 4], Outcome.ACCEPT)
    assert refused.value.number == 25_000
    assert [positions for _, _, positions in settled[5:]] == [[2], [9]]
    gone = {1, 3, 12, 13, 25_000, 25_001, 40_000, 49_999}
    assert numbers(ledger) == [number for number in range(1, 50_001) if number not in gone]
    with pytest.raises(UnknownDelivery):
        ledger.settle_up_to(25_000, Outcome.ACCEPT)
    ledger.settle_up_to(45_000, Outcome.ACCEPT)
    assert ledger.oldest == 45_001
    assert sum(len(positions) for _, _, positions in settled) == 45_000 + 1
    oldest, left = next(ledger.groups())
    again = ledger.renumber(oldest, left)
    assert (again.first, ledger.oldest, ledger.still(again, [50_001, 45_002])) == (50_001, 45_011, [50_001])


def test_fifty_thousand_deliveries_can_be_restored() -> None:
    kept: list[tuple[Numbered, Sequence[int]]] = []
    ledger = Ledger()
    ledger.settler = lambda numbered, outcome, offsets: kept.append((numbered, offsets))
    for _ in range(50_000):
        ledger.enter(batch_of(1))
    ledger.settle_up_to(40_000, Outcome.ACCEPT)
    ledger.restore(kept)
    assert numbers(ledger) == [*range(1, 50_001)]
    ledger.settle_up_to(0, Outcome.ACCEPT)
    assert ledger.is_empty
