"""One task that watches many descriptors."""

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import trio
import trio.testing

from triomq.transports import Poller


@pytest.fixture
async def poller(nursery: trio.Nursery) -> Poller:
    poller = Poller()
    nursery.start_soon(_run, poller)
    return poller


async def _run(poller: Poller) -> None:
    try:
        await poller.run()
    finally:
        poller.close()


@pytest.fixture
def pair() -> Iterator[Callable[[], tuple[socket.socket, socket.socket]]]:
    """Make connected, non-blocking sockets, which are closed after the test."""
    with ExitStack() as stack:

        def make() -> tuple[socket.socket, socket.socket]:
            ours, theirs = socket.socketpair()
            for one in (ours, theirs):
                stack.enter_context(one)
                one.setblocking(False)
            return ours, theirs

        yield make


Pair = Callable[[], tuple[socket.socket, socket.socket]]


async def idle() -> None:
    """Let real sockets become ready and all tasks come to rest."""
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_descriptor_that_is_ready_calls_its_function(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    received: list[bytes] = []
    poller.add(ours.fileno(), select.EPOLLIN, lambda events: received.append(ours.recv(100)))
    theirs.send(b"one")
    await idle()
    theirs.send(b"two")
    await idle()
    assert received == [b"one", b"two"]


async def test_descriptor_is_called_again_as_long_as_it_is_ready(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    received: list[bytes] = []
    poller.add(ours.fileno(), select.EPOLLIN, lambda events: received.append(ours.recv(1)))
    theirs.send(b"abc")
    await idle()
    assert received == [b"a", b"b", b"c"]


async def test_watched_events_may_change(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    received: list[int] = []

    def ready(events: int) -> None:
        received.append(events)
        poller.change(ours.fileno(), 0)

    poller.add(ours.fileno(), select.EPOLLIN, ready)
    theirs.send(b"x")
    await idle()
    assert received == [select.EPOLLIN]
    poller.change(ours.fileno(), select.EPOLLOUT)
    await idle()
    assert received == [select.EPOLLIN, select.EPOLLOUT]


async def test_descriptor_that_was_removed_is_left_alone_and_may_come_again(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    received: list[int] = []
    poller.add(ours.fileno(), select.EPOLLIN, received.append)
    poller.remove(ours.fileno())
    poller.remove(ours.fileno())
    theirs.send(b"x")
    await idle()
    assert received == []
    poller.add(ours.fileno(), select.EPOLLIN, lambda events: poller.remove(ours.fileno()) or received.append(events))
    await idle()
    assert received == [select.EPOLLIN]


async def test_descriptor_that_another_ones_turn_removed_is_not_served(poller: Poller, pair: Pair) -> None:
    pairs = [pair() for _ in range(2)]
    served: list[int] = []

    def serve(descriptor: int, other: int) -> Callable[[int], None]:
        def ready(events: int) -> None:
            served.append(descriptor)
            poller.remove(descriptor)
            poller.remove(other)

        return ready

    first, second = (ours.fileno() for ours, _ in pairs)
    poller.add(first, select.EPOLLIN, serve(first, second))
    poller.add(second, select.EPOLLIN, serve(second, first))
    for _, theirs in pairs:
        theirs.send(b"x")
    await idle()
    assert len(served) == 1


async def test_none_waits_behind_a_busy_one(poller: Poller, pair: Pair) -> None:
    quiet = [pair() for _ in range(20)]
    busy, talker = pair()
    order: list[str] = []

    def receive(one: socket.socket) -> Callable[[int], None]:
        return lambda events: order.append(one.recv(100).decode())

    def stay_busy(events: int) -> None:
        busy.recv(1)
        order.append("busy")
        if order.count("busy") < 500:
            talker.send(b"x")  # it is ready again at once

    poller.add(busy.fileno(), select.EPOLLIN, stay_busy)
    talker.send(b"x")
    for number, (ours, theirs) in enumerate(quiet):
        poller.add(ours.fileno(), select.EPOLLIN, receive(ours))
        theirs.send(f"quiet {number}".encode())
    await idle()
    last = max(position for position, name in enumerate(order) if name != "busy")
    assert order.count("busy") == 500
    assert len(order) == 520
    assert last < 40


async def test_other_tasks_have_their_turn_while_sockets_stay_ready(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    theirs.send(b"x")  # never read: always ready
    served = 0

    def ready(events: int) -> None:
        nonlocal served
        served += 1

    poller.add(ours.fileno(), select.EPOLLIN, ready)
    for _ in range(20):
        await trio.lowlevel.checkpoint()
    seen = served
    assert seen
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    assert served > seen
    poller.remove(ours.fileno())


async def test_hang_up_is_reported_whatever_is_watched_for(poller: Poller, pair: Pair) -> None:
    ours, theirs = pair()
    received: list[int] = []

    def ready(events: int) -> None:
        received.append(events)
        poller.remove(ours.fileno())

    poller.add(ours.fileno(), select.EPOLLIN, ready)
    theirs.close()
    await idle()
    assert received[0] & select.EPOLLHUP


async def test_error_of_a_function_ends_the_poller(pair: Pair) -> None:
    ours, theirs = pair()
    poller = Poller()

    def ready(events: int) -> None:
        raise ValueError("its driver has to see to that")

    poller.add(ours.fileno(), select.EPOLLIN, ready)
    theirs.send(b"x")
    with pytest.raises(ValueError, match="its driver"):
        await poller.run()
    poller.close()


async def test_the_set_is_closed_with_the_poller() -> None:
    before = len(os.listdir("/proc/self/fd"))
    poller = Poller()
    with trio.move_on_after(0):
        await poller.run()
    poller.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_other_tasks_run_though_sockets_are_ready_again_and_again(poller: Poller, pair: Pair) -> None:
    """An echo that answers soon keeps the poller awake, but not to itself."""
    ours, theirs = pair()
    theirs.setblocking(True)
    rounds = 0

    def answer(events: int) -> None:
        nonlocal rounds
        rounds += 1
        ours.send(ours.recv(1))

    def echo() -> None:
        for _ in range(ECHOES):
            theirs.send(b"x")
            theirs.recv(1)

    poller.add(ours.fileno(), select.EPOLLIN, answer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, echo)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert rounds < ECHOES
        while rounds < ECHOES:
            await trio.lowlevel.checkpoint()
    poller.remove(ours.fileno())


ECHOES = 10_000


async def test_socket_that_gave_little_work_goes_before_one_that_gave_much(pair: Pair, nursery: trio.Nursery) -> None:
    """Something comes on a quiet socket while each busy one is served; what is busy shows when it was served once."""
    now = 0.0
    served: list[str] = []
    sockets = {name: pair() for name in ("a", "b", "quiet")}
    done = trio.Event()

    def clock() -> float:
        nonlocal now
        now += 1e-6
        return now

    def serve(name: str) -> Callable[[int], None]:
        def ready(events: int) -> None:
            nonlocal now
            sockets[name][0].recv(1)
            served.append(name)
            if name != "quiet":
                now += 0.001
                sockets["quiet"][1].send(b"q")
                if served.count("a") + served.count("b") == 8:
                    done.set()

        return ready

    poller = Poller(clock)
    for name, (ours, theirs) in sockets.items():
        theirs.send(b"" if name == "quiet" else b"xxxx")
        poller.add(ours.fileno(), select.EPOLLIN, serve(name))
    nursery.start_soon(_run, poller)
    with trio.fail_after(60):
        await done.wait()
    assert "".join(name[0] for name in served[3:]).startswith("qaqbqaqbqaqb")
    for ours, _ in sockets.values():
        poller.remove(ours.fileno())
