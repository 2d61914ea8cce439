import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head
from triomq.core.backlog import MemoryBacklog

from ..harness import HEAD, OTHER_HEAD

UNLIMITED = 1 << 62


def push(backlog: MemoryBacklog, *contents: bytes, head: Head = HEAD) -> None:
    backlog.push(head, contents, sum(map(len, contents)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda backlog: backlog.take(1, 1),
        MemoryBacklog.next_size,
        MemoryBacklog.next_head,
        lambda backlog: backlog.first(1),
    ],
)
def test_empty_index_has_nothing_to_give(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(IndexError, match=r"look at Backlog\.resident first"):
        ask(MemoryBacklog())


def test_runs_of_one_head_are_merged_and_go_out_together() -> None:
    backlog = MemoryBacklog()
    for _ in range(10):
        push(backlog, b"a", b"b")
    assert backlog.take(100, UNLIMITED).left == 20


def test_messages_of_different_heads_go_out_apart() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a")
    push(backlog, b"b", head=OTHER_HEAD)
    assert backlog.take(9, UNLIMITED).head is HEAD
    assert backlog.take(9, UNLIMITED).head is OTHER_HEAD


def test_message_larger_than_allowed_goes_alone() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"large", b"s")
    assert backlog.take(9, 3).contents == [b"large"]


def test_cards_are_dealt_message_by_message() -> None:
    backlog = MemoryBacklog()
    push(backlog, *(bytes([number]) for number in range(1, 8)))
    first, second = backlog.take_turns(2, 3)
    assert (list(first.ids), list(second.ids)) == ([1, 3, 5], [2, 4, 6])
    assert backlog.ready == 1


def test_returned_messages_cannot_be_dealt() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    backlog.requeue(backlog.take(1, 1))
    assert backlog.run_length == 0
    assert backlog.next_size() == 1


def test_returned_message_that_is_handed_out_again_does_not_hide_the_rest_of_its_batch() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    batch = backlog.take(2, UNLIMITED)
    backlog.requeue(batch, [0])
    again = backlog.take(1, UNLIMITED)
    assert list(again.ids) == [1]
    assert backlog.holds(batch)
    assert backlog.accept(batch) == (1, 1)
    assert backlog.accept(again) == (1, 1)


def test_accepting_the_rest_of_a_batch_does_not_unmark_what_came_back_from_it() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    backlog.requeue(backlog.take(2, UNLIMITED))
    batch = backlog.take(2, UNLIMITED)
    assert batch.redelivered
    backlog.requeue(batch, [0])
    backlog.accept(batch)
    again = backlog.take(1, 1)
    assert (again.redelivered, again.attempts) == (True, 2)


def test_position_named_twice_counts_once() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    batch = backlog.take(2, UNLIMITED)
    assert backlog.requeue(batch, [0, 0]) == (1, 1)
    assert backlog.accept(batch, [1, 1]) == (1, 1)
    assert (backlog.ready, backlog.unsettled) == (1, 0)


def test_message_that_was_never_sent_comes_back_unmarked() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a")
    backlog.requeue(backlog.take(1, 1), marked=False)
    assert not backlog.take(1, 1).redelivered


def test_marked_and_unmarked_messages_go_out_apart() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    batch = backlog.take(2, UNLIMITED)
    backlog.requeue(batch, [0], marked=True)
    backlog.requeue(batch, [1], marked=False)
    assert [backlog.take(2, UNLIMITED).redelivered for _ in range(2)] == [True, False]


def test_purge_leaves_what_is_out() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a", b"b")
    batch = backlog.take(1, 1)
    assert backlog.purge([]) == 1
    assert (backlog.ready, backlog.ready_bytes, backlog.unsettled) == (0, 0, 1)
    backlog.requeue(batch)
    assert [entry.id for entry in backlog.entries()] == [1]


def test_run_without_messages_is_nothing() -> None:
    backlog = MemoryBacklog()
    push(backlog)
    push(backlog, b"a", head=OTHER_HEAD)
    assert backlog.take(1, 1).contents == [b"a"]


def test_ids_are_never_used_again() -> None:
    backlog = MemoryBacklog()
    push(backlog, b"a")
    backlog.purge([])
    push(backlog, b"b")
    assert list(backlog.take(1, 1).ids) == [2]


@given(st.lists(st.integers(1, 700), min_size=1, max_size=5), st.lists(st.integers(1, 900), min_size=1, max_size=5))
def test_long_runs_leave_in_order_however_they_are_cut(pushes: list[int], takes: list[int]) -> None:
    backlog = MemoryBacklog()
    for count in pushes:
        push(backlog, *[b"x"] * count)
    ids: list[int] = []
    while backlog.ready:
        ids += backlog.take(takes[len(ids) % len(takes)], UNLIMITED).ids
    assert ids == list(range(1, sum(pushes) + 1))


def test_idle_index_holds_no_container() -> None:
    backlog = MemoryBacklog()
    containers = (backlog._runs, backlog._returned, backlog._outstanding)
    assert containers == (None,) * 3
