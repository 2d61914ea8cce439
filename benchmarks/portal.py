"""What it costs to reach a broker from asyncio and from threads, against the same in Trio.

    python benchmarks/portal.py

Each figure is the time for one message: published, consumed through an open feed, settled. "As a guest" is the other
way to bring Trio to asyncio: both loops in one thread; it is measured here to show what the choice of a thread costs.
"""

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
from outcome import Outcome

from triomq import Broker, Delivery, QueueHandle, open_asyncio_broker, open_blocking_broker, open_broker

T = TypeVar("T")

ROUNDS = 1_000
ROUND_TRIPS: dict[str, list[float]] = {}
BACKLOGS: dict[str, float] = {}


async def in_trio() -> None:
    """Measure with no portal at all."""
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        times = ROUND_TRIPS.setdefault("in Trio itself", [])
        async with queue.open_feed() as feed:
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await broker.publish("", "q", b"x")
                (await anext(feed)).accept()
                times.append(time.perf_counter() - began)
        for _ in range(ROUNDS):
            await broker.publish("", "q", b"x")
        began = time.perf_counter()
        async with queue.open_feed() as feed:
            for _ in range(ROUNDS):
                (await anext(feed)).accept()
        BACKLOGS["in Trio itself"] = (time.perf_counter() - began) / ROUNDS


async def in_asyncio() -> None:
    """Measure through the portal for asyncio."""
    async with open_asyncio_broker() as broker:
        queue = await broker.declare_queue("q")
        times = ROUND_TRIPS.setdefault("asyncio, through the portal", [])
        async with queue.open_feed() as feed:
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await broker.publish("", "q", b"x")
                (await anext(feed)).accept()
                times.append(time.perf_counter() - began)
        for _ in range(ROUNDS):
            await broker.publish("", "q", b"x")
        began = time.perf_counter()
        async with queue.open_feed() as feed:
            for _ in range(ROUNDS):
                (await anext(feed)).accept()
        BACKLOGS["asyncio, through the portal"] = (time.perf_counter() - began) / ROUNDS


def in_a_thread() -> None:
    """Measure through the portal for threads."""
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        times = ROUND_TRIPS.setdefault("a thread, through the portal", [])
        with queue.open_feed() as feed:
            deliveries = iter(feed)
            for _ in range(ROUNDS):
                began = time.perf_counter()
                broker.publish("", "q", b"x")
                next(deliveries).accept()
                times.append(time.perf_counter() - began)
        for _ in range(ROUNDS):
            broker.publish("", "q", b"x")
        began = time.perf_counter()
        with queue.open_feed() as feed:
            deliveries = iter(feed)
            for _ in range(ROUNDS):
                next(deliveries).accept()
        BACKLOGS["a thread, through the portal"] = (time.perf_counter() - began) / ROUNDS


class Guest:
    """A broker in Trio as a guest of the running asyncio loop: the least that the measurement needs."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[tuple[Broker, trio.Nursery]] = self.loop.create_future()
        self.done: asyncio.Future[Outcome[None]] = self.loop.create_future()
        self.leave = trio.Event()
        self.arrived: deque[Delivery] = deque()
        self.waiter: asyncio.Future[None] | None = None
        trio.lowlevel.start_guest_run(
            self.run,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self.loop.call_soon,
            done_callback=self.done.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )

    async def run(self) -> None:
        """Be the Trio side."""
        async with open_broker() as broker, trio.open_nursery() as nursery:
            self.ready.set_result((broker, nursery))
            await self.leave.wait()
            nursery.cancel_scope.cancel()

    async def call(self, nursery: trio.Nursery, function: Callable[[], Awaitable[T]]) -> T:
        """Have something awaited in Trio."""
        result: asyncio.Future[T] = self.loop.create_future()

        async def run() -> None:
            result.set_result(await function())

        nursery.start_soon(run)
        return await result

    async def pump(self, queue: QueueHandle) -> None:
        """Put deliveries where the asyncio side looks."""
        async with queue.open_feed() as feed:
            async for delivery in feed:
                self.arrived.append(delivery)
                if self.waiter is not None and not self.waiter.done():
                    self.waiter.set_result(None)

    async def next(self) -> Delivery:
        """Wait for a delivery."""
        while not self.arrived:
            self.waiter = self.loop.create_future()
            await self.waiter
        return self.arrived.popleft()


async def as_a_guest() -> None:
    """Measure Trio as a guest of asyncio."""
    guest = Guest()
    broker, nursery = await guest.ready
    queue = await guest.call(nursery, lambda: broker.declare_queue("q"))
    nursery.start_soon(guest.pump, queue)
    times = ROUND_TRIPS.setdefault("asyncio, Trio as a guest", [])
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await guest.call(nursery, lambda: broker.publish("", "q", b"x"))
        (await guest.next()).accept()
        times.append(time.perf_counter() - began)
    guest.leave.set()
    (await guest.done).unwrap()


def main() -> None:
    """Measure all of it, print a table."""
    trio.run(in_trio)
    asyncio.run(as_a_guest())
    asyncio.run(in_asyncio())
    in_a_thread()
    print(f"{'':32}{'round trip':>14}{'nine of ten':>14}{'from a backlog':>18}")
    for name, times in ROUND_TRIPS.items():
        median, slow = statistics.median(times), statistics.quantiles(times, n=10)[-1]
        backlog = f"{BACKLOGS[name] * 1e6:15.1f} µs" if name in BACKLOGS else ""
        print(f"{name:32}{median * 1e6:11.1f} µs{slow * 1e6:11.1f} µs{backlog}")


if __name__ == "__main__":
    main()
