from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head, traits_of
from triomq.core.backlog.returned import ReturnedMessages, ReturnedRun
from triomq.core.dispatch.feed import UNLIMITED

from ..harness import HEAD, OTHER_HEAD

INF = float("inf")


def put(returned: ReturnedMessages, *ids: int, head: Head = HEAD, deadline: float = INF, attempts: int = 0) -> None:
    """Put messages back one by one."""
    for number in ids:
        put_run(returned, range(number, number + 1), head=head, deadline=deadline, attempts=attempts)


def put_run(
    returned: ReturnedMessages, ids: Sequence[int], *, head: Head = HEAD, deadline: float = INF, attempts: int = 0
) -> None:
    contents = [b"%d" % number for number in ids]
    returned.put(ReturnedRun(head, contents, ids, sum(map(len, contents)), deadline, attempts))


@st.composite
def runs(draw: st.DrawFn) -> list[Sequence[int]]:
    """Runs as batches leave them: in a row, dealt in turns, or with holes; none has an id of another."""
    found: list[Sequence[int]] = []
    start = 1
    for _ in range(draw(st.integers(1, 5))):
        feeds, rounds = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        stop = start + feeds * rounds
        found += [range(start + seat, stop, feeds) for seat in range(feeds)]
        start = stop + draw(st.integers(0, 1))
    holes = draw(st.sets(st.integers(1, start)))
    found += [[number for number in found.pop() if number not in holes]]
    return draw(st.permutations([each for each in found if each]))


@given(runs(), st.integers(1, 6), st.integers(0, 40))
def test_messages_go_in_their_old_order_whatever_the_order_in_which_they_came_back(
    back: list[Sequence[int]], most: int, after: int
) -> None:
    returned = ReturnedMessages()
    for ids in back:
        put_run(returned, ids)
    expected = sorted(number for ids in back for number in ids)
    assert [number for number, _, _ in returned.after(after)] == [number for number in expected if number > after]
    assert sorted(number for run in returned.runs() for number in run.ids) == expected
    gone: list[int] = []
    while returned:
        assert returned.first_id == expected[len(gone)]
        if len(gone) % 2:
            run = returned.cut(min(most, returned.in_a_row()))
            assert [*run.ids] == [*range(run.ids[0], run.ids[0] + len(run.ids))]
            gone += run.ids
        else:
            batch = returned.take(most, UNLIMITED)
            assert batch.left == len(batch.ids) == len(batch.contents) <= most
            assert batch.contents == [b"%d" % number for number in batch.ids]
            assert batch.size == sum(len(content) for content in batch.contents if content is not None)
            gone += batch.ids
    assert gone == expected


def test_messages_that_come_back_one_after_the_other_are_one_run() -> None:
    returned = ReturnedMessages()
    put(returned, 7, 8, 9)
    put(returned, 3, 4, attempts=1)
    assert [run.ids for run in returned.runs()] == [range(3, 5), range(7, 10)]
    assert returned.in_a_row() == 2
    assert returned.take(9, UNLIMITED).ids == range(3, 5)
    put(returned, 5)
    put(returned, 10)  # behind nothing that came just before it
    assert returned.take(9, UNLIMITED).ids == [5, 7, 8, 9, 10]


def test_batch_that_comes_back_whole_is_not_copied() -> None:
    returned = ReturnedMessages()
    contents = [b"a", b"b"]
    returned.put(ReturnedRun(HEAD, contents, range(1, 3), 2, INF, 1))
    batch = returned.take(9, UNLIMITED)
    assert batch.contents is contents
    assert batch.ids == range(1, 3)


def test_batch_ends_where_traits_deadline_or_attempts_are_others() -> None:
    returned = ReturnedMessages()
    put(returned, 1)
    put(returned, 2, head=OTHER_HEAD)
    put(returned, 3, head=Head(traits=traits_of(persistent=True)))
    put(returned, 4, deadline=1.0)
    put(returned, 5, 6, deadline=1.0, attempts=1)
    put(returned, 7, deadline=1.0, attempts=2)
    taken = []
    while returned:
        taken.append(returned.take(9, UNLIMITED))
    assert [[*batch.ids] for batch in taken] == [[1, 2], [3], [4], [5, 6], [7]]
    assert [batch.redelivered for batch in taken] == [False, False, False, True, True]
    assert [batch.attempts for batch in taken] == [0, 0, 0, 1, 2]
    assert [batch.deadline for batch in taken] == [INF, INF, 1.0, 1.0, 1.0]


def test_limits_cut_a_batch_but_one_message_may_always_go() -> None:
    returned = ReturnedMessages()
    put(returned, 1, 2, 3, 400, 500)
    assert returned.take(2, UNLIMITED).ids == range(1, 3)
    assert [*returned.take(9, 3).ids] == [3]
    assert [*returned.take(9, 2).ids] == [400]
    assert returned.first_id == 500
