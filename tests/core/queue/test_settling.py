from triomq.core import Directory, Head, QueueOptions, QueueState
from triomq.core.queue.deadletter import Reason
from triomq.core.queue.settling import give_up, put_back


def holding(*bodies: bytes, **options: object) -> QueueState:
    state = QueueState("q", QueueOptions(**options), Directory("domain"))  # type: ignore[arg-type]
    state.backlog.push(Head(), bodies, sum(map(len, bodies)))
    return state


def ids(state: QueueState) -> list[int]:
    return [entry.id for entry in state.backlog.entries()]


def test_requeued_message_stands_in_its_place_marked() -> None:
    state = holding(b"1", b"22", b"3")
    batch = state.backlog.take(2, 100)
    assert put_back(state, batch, [1], marked=True) == (1, 2)
    assert ids(state) == [2, 3]
    assert [entry.attempts for entry in state.backlog.entries()] == [1, 0]
    assert put_back(state, batch, None, marked=False) == (1, 1)
    assert ids(state) == [1, 2, 3]
    assert [entry.attempts for entry in state.backlog.entries()] == [0, 1, 0]


def test_message_that_came_back_too_often_is_given_up() -> None:
    state = holding(b"1", b"22", delivery_limit=1)
    put_back(state, state.backlog.take(1, 100), None, marked=True)
    first = state.backlog.take(1, 100)
    assert put_back(state, first, None, marked=True) == (1, 1)
    assert ids(state) == [2]
    assert state.backlog.unsettled == 0
    statistics = state.statistics()
    assert (statistics.exhausted, statistics.rejected, statistics.dead_lettered) == (1, 0, 0)


def test_message_that_no_consumer_saw_is_not_counted() -> None:
    state = holding(b"1", delivery_limit=1)
    for _ in range(3):
        put_back(state, state.backlog.take(1, 100), None, marked=False)
    assert ids(state) == [1]


def test_message_given_up_counts_as_a_dead_letter_only_where_it_found_a_queue() -> None:
    state = holding(b"1", b"22", dead_letter_sink="nowhere")
    batch = state.backlog.take(2, 100)
    assert give_up(state, batch, [1, 1], Reason.REJECTED) == (1, 2)
    assert give_up(state, batch, None, Reason.REJECTED) == (1, 1)
    assert state.statistics().rejected == 2
    assert (state.backlog.unsettled, state.dead_lettered) == (0, 0)
