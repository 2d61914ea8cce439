from math import inf

from core.harness import HEAD
from triomq.core import Head, Publish, QueueState
from triomq.core.queue.delay import Delayed, DelayedRun
from triomq.store import DelayedFound


def delayed(state: QueueState, *contents: bytes, delay: float) -> None:
    state.ref.tell_nowait(Publish(HEAD, list(contents), sum(map(len, contents)), None, 0, delay))


def test_runs_become_due_by_time_and_then_by_arrival() -> None:
    waiting = Delayed()
    runs = [DelayedRun(Head(), [b"x"], 1) for _ in range(3)]
    for run, due in zip(runs, [2.0, 1.0, 2.0], strict=True):
        waiting.push(run, due)
    assert (waiting.count, waiting.next_due) == (3, 1.0)
    assert waiting.take_due(0.5) is None
    assert [waiting.take_due(2.0) for _ in range(4)] == [runs[1], runs[0], runs[2], None]
    assert (waiting.count, waiting.next_due) == (0, inf)


def test_delayed_messages_still_to_be_read_count_until_they_come_or_are_purged() -> None:
    waiting = Delayed()
    for number in (3, 5):
        waiting.expect(DelayedFound(1, number, 9.0, 2, 20))
    assert (waiting.count, waiting.size, waiting.last_number, waiting.next_due) == (4, 0, 5, inf)
    assert waiting.numbers() == [3, 5]
    assert waiting.arrive(3)
    assert not waiting.arrive(3)
    assert waiting.count == 2
    waiting.push(DelayedRun(Head(), [b"x", b"y"], 2, 3), 1.0)
    assert waiting.numbers() == [5, 3]
    assert waiting.purge() == 4
    assert not waiting.arrive(5)
    assert (waiting.count, waiting.numbers()) == (0, [])
