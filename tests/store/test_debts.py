from hypothesis import given
from hypothesis import strategies as st

from triomq.store.debts import Debts


class Owed:
    """What one publisher is owed."""

    def __init__(self) -> None:
        self.unsafe = 0

    def wait_for(self, number: int, count: int) -> None:
        self.unsafe += count

    def consumed(self, count: int) -> None:
        self.unsafe -= count


@given(st.data())
def test_each_publisher_is_paid_for_each_of_its_ids(data: st.DataObject) -> None:
    debts, owed, unpaid = Debts(), [Owed() for _ in range(3)], dict[int, Owed]()
    first = 1
    for gap, count, whose in data.draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(owed)), max_size=8)
    ):
        first += gap
        whose.wait_for(1, count)
        debts.add(first, count, whose)
        unpaid |= dict.fromkeys(range(first, first + count), whose)
        first += count
    assert debts.stop == (first if unpaid else 0)
    left = set(range(1, first))
    before: set[int] = set()
    while left and data.draw(st.booleans()):
        start = data.draw(st.sampled_from(sorted(left)))
        count = 1
        while start + count in left and data.draw(st.booleans()):
            count += 1
        ids = range(start, start + count)
        left -= set(ids)
        assert debts.pay(start, count) == sum(number in unpaid for number in ids)
        for number in ids:
            unpaid.pop(number, None)
        assert [each.unsafe for each in owed] == [sum(one is each for one in unpaid.values()) for each in owed]
        assert debts.is_awaited is bool(unpaid)
        if data.draw(st.booleans()):
            awaited = {number for number, whose in unpaid.items() if whose.unsafe}
            assert debts.drop_paid() is bool(awaited & before)
            before = awaited
