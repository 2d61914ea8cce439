import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head
from triomq.core.backlog import MemoryBacklog

from ..harness import HEAD

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
