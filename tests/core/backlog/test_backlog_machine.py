"""Backlogs in memory beside a model: one level or several, through everything that a queue does to them."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from triomq.core import Batch, Head, traits_of
from triomq.core.backlog import MemoryBacklog, PriorityBacklog

from ..harness import HEAD, OTHER_HEAD

# Heads with and without octets around the body.
HEADS = [HEAD, OTHER_HEAD, Head(body_start=1, body_trailer=1)]
REPEATED_HEADS = [Head(traits=traits_of(repeated=True)), Head("e", "k", body_start=2, traits=traits_of(repeated=True))]
SIZES = st.integers(2, 9).map(bytes)
RUNS = st.sampled_from([HEADS, REPEATED_HEADS]).flatmap(
    lambda heads: st.lists(st.tuples(st.sampled_from(heads), SIZES), max_size=8)
)


class BacklogMachine(RuleBasedStateMachine):
    """A backlog beside a model of it: a dict of all ready messages, a dict of all unsettled ones."""

    batches = Bundle("batches")
    backlog: MemoryBacklog | PriorityBacklog

    def __init__(self) -> None:
        super().__init__()
        self.next_id = 1
        self.ready: dict[int, tuple[Head, bytes]] = {}
        self.out: dict[int, tuple[Head, bytes]] = {}
        self.attempts: dict[int, int] = {}
        self.levels: dict[int, int] = {}

    @initialize(highest=st.sampled_from([0, 0, 3]))
    def begin(self, highest: int) -> None:
        self.highest = highest
        self.backlog = PriorityBacklog(highest) if highest else MemoryBacklog()

    def order(self) -> list[int]:
        return sorted(self.ready, key=lambda number: (-self.levels[number], number))

    def check_and_move(self, batch: Batch, expected: Sequence[int]) -> None:
        assert list(batch.ids) == list(expected)
        assert batch.left == len(expected)
        assert batch.contents == [self.ready[number][1] for number in expected]
        heads = [batch.head_at(position) for position in range(len(expected))]
        assert heads == [self.ready[number][0] for number in expected]
        assert heads[0] is batch.head
        assert {head.traits for head in heads} == {batch.head.traits}
        assert {self.levels[number] for number in expected} == {batch.level}
        assert batch.size == sum(len(self.ready[number][1]) for number in expected)
        attempts = {self.attempts.get(number, 0) for number in expected}
        assert attempts == {batch.attempts}
        assert batch.redelivered is bool(batch.attempts or batch.head.traits.repeated)
        for number in expected:
            self.out[number] = self.ready.pop(number)

    @rule(run=RUNS, level=st.integers(0, 5))
    def push(self, run: list[tuple[Head, bytes]], level: int) -> None:
        heads, contents = [head for head, _ in run], [content for _, content in run]
        alike = len(set(heads)) < 2
        self.backlog.push(
            heads[0] if run else HEAD,
            contents,
            sum(map(len, contents)),
            level=level if self.highest else 0,
            heads=None if alike else tuple(heads),
        )
        for head, content in run:
            self.levels[self.next_id] = min(level, self.highest)
            self.ready[self.next_id] = (head, content)
            self.next_id += 1

    @precondition(lambda self: self.ready)
    @rule(target=batches, most=st.integers(1, 12), most_bytes=st.integers(0, 40))
    def take(self, most: int, most_bytes: int) -> Batch:
        expected = self.order()
        batch = self.backlog.take(most, most_bytes)
        assert batch.left == 1 or (batch.left <= most and batch.size <= most_bytes)
        self.check_and_move(batch, expected[: batch.left])
        return batch

    @precondition(lambda self: self.backlog.run_length)
    @rule(target=batches, feeds=st.integers(1, 5), rounds=st.integers(1, 3), data=st.data())
    def take_turns(self, feeds: int, rounds: int, data: st.DataObject) -> Batch:
        batches = self.backlog.take_turns(feeds, rounds)
        count = sum(batch.left for batch in batches)
        dealt = self.order()[:count]
        assert len(batches) == min(feeds, count)
        assert count <= feeds * rounds
        for first, batch in enumerate(batches):
            self.check_and_move(batch, dealt[first :: len(batches)])
        chosen = data.draw(st.sampled_from(batches))
        for batch in batches:
            if batch is not chosen:
                self.requeue_all(batch)
        return chosen

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
    def accept_the_rest(self, batch: Batch) -> None:
        assert self.backlog.holds(batch) is bool(batch.left)
        assert (batch in self.backlog.outstanding()) is bool(batch.left)
        if batch.left:
            for number in self.settled(batch, None):
                del self.out[number]
                self.attempts.pop(number, None)
            self.backlog.accept(batch)

    @precondition(lambda self: self.ready)
    @rule(most=st.integers(1, 4))
    def drop_the_least_urgent(self, most: int) -> None:
        level = self.backlog.lowest_level
        assert level == min(self.levels[number] for number in self.ready)
        messages = list(self.backlog.first(most, level).messages())
        assert 1 <= len(messages) <= most
        going = [number for number in sorted(self.ready) if self.levels[number] == level][: len(messages)]
        assert list(self.backlog.drop(len(messages), level)) == going
        for number, message in zip(going, messages, strict=True):
            assert (message.head, message.content) == self.ready.pop(number)
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
    def counts_match_the_model(self) -> None:
        backlog, ready = self.backlog, self.ready
        assert backlog.ready == len(ready)
        assert backlog.unsettled == len(self.out) == sum(batch.left for batch in backlog.outstanding())
        assert backlog.ready_bytes == sum(len(content) - head.overhead for head, content in ready.values())
        for entry in backlog.entries():
            assert entry.attempts == self.attempts.get(entry.id, 0)

    @invariant()
    def ready_messages_are_in_order(self) -> None:
        order = self.order()
        assert [(entry.id, entry.message.head, entry.message.content) for entry in self.backlog.entries()] == [
            (number, *self.ready[number]) for number in order
        ]
        assert [entry.attempts for entry in self.backlog.entries()] == [
            self.attempts.get(number, 0) for number in order
        ]
        middle = self.backlog.next_id // 2
        assert [entry.id for entry in self.backlog.entries(middle)] == [n for n in order if n > middle]
        if order:
            assert self.backlog.next_size() == len(self.ready[order[0]][1])
            assert self.backlog.next_head() is self.ready[order[0]][0]
            assert self.backlog.next_level == self.levels[order[0]]


TestBacklogMachine = BacklogMachine.TestCase
TestBacklogMachine.settings = settings(stateful_step_count=40, max_examples=max(200, settings().max_examples))
