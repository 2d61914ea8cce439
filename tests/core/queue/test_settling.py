from triomq.core import Directory, Head, QueueOptions, QueueState
from triomq.core.queue.deadletter import Reason
from triomq.core.queue.settling import give_up, put_back


def holding(*bodies: bytes, **options: object) -> QueueState:
    store = QueueState("q", QueueOptions(**options), Directory("domain"))  # type: ignore[arg-type]
    store.backlog.push(Head(), bodies, sum(map(len, bodies)))
    return store


def ids(store: QueueState) -> list[int]:
    return [entry.id for entry in store.backlog.entries()]


def test_what_is_put_back_stands_in_its_place_marked() -> None:
    store = holding(b"1", b"22", b"3")
    batch = store.backlog.take(2, 100)
    assert put_back(store, batch, [1], marked=True) == (1, 2)
    assert ids(store) == [2, 3]
    assert [entry.attempts for entry in store.backlog.entries()] == [1, 0]
    assert put_back(store, batch, None, marked=False) == (1, 1)
    assert ids(store) == [1, 2, 3]
    assert [entry.attempts for entry in store.backlog.entries()] == [0, 1, 0]


def test_what_came_back_too_often_is_given_up() -> None:
    store = holding(b"1", b"22", delivery_limit=1)
    put_back(store, store.backlog.take(1, 100), None, marked=True)
    first = store.backlog.take(1, 100)
    assert put_back(store, first, None, marked=True) == (1, 1)
    assert ids(store) == [2]
    assert store.backlog.unsettled == 0
    statistics = store.statistics()
    assert (statistics.exhausted, statistics.rejected, statistics.dead_lettered) == (1, 0, 0)


def test_what_nobody_saw_is_not_counted() -> None:
    store = holding(b"1", delivery_limit=1)
    for _ in range(3):
        put_back(store, store.backlog.take(1, 100), None, marked=False)
    assert ids(store) == [1]


def test_what_is_given_up_is_gone_and_counts_as_a_dead_letter_only_where_it_found_a_queue() -> None:
    store = holding(b"1", b"22", dead_letter_sink="nowhere")
    batch = store.backlog.take(2, 100)
    assert give_up(store, batch, [1, 1], Reason.REJECTED) == (1, 2)
    assert give_up(store, batch, None, Reason.REJECTED) == (1, 1)
    assert store.statistics().rejected == 2
    assert (store.backlog.unsettled, store.dead_lettered) == (0, 0)
