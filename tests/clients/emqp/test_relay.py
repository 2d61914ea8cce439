"""What requesters and workers say to each other of a job, through a broker: in memory and over sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

from clients.emqp.test_connection import url_of
from triomq.app import open_broker
from triomq.clients import EMQPJob, EMQPWorker, open_emqp, open_emqp_worker
from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.url import parse_emqp_url
from triomq.endpoints import EMQP
from triomq.errors import NotFound
from triomq.protocols.emqp import ITEM_WINDOW, Extension, make_headers

SURE = make_headers(reply_requested=True, guarantee=True)
Work = Callable[[EMQPJob], Awaitable[None]]


@pytest.fixture(params=["memory", "sockets"])
async def where(request: pytest.FixtureRequest) -> AsyncIterator[EMQPConnector]:
    with trio.fail_after(60):
        if request.param == "memory":
            async with open_broker(users={}) as broker:
                await broker.declare_queue("q", durable=False)
                yield await broker.emqp_connector()
        else:
            async with open_broker(EMQP(port=0), drain=0.2) as broker:
                await broker.declare_queue("q", durable=False)
                yield parse_emqp_url(url_of(broker))


async def serve(where: EMQPConnector, work: Work, *, slots: int = 4) -> None:
    async with open_emqp_worker(where, ["q"], slots=slots) as worker, trio.open_nursery() as nursery:
        async for job in worker:
            nursery.start_soon(work, job)


async def test_stream_of_many_items_comes_whole_to_a_slow_reader(where: EMQPConnector, nursery: trio.Nursery) -> None:
    ahead: list[int] = []
    read = 0

    async def work(job: EMQPJob) -> None:
        for number in range(10 * ITEM_WINDOW):
            await job.item(b"%d" % number)
            ahead.append(number - read)
        job.reply(b"done")

    nursery.start_soon(serve, where, work)
    async with open_emqp(where) as emqp:
        request = emqp.begin("q", b"1", SURE, Extension(stream=True))
        got = []
        async for item in request.items():
            got.append(item)
            read += 1
            if read % 40 == 0:
                await trio.sleep(0.002)
        assert got == [b"%d" % number for number in range(10 * ITEM_WINDOW)]
        assert (await request.reply()).message == b"done"
        assert max(ahead) <= ITEM_WINDOW + 1
    nursery.cancel_scope.cancel()


async def test_progress_comes_to_the_requester_and_the_last_before_the_answer(
    where: EMQPConnector, nursery: trio.Nursery
) -> None:
    async def work(job: EMQPJob) -> None:
        for number in range(1000):
            job.progress(b"%d" % number)
        job.reply(b"done")

    nursery.start_soon(serve, where, work)
    async with open_emqp(where) as emqp:
        request = emqp.begin("q", b"1", SURE)
        assert [value async for value in request.values()] == [b"0", b"999"]
    nursery.cancel_scope.cancel()


async def test_cancel_reaches_the_worker_that_has_the_job(where: EMQPConnector, nursery: trio.Nursery) -> None:
    has_begun = trio.Event()

    async def work(job: EMQPJob) -> None:
        cancelled = trio.Event()
        job.on_cancel = cancelled.set
        has_begun.set()
        await cancelled.wait()
        job.end("cancelled", text=f"within {job.grace} s")

    nursery.start_soon(serve, where, work)
    async with open_emqp(where) as emqp:
        request = emqp.begin("q", b"1", SURE)
        await has_begun.wait()
        await emqp.cancel(request.id, grace=0.5)
        reply = await request.reply()
        assert (reply.extension.state, reply.extension.message) == ("cancelled", "within 0.5 s")
        with pytest.raises(NotFound):
            await emqp.cancel(request.id)
    nursery.cancel_scope.cancel()


async def test_job_that_is_given_back_goes_to_another_worker_as_if_new(
    where: EMQPConnector, nursery: trio.Nursery
) -> None:
    async with open_emqp(where) as emqp:
        request = emqp.begin("q", b"1", SURE)
        await request.accepted()
        async with open_emqp_worker(where, ["q"]) as first:
            (job,) = await first.receive()
            first.slots = 0
            assert first.give_back([job])
            first.flush()
            async with open_emqp_worker(where, ["q"]) as second:
                (job,) = await second.receive()
                assert job.attempt == 1
                job.reply(b"done")
                assert (await request.reply()).message == b"done"


async def test_worker_that_leaves_does_what_it_has_begun(where: EMQPConnector) -> None:
    async with open_emqp(where) as emqp, trio.open_nursery() as nursery:
        requests = [emqp.begin("q", b"%d" % number, SURE) for number in range(5)]
        async with open_emqp_worker(where, ["q"], slots=3) as first:
            begun = [await anext(first), await anext(first)]
            nursery.start_soon(finish, first, begun)
            await first.leave()
        async with open_emqp_worker(where, ["q"], slots=3) as second:
            for _ in range(3):
                (await anext(second)).reply(b"second")
            answers = [(await request.reply()).message for request in requests]
        assert answers == [b"first", b"first", b"second", b"second", b"second"]


async def finish(worker: EMQPWorker, jobs: list[EMQPJob]) -> None:
    await trio.sleep(0.05)
    for job in jobs:
        job.reply(b"first")


async def test_thousands_of_jobs_are_in_flight_at_a_time(where: EMQPConnector, nursery: trio.Nursery) -> None:
    async def work(job: EMQPJob) -> None:
        job.reply(job.message)

    async with open_emqp(where) as emqp:
        requests = []
        for number in range(5000):
            if number % 100 == 0:
                await emqp.wait_room()
            requests.append(emqp.begin("q", b"%d" % number, SURE))
        nursery.start_soon(lambda: serve(where, work, slots=64))
        assert [(await request.reply()).message for request in requests] == [b"%d" % n for n in range(5000)]
    nursery.cancel_scope.cancel()
