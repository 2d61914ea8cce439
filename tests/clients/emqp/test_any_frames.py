"""Whatever a broker says, a client and a worker do not crash, and end as they should."""

from contextlib import suppress
from random import Random

import pytest
import trio
import trio.testing

from clients.emqp.stub import StubBroker, stubbed_client, stubbed_worker
from fuzz.emqp_engine import Input, generate
from triomq.clients import EMQPConnection, EMQPJob, EMQPRequest, EMQPWorker
from triomq.errors import TriomqError
from triomq.protocols.emqp import Extension, Requested, make_headers

SURE = make_headers(reply_requested=True, guarantee=True)


def conversations(role: str) -> list[Input]:
    """Return what the engine's fuzz sends to one role."""
    given = (generate(Random(f"any frames {number}")) for number in range(1500))
    return [each for each in given if each.side == role][:150]


async def say(broker: StubBroker, conversation: Input, *ids: bytes) -> None:
    """Say all of a conversation, about things that are there."""
    for number, message in enumerate(conversation.messages):
        known = ids[number % len(ids)] if ids else b"id"
        broker.socket.incoming.append(tuple(known if frame in (b"id", b"p1") else frame for frame in message))
        broker.socket.wake()
        await trio.testing.wait_all_tasks_blocked()


async def use(request: EMQPRequest) -> None:
    with suppress(TriomqError):
        async for _ in request.items():
            pass
        await request.reply()


async def follow(emqp: EMQPConnection, *jobs: bytes) -> None:
    with suppress(TriomqError):
        async with emqp.follow(jobs) as reports:
            async for _ in reports:
                pass


@pytest.mark.parametrize("part", range(5))
async def test_client_may_be_told_anything(autojump_clock: object, part: int) -> None:
    for conversation in conversations("client")[part::5]:
        async with stubbed_client() as (emqp, broker), trio.open_nursery() as nursery:
            requests = [emqp.begin("q", b"1", SURE, Extension(stream=True)) for _ in range(3)]
            await broker.heard(Requested)
            for request in requests:
                nursery.start_soon(use, request)
            ids = [request.id for request in requests]
            nursery.start_soon(follow, emqp, *ids)
            await say(broker, conversation, *ids)
            for request in requests:
                request.abandon()
            waiting = emqp._outstanding._pending.values()
            assert emqp._outstanding.unaccepted == sum(not pending.is_accepted for pending in waiting)
            assert not any(pending.is_over for pending in waiting)
            nursery.cancel_scope.cancel()


async def work(job: EMQPJob) -> None:
    job.on_cancel = lambda: job.end("cancelled")
    job.progress(b"1")
    with trio.move_on_after(1):
        await job.item(b"1")
    try:
        job.reply(job.message)
    except TriomqError:
        job.fail(ValueError("it cannot be sent"))


async def serve(worker: EMQPWorker, nursery: trio.Nursery) -> None:
    async for job in worker:
        nursery.start_soon(work, job)


@pytest.mark.parametrize("part", range(5))
async def test_worker_may_be_told_anything(autojump_clock: object, part: int) -> None:
    for conversation in conversations("worker")[part::5]:
        async with stubbed_worker(slots=5) as (worker, broker), trio.open_nursery() as nursery:
            nursery.start_soon(serve, worker, nursery)
            await say(broker, conversation)
            await trio.sleep(2)
            assert all(job.answered and not worker._is_heard for job in worker.jobs)
            nursery.cancel_scope.cancel()
