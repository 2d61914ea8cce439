from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Batch, Head, Ledger, Outcome, UnknownDelivery

Settled = list[tuple[Batch, Outcome, list[int] | None]]


def batch_of(count: int) -> Batch:
    return Batch(Head(), [b"x"] * count, range(1, count + 1), False, count, count)


def recorder(settled: Settled):  # type: ignore[no-untyped-def]
    def record(batch: Batch, outcome: Outcome, positions: Sequence[int] | None) -> None:
        settled.append((batch, outcome, None if positions is None else list(positions)))

    return record


def test_deliveries_are_numbered_from_1_and_neighbours_are_settled_together() -> None:
    ledger, first, second, settled = Ledger(), batch_of(3), batch_of(2), []
    assert (ledger.enter(first), ledger.enter(second)) == (1, 4)
    ledger.settle_each([2, 3, 4, 1], Outcome.ACCEPT, recorder(settled))
    assert settled == [(first, Outcome.ACCEPT, [1, 2]), (second, Outcome.ACCEPT, [0]), (first, Outcome.ACCEPT, [0])]


def test_a_whole_batch_is_settled_as_one() -> None:
    ledger, batch, settled = Ledger(), batch_of(3), []
    ledger.enter(batch)
    ledger.settle_up_to(3, Outcome.REJECT, recorder(settled))
    assert settled == [(batch, Outcome.REJECT, None)]


def test_numbers_of_a_consumer_that_does_not_settle_lead_nowhere() -> None:
    ledger = Ledger()
    assert ledger.enter(batch_of(5), settles=False) == 1
    assert (ledger.next_number, ledger.unsettled) == (6, {})
    with pytest.raises(UnknownDelivery, match="number 3"):
        ledger.settle_each([3], Outcome.ACCEPT)


def test_those_before_an_unknown_number_are_settled() -> None:
    ledger, batch, settled = Ledger(), batch_of(3), []
    ledger.enter(batch)
    with pytest.raises(UnknownDelivery) as refused:
        ledger.settle_each([1, 9, 2], Outcome.ACCEPT, recorder(settled))
    assert (refused.value.number, settled, list(ledger.unsettled)) == (9, [(batch, Outcome.ACCEPT, [0])], [2, 3])


def test_up_to_an_unknown_number_nothing_is_settled() -> None:
    ledger = Ledger()
    ledger.enter(batch_of(3))
    with pytest.raises(UnknownDelivery):
        ledger.settle_up_to(7, Outcome.ACCEPT)
    assert list(ledger.unsettled) == [1, 2, 3]


def test_up_to_0_means_all_even_if_there_are_none() -> None:
    ledger, settled = Ledger(), []
    ledger.settle_up_to(0, Outcome.ACCEPT, recorder(settled))
    ledger.enter(batch_of(2))
    ledger.settle_up_to(0, Outcome.ACCEPT, recorder(settled))
    assert len(settled) == 1
    assert not ledger.unsettled


def test_a_number_after_milliards_of_deliveries_is_found_at_once() -> None:
    ledger, settled = Ledger(), []
    ledger.next_number = 10**12
    ledger.enter(batch_of(2))
    ledger.settle_up_to(10**12 + 1, Outcome.ACCEPT, recorder(settled))
    assert settled[0][2] is None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_what_is_put_back_can_be_settled_again(sizes: list[int], data: st.DataObject) -> None:
    ledger, settled = Ledger(), []
    for size in sizes:
        ledger.enter(batch_of(size))
    numbers = data.draw(st.lists(st.sampled_from(list(ledger.unsettled)), unique=True, min_size=1))
    before = set(ledger.unsettled)
    ledger.settle_each(numbers, Outcome.ACCEPT, recorder(settled))
    assert set(ledger.unsettled) == before - set(numbers)
    for batch, _, positions in settled:
        ledger.put_back(batch, positions)
    assert set(ledger.unsettled) == before
    again: Settled = []
    ledger.settle_up_to(max(before), Outcome.ACCEPT, recorder(again))
    assert not ledger.unsettled
    assert sum(batch.left if positions is None else len(positions) for batch, _, positions in again) == len(before)
