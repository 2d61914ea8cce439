"""What becomes of a writer's contents, held against a model that remembers everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.mtl import WriterLog
from triomq.protocols.mtl.log import MOST_GAPS, MOST_REJECTED


def taken(*sequences: int) -> WriterLog:
    log = WriterLog()
    log.take(sequences)
    return log


def fates(log: WriterLog, *sequences: int) -> list[str]:
    return [log.fate(sequence) for sequence in sequences]


def test_content_is_new_then_pending_then_confirmed() -> None:
    log = WriterLog()
    assert fates(log, 1) == ["new"]
    log.take([1])
    assert (fates(log, 1, 2), log.pending, log.last) == (["pending", "new"], 1, 1)
    assert log.confirm([1]) == [(1, False)]
    assert (fates(log, 1), log.pending) == (["confirmed"], 0)


def test_contents_that_follow_each_other_are_confirmed_at_once() -> None:
    assert taken(*range(1, 101)).confirm(range(1, 101)) == [(100, True)]


def test_content_behind_one_that_is_pending_is_confirmed_alone() -> None:
    log = taken(1, 2, 3, 4)
    assert log.confirm([3, 4]) == [(3, False), (4, False)]
    assert log.confirm([1]) == [(1, False)]
    assert log.confirm([2]) == [(2, False)]


def test_contents_below_the_first_pending_one_are_confirmed_at_once_and_others_alone() -> None:
    log = taken(1, 2, 3, 4, 5)
    assert log.confirm([1, 2, 4]) == [(2, True), (4, False)]
    assert log.confirm([3, 5]) == [(5, True)]


def test_what_is_not_pending_is_not_confirmed() -> None:
    log = taken(1, 2)
    log.reject(1, recycle=True)
    assert log.confirm([1, 7]) == []
    assert log.confirm([2]) == [(2, False)]
    assert log.confirm([2]) == []
    assert fates(log, 1, 7) == ["rejected", "new"]


def test_rejected_content_stays_so_and_with_what_was_said() -> None:
    log = taken(1, 2, 3)
    log.reject(2, recycle=True)
    log.reject(9, recycle=False)  # which nobody has taken
    assert fates(log, 2, 9, 8) == ["rejected", "rejected", "new"]
    assert (log.may_recycle(2), log.may_recycle(9)) == (True, False)
    assert log.rejected == [(2, True), (9, False)]
    assert log.last == 9


def test_number_that_was_left_out_is_new_when_it_comes_later() -> None:
    log = taken(1, 5, 9)
    assert fates(log, 1, 2, 4, 5, 6, 8) == ["pending", "new", "new", "pending", "new", "new"]
    log.take([3])
    assert fates(log, 2, 3, 4) == ["new", "pending", "new"]
    assert log.confirm([1, 5, 9]) == [(1, False), (5, False), (9, False)]  # 3 is pending
    assert log.confirm([3]) == [(3, False)]
    assert log.confirm([2]) == []


@pytest.mark.parametrize("way", ["gaps", "filled", "rejected"])
def test_what_is_forgotten_counts_as_rejected_and_never_as_safe(way: str) -> None:
    log = WriterLog()
    if way == "gaps":
        log.take(range(2, 4 * MOST_GAPS, 2))
        assert log.fate(1) == "rejected"
    elif way == "filled":
        log.take([4 * MOST_GAPS])
        log.take(range(2, 4 * MOST_GAPS, 2))
        assert log.fate(1) == "rejected"
    else:
        for sequence in range(1, MOST_REJECTED + 2):
            log.reject(sequence, recycle=True)
        assert (log.fate(1), log.may_recycle(1)) == ("rejected", False)
    assert len(log._gaps) <= MOST_GAPS
    assert len(log._rejected) <= MOST_REJECTED
    log.confirm(range(4 * MOST_GAPS + 1))
    assert log.pending == 0


sequences = st.integers(1, 30)
steps = st.lists(
    st.tuples(st.just("take"), sequences.map(lambda number: [number]))
    | st.tuples(st.just("run"), st.integers(1, 5).map(lambda count: [count]))
    | st.tuples(st.sampled_from(["confirm", "reject", "recycle"]), st.lists(sequences, max_size=6)),
    max_size=40,
)


@given(steps)
def test_log_says_of_each_content_what_has_become_of_it(drawn: list[tuple[str, list[int]]]) -> None:
    log = WriterLog()
    model: dict[int, str] = {}
    told: set[int] = set()  # what the writer takes to be safe
    for step, numbers in drawn:
        if step == "take" and log.fate(numbers[0]) == "new":
            log.take(numbers)
            model[numbers[0]] = "pending"
        elif step == "run":
            run = range(log.last + 1, log.last + 1 + numbers[0])
            log.take(run)
            model.update(dict.fromkeys(run, "pending"))
        elif step == "confirm":
            before = {number for number, fate in model.items() if fate == "pending"}
            for sequence, multiple in log.confirm(numbers):
                open_ones = before - told
                told |= {number for number in open_ones if number <= sequence} if multiple else {sequence}
            model.update({number: "confirmed" for number in numbers if number in before})
        elif step in ("reject", "recycle"):
            for number in numbers:
                if model.get(number, "new") in ("new", "pending"):
                    log.reject(number, recycle=step == "recycle")
                    model[number] = "rejected"
        for number in range(1, max(model, default=0) + 2):
            assert log.fate(number) == model.get(number, "new")
        assert told == {number for number, fate in model.items() if fate == "confirmed"}
        assert log.pending == sum(fate == "pending" for fate in model.values())
