"""Errands from many threads to one loop."""

import threading
from functools import partial

from triomq.app.portal.lane import Errand, Lane


def test_errands_are_done_in_order_with_one_wake_up() -> None:
    woken: list[Errand] = []
    done: list[int] = []
    lane = Lane(woken.append)
    for number in range(3):
        lane.send(partial(done.append, number))
    assert len(woken) == 1
    assert done == []
    woken[0]()
    assert done == [0, 1, 2]


def test_what_an_errand_sends_is_done_at_the_next_wake_up() -> None:
    woken: list[Errand] = []
    done: list[str] = []
    lane = Lane(woken.append)
    lane.send(lambda: lane.send(lambda: done.append("second")))
    woken.pop()()
    assert done == []
    woken.pop()()
    assert done == ["second"]


def test_nothing_is_lost_when_many_threads_send_while_the_loop_works() -> None:
    ready = threading.Semaphore(0)
    woken: list[Errand] = []
    done: list[tuple[int, int]] = []

    def wake(arrive: Errand) -> None:
        woken.append(arrive)
        ready.release()

    lane = Lane(wake)

    def send(thread: int) -> None:
        for number in range(500):
            lane.send(lambda: done.append((thread, number)))  # noqa: B023
            threading.Event().wait(0) if number % 50 == 0 else None

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or woken:
        if ready.acquire(timeout=0.1):
            woken.pop()()
    for thread in threads:
        thread.join()
    assert len(done) == 2000
