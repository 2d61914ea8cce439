"""Runs whose heads differ, in every kind of backlog: it answers as if each message had come alone."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Head, QueueMessage, traits_of
from triomq.core.backlog.run import RUN_LENGTH
from triomq.store import decode_body

from .test_contract import Subject
from .test_paged import Place

T = TypeVar("T")

TRAITS = traits_of(persistent=True)
HEADS = [
    Head("e", "a", traits=TRAITS),
    Head("e", "b", body_start=2, body_trailer=1, properties_stop=1, traits=TRAITS),
    Head("e", "c", body_start=1, traits=TRAITS),
    Head("e", "transient", traits=traits_of()),
]
MESSAGE = st.builds(QueueMessage, st.sampled_from(HEADS), st.integers(3, 60).map(bytes))
MESSAGES = st.lists(MESSAGE, min_size=1, max_size=12)
STEPS = st.sampled_from(["push", "push", "take", "take", "accept", "requeue", "drop", "work", "crash"])
KINDS = [
    "memory",
    "priority",
    "paged durable",
    "paged transient",
    "paged-priority durable",
    "paged-priority transient",
]


class Pair:
    """Two backlogs of one kind: the one gets runs, the other each of their messages alone."""

    def __init__(self, kind: str) -> None:
        self.together, self.alone = Subject(kind), Subject(kind)

    def push(self, messages: list[QueueMessage], level: int) -> None:
        level = level if hasattr(self.alone.backlog, "highest") else 0
        for message in messages:
            self.alone.backlog.push(message.head, [message.content], len(message.content), level=level)
        start = 0
        while start < len(messages):
            stop, traits = start + 1, messages[start].head.traits
            while stop < len(messages) and messages[stop].head.traits is traits:
                stop += 1
            run = messages[start:stop]
            heads, contents = [each.head for each in run], [each.content for each in run]
            self.together.backlog.push(heads[0], contents, sum(map(len, contents)), level=level, heads=heads)
            start = stop

    def both(self, ask: Callable[[Subject], T]) -> T:
        """Ask both, and see that they answer the same."""
        one, other = ask(self.together), ask(self.alone)
        assert one == other
        return one

    def check(self) -> None:
        self.both(lambda each: (each.backlog.ready, each.backlog.unsettled))
        assert self.together.backlog.ready_bytes == self.alone.backlog.ready_bytes
        self.both(lambda each: [(entry.id, entry.attempts, entry.message) for entry in each.browse(5)])


def take(subject: Subject, most: int) -> list[tuple[int, bool, QueueMessage]]:
    """Take so many messages, in as many batches as it takes, and leave them unsettled."""
    found: list[tuple[int, bool, QueueMessage]] = []
    while len(found) < most and subject.backlog.ready:
        batch = subject.take(most - len(found))
        messages = [batch.message(position) for position in range(batch.left)]
        assert [batch.head_at(position) for position in range(batch.left)] == [message.head for message in messages]
        assert {message.head.traits for message in messages} == {batch.head.traits}
        found += zip(batch.ids, [batch.redelivered] * batch.left, messages, strict=True)
    return found


def settle(subject: Subject, numbers: list[int], *, requeue: bool) -> tuple[int, int]:
    """Accept or requeue messages by their ids."""
    count, total = 0, 0
    for batch in subject.backlog.outstanding():
        positions = [position for position, number in enumerate(batch.ids) if number in numbers]
        if positions:
            done = (subject.backlog.requeue if requeue else subject.backlog.accept)(batch, positions)
            count, total = count + done[0], total + done[1]
    return count, total


def drop(subject: Subject, most: int) -> list[QueueMessage]:
    """Drop resident messages from the front, as a queue does that is too full."""
    dropped: list[QueueMessage] = []
    while len(dropped) < most and subject.backlog.ready:
        subject.fetch()
        level = subject.backlog.lowest_level
        messages = list(subject.backlog.first(most - len(dropped), level).messages())
        subject.backlog.drop(len(messages), level)
        dropped += messages
    return dropped


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_run_whose_heads_differ_is_as_its_messages_alone(kind: str, data: st.DataObject) -> None:
    pair = Pair(kind)
    out: set[int] = set()
    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(STEPS)
        if what == "push":
            pair.push(data.draw(MESSAGES), data.draw(st.integers(0, 1)))
        elif what == "take":
            most = data.draw(st.integers(1, 9))
            out.update(number for number, _, _ in pair.both(lambda each: take(each, most)))  # noqa: B023  # called at once
        elif what in ("accept", "requeue") and out:
            some = data.draw(st.lists(st.sampled_from(sorted(out)), unique=True))
            pair.both(lambda each: settle(each, some, requeue=what == "requeue"))  # noqa: B023  # called at once
            out.difference_update(some)
        elif what == "drop":
            most = data.draw(st.integers(1, 4))
            pair.both(lambda each: drop(each, most))  # noqa: B023  # called at once
        elif what == "work":
            pair.together.work()
            pair.alone.work()
        elif what == "crash":
            for each in (pair.together, pair.alone):
                for batch in each.backlog.outstanding():
                    each.backlog.requeue(batch)
            out.clear()
        pair.check()


@pytest.mark.parametrize("memory", [1 << 20, 100])
def test_run_whose_heads_differ_is_one_record_and_comes_back_after_a_restart(memory: int) -> None:
    place = Place(memory)
    heads = [HEADS[number % 3] for number in range(50)]
    contents = [b"%03d" % number for number in range(50)]
    place.backlog.push(heads[0], contents, 150, heads=heads)
    place.disk.work()
    (segment,) = place.store._queues[1].segments.values()
    assert [run.contents for run in decode_body(segment.body)] == [contents]
    batch = place.take(2)
    place.backlog.accept(batch, [0])
    place.live_again()
    taken: list[tuple[int, bool, QueueMessage]] = []
    while place.backlog.ready:
        place.fetch()
        batch = place.take()
        taken += [(batch.ids[at], batch.redelivered, batch.message(at)) for at in range(batch.left)]
    messages = list(map(QueueMessage, heads, contents))
    assert taken == [(number, number == 2, messages[number - 1]) for number in range(2, 51)]


def test_runs_whose_heads_differ_are_joined_up_to_a_length() -> None:
    subject = Subject("memory")
    for number in range(RUN_LENGTH + 10):
        subject.push(b"x", head=HEADS[number % 3])
    batch = subject.take(RUN_LENGTH + 10)
    assert (batch.left, batch.head) == (RUN_LENGTH, HEADS[0])
    assert batch.heads == [HEADS[number % 3] for number in range(RUN_LENGTH)]


def test_traits_that_are_equal_are_the_same_object() -> None:
    assert traits_of(publisher=4, persistent=True) is traits_of(persistent=True, publisher=4)
    assert traits_of(publisher=4) is not traits_of(publisher=5)
    assert msgspec.structs.replace(TRAITS, publisher=0) == TRAITS
