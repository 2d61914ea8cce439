"""Jobs are sent from plain threads and from asyncio."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import trio
from tests.jobs.party import Shop

from triomq.app.portal import BlockingBroker, open_blocking_broker
from triomq.errors import AlreadyConnected, Disconnected, JobCancelled, JobFailed, NotConnected


class Work:
    """A broker in a thread, and a worker there."""

    def __init__(self, broker: BlockingBroker) -> None:
        self.broker = broker
        self.shop = Shop()
        self._scope = trio.CancelScope()
        self._ready = threading.Event()
        self._call = broker.portal.submit(self._run)
        self._ready.wait()

    async def _run(self) -> None:
        self.shop.where = await self.broker.portal.broker.emqp_connector()
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            await nursery.start(self.shop.work)
            self._ready.set()

    def stop(self) -> None:
        self.broker.portal.callbacks.call_soon(self._scope.cancel)
        self._call.future.result()


@pytest.fixture
def work() -> Iterator[Work]:
    with open_blocking_broker() as broker:
        work = Work(broker)
        yield work
        work.stop()


def test_plain_thread_sends_jobs(work: Work) -> None:
    shop = work.shop
    with shop.jobs.connect_blocking(work.broker):
        assert shop.sell.blocking.call(1, price=2) == "1 for 2.0"
        job = shop.add.blocking.send(1, 2)
        assert (job.result(), job.result(timeout=5), job.name) == (3, 3, "tests.jobs.party.add")
        assert [job.result() for job in shop.add.blocking.map(range(300))] == list(range(300))
        with pytest.raises(JobFailed, match="ValueError: no"):
            shop.fail.blocking.call("no")
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.05 s; it goes on"):
            shop.sleep.blocking.send().result(timeout=0.05)
        assert shop.add.using(queue="other").blocking.call(5) == 5
        assert shop.seen[-1].queue == "other"
    with pytest.raises(NotConnected):
        shop.add.blocking.send(1)


def test_many_threads_send_at_the_same_time(work: Work) -> None:
    def send(number: int) -> list[int]:
        return [work.shop.add.blocking.call(number, each) for each in range(25)]

    with work.shop.jobs.connect_blocking(work.broker), ThreadPoolExecutor(8) as threads:
        found = list(threads.map(send, range(8)))
    assert found == [[number + each for each in range(25)] for number in range(8)]


def test_plain_thread_takes_a_stream(work: Work) -> None:
    with work.shop.jobs.connect_blocking(work.broker), work.shop.count.blocking.stream(100) as items:
        assert list(items) == list(range(100))


def test_jobs_for_plain_threads_are_not_awaited(work: Work) -> None:
    with work.shop.jobs.connect_blocking(work.broker):
        with pytest.raises(AlreadyConnected, match=r"write f\.blocking\.send"):
            trio.run(work.shop.add.send, 1)
        with pytest.raises(AlreadyConnected, match="already"), work.shop.jobs.connect_blocking(work.broker):
            pass


def test_plain_thread_without_a_broker_is_told_so() -> None:
    with pytest.raises(Disconnected), Shop().jobs.connect_blocking("emqp://127.0.0.1:1?timeout=0.1"):
        pass


def test_asyncio_sends_jobs(work: Work) -> None:
    shop = work.shop

    async def main() -> None:
        async with shop.jobs.connect_asyncio(work.broker):
            assert await shop.sell.call(1) == "1 for 1.0"
            jobs = await shop.add.map(range(300))
            assert await asyncio.gather(*(job.result() for job in jobs)) == list(range(300))
            async with shop.count.stream(50) as items:
                assert [item async for item in items] == list(range(50))
            with pytest.raises(JobFailed, match="ValueError: no"):
                await shop.fail.call("no")
            assert await asyncio.to_thread(shop.add.blocking.call, 1, 2) == 3
            with pytest.raises(AlreadyConnected, match="connected in another event loop"):
                await asyncio.to_thread(trio.run, shop.add.send, 1)

    asyncio.run(main())


def test_asyncio_without_a_broker_is_told_so() -> None:
    async def main() -> None:
        async with Shop().jobs.connect_asyncio("emqp://127.0.0.1:1?timeout=0.1"):
            pass

    with pytest.raises(Disconnected):
        asyncio.run(main())


def test_task_of_asyncio_that_is_cancelled_cancels_its_job(work: Work) -> None:
    shop = work.shop

    async def main() -> None:
        async with shop.jobs.connect_asyncio(work.broker):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await shop.sleep.call()
            job = await shop.sleep.send()
            await job.cancel()
            with pytest.raises(JobCancelled):
                await job.result()

    asyncio.run(main())
    assert shop.cancelled == ["tests.jobs.party.sleep"] * 2


async def test_threads_of_a_trio_program_send_jobs(shop: Shop) -> None:
    assert await trio.to_thread.run_sync(partial(shop.sell.blocking.call, 1)) == "1 for 1.0"
    with pytest.raises(AlreadyConnected, match="would block this Trio program"):
        shop.sell.blocking.call(1)


async def test_process_connects_when_it_needs_to(shop: Shop) -> None:
    child = Shop()
    child.jobs.connect_when_needed(str(shop.where))
    assert not child.jobs.is_connected
    assert await trio.to_thread.run_sync(partial(child.add.blocking.call, 1, 2)) == 3
    assert child.jobs.is_connected
