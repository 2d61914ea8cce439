from hypothesis import given
from hypothesis import strategies as st

from triomq.core.backlog.returned import Returned, ReturnedMessage
from triomq.core.window import UNLIMITED

from ..cast import HEAD, OTHER_HEAD

INF = float("inf")


def put(returned: Returned, *numbers: int, head: object = HEAD, deadline: float = INF) -> None:
    for number in numbers:
        returned.put(number, ReturnedMessage(OTHER_HEAD if head is OTHER_HEAD else HEAD, b"%d" % number, deadline))


@given(st.lists(st.integers(1, 1000), unique=True, min_size=1))
def test_messages_go_in_their_old_order_whatever_the_order_in_which_they_came_back(numbers: list[int]) -> None:
    returned = Returned()
    put(returned, *numbers)
    assert [number for number, _ in returned.after(0)] == sorted(numbers)
    assert returned.first.content == b"%d" % min(numbers)
    assert [returned.pop()[0] for _ in numbers] == sorted(numbers)
    assert not returned


def test_a_batch_ends_where_head_deadline_or_mark_are_others() -> None:
    returned = Returned()
    put(returned, 1, 2)
    put(returned, 3, head=OTHER_HEAD)
    put(returned, 4, deadline=1.0)
    put(returned, 5, 6, deadline=1.0)
    taken = []
    while returned:
        taken.append(returned.take(9, UNLIMITED, {6: 1}))
    assert [batch.ids for batch in taken] == [[1, 2], [3], [4, 5], [6]]
    assert [batch.redelivered for batch in taken] == [False, False, False, True]
    assert [batch.deadline for batch in taken] == [INF, INF, 1.0, 1.0]


def test_limits_cut_a_batch_but_one_message_may_always_go() -> None:
    returned = Returned()
    put(returned, 1, 2, 3, 400, 500)
    assert returned.take(2, UNLIMITED, {}).ids == [1, 2]
    assert returned.take(9, 3, {}).ids == [3]
    assert returned.take(9, 2, {}).ids == [400]
    assert len(returned) == 1
