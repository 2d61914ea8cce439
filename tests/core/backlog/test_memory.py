from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from triomq.core import Batch, Head
from triomq.core.backlog import MemoryBacklog

from ..harness import HEAD, OTHER_HEAD

# Heads with and without octets around the body.
HEADS = st.sampled_from([HEAD, OTHER_HEAD, Head(body_start=1, body_trailer=1)])
RUNS = st.lists(st.integers(2, 9).map(bytes), max_size=8)
UNLIMITED = 1 << 62


def push(backlog: MemoryBacklog, *contents: bytes, head: Head = HEAD) -> None:
    backlog.push(head, contents, sum(map(len, contents)))


def taken(batch: Batch) -> dict[int, bytes | None]:
    return dict(zip(batch.ids, batch.contents, strict=True))


class IndexMachine(RuleBasedStateMachine):
    """A backlog beside a model of it: a dict of all that is ready, a dict of all that is out."""

    batches = Bundle("batches")

    def __init__(self) -> None:
        super().__init__()
        self.backlog = MemoryBacklog()
        self.next_id = 1
        self.ready: dict[int, tuple[Head, bytes]] = {}
        self.out: dict[int, tuple[Head, bytes]] = {}
        self.attempts: dict[int, int] = {}

    def check_and_move(self, batch: Batch, expected: Sequence[int]) -> None:
        assert list(batch.ids) == list(expected)
        assert batch.left == len(expected)
        assert taken(batch) == {number: self.ready[number][1] for number in expected}
        assert {self.ready[number][0] for number in expected} == {batch.head}
        assert batch.size == sum(len(self.ready[number][1]) for number in expected)
        assert {bool(self.attempts.get(number)) for number in expected} == {batch.redelivered}
        for number in expected:
            self.out[number] = self.ready.pop(number)

    @rule(head=HEADS, contents=RUNS)
    def push(self, head: Head, contents: list[bytes]) -> None:
        push(self.backlog, *contents, head=head)
        for content in contents:
            self.ready[self.next_id] = (head, content)
            self.next_id += 1

    @precondition(lambda self: self.ready)
    @rule(target=batches, most=st.integers(1, 12), most_bytes=st.integers(0, 40))
    def take(self, most: int, most_bytes: int) -> Batch:
        batch = self.backlog.take(most, most_bytes)
        assert batch.left == 1 or (batch.left <= most and batch.size <= most_bytes)
        self.check_and_move(batch, sorted(self.ready)[: batch.left])
        return batch

    @precondition(lambda self: self.backlog.run_length)
    @rule(target=batches, feeds=st.integers(1, 5), rounds=st.integers(1, 3), data=st.data())
    def take_turns(self, feeds: int, rounds: int, data: st.DataObject) -> Batch:
        batches = self.backlog.take_turns(feeds, rounds)
        count = sum(batch.left for batch in batches)
        dealt = sorted(self.ready)[:count]
        assert len(batches) == min(feeds, count)
        assert count <= feeds * rounds
        for seat, batch in enumerate(batches):
            self.check_and_move(batch, dealt[seat :: len(batches)])
        kept = data.draw(st.sampled_from(batches))
        for batch in batches:
            if batch is not kept:
                self.requeue_all(batch)
        return kept

    def requeue_all(self, batch: Batch) -> None:
        for number in batch.ids:
            self.ready[number] = self.out.pop(number)
            self.attempts[number] = self.attempts.get(number, 0) + 1
        self.backlog.requeue(batch)

    @rule(batch=batches, data=st.data(), marked=st.booleans())
    def requeue_some(self, batch: Batch, data: st.DataObject, marked: bool) -> None:
        positions = self.some(batch, data)
        if self.backlog.holds(batch):
            expected = self.settled(batch, positions)
            for number in expected:
                self.ready[number] = self.out.pop(number)
                if marked:
                    self.attempts[number] = self.attempts.get(number, 0) + 1
            size = sum(len(self.ready[number][1]) for number in expected)
            assert self.backlog.requeue(batch, positions, marked=marked) == (len(expected), size)

    @rule(batch=batches, data=st.data())
    def accept_some(self, batch: Batch, data: st.DataObject) -> None:
        positions = self.some(batch, data)
        if self.backlog.holds(batch):
            expected = self.settled(batch, positions)
            size = sum(len(self.out.pop(number)[1]) for number in expected)
            for number in expected:
                self.attempts.pop(number, None)
            assert self.backlog.accept(batch, positions) == (len(expected), size)

    @rule(target=batches, batch=batches, data=st.data())
    def set_aside(self, batch: Batch, data: st.DataObject) -> Batch | MultipleResults[Batch]:
        positions = batch.unsettled() if self.backlog.holds(batch) else []
        if not positions:
            return multiple()
        position = data.draw(st.sampled_from(positions))
        number, left = batch.ids[position], batch.left
        alone = self.backlog.set_aside(batch, position)
        self.attempts[number] = self.attempts.get(number, 0) + 1
        assert (batch.left, alone.left, alone.ids[0], alone.redelivered) == (left - 1, 1, number, True)
        return alone

    def some(self, batch: Batch, data: st.DataObject) -> list[int] | None:
        if not batch.contents:
            return None
        return data.draw(st.none() | st.lists(st.sampled_from(range(len(batch.contents)))))

    def settled(self, batch: Batch, positions: list[int] | None) -> list[int]:
        wanted = range(len(batch.contents)) if positions is None else sorted(set(positions))
        return [batch.ids[position] for position in wanted if batch.contents[position] is not None]

    @rule(batch=consumes(batches))
    def a_batch_is_held_as_long_as_anything_of_it_is_out(self, batch: Batch) -> None:
        assert self.backlog.holds(batch) is bool(batch.left)
        assert (batch in self.backlog.outstanding()) is bool(batch.left)
        if batch.left:
            for number in self.settled(batch, None):
                del self.out[number]
                self.attempts.pop(number, None)
            self.backlog.accept(batch)

    @precondition(lambda self: self.ready)
    @rule(most=st.integers(1, 4))
    def drop_what_is_first(self, most: int) -> None:
        head, contents = self.backlog.first(most)
        assert 1 <= len(contents) <= most
        self.backlog.drop(len(contents))
        for number, content in zip(sorted(self.ready), contents, strict=False):
            assert (head, content) == self.ready.pop(number)
            self.attempts.pop(number, None)

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        up_to = data.draw(st.integers(0, self.backlog.next_id))
        going = [number for number in self.ready if number <= up_to]
        assert self.backlog.discard(up_to) == len(going)
        for number in going:
            del self.ready[number]
            self.attempts.pop(number, None)

    @rule()
    def purge(self) -> None:
        assert self.backlog.purge([]) == len(self.ready)
        for number in self.ready:
            self.attempts.pop(number, None)
        self.ready.clear()

    @invariant()
    def the_counts_are_right(self) -> None:
        backlog, ready = self.backlog, self.ready
        assert backlog.ready == len(ready)
        assert backlog.unsettled == len(self.out) == sum(batch.left for batch in backlog.outstanding())
        assert backlog.ready_bytes == sum(len(content) - head.overhead for head, content in ready.values())
        for entry in backlog.entries():
            assert entry.attempts == self.attempts.get(entry.id, 0)

    @invariant()
    def ready_messages_stand_in_the_order_of_their_ids(self) -> None:
        assert [(entry.id, entry.message.head, entry.message.content) for entry in self.backlog.entries()] == [
            (number, *self.ready[number]) for number in sorted(self.ready)
        ]
        assert [entry.attempts for entry in self.backlog.entries()] == [
            self.attempts.get(number, 0) for number in sorted(self.ready)
        ]
        middle = self.backlog.next_id // 2
        assert [entry.id for entry in self.backlog.entries(middle)] == sorted(n for n in self.ready if n > middle)
        if self.ready:
            assert self.backlog.next_size() == len(self.ready[min(self.ready)][1])
            assert self.backlog.next_head() is self.ready[min(self.ready)][0]


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(stateful_step_count=40)


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
