"""What happens to jobs is in the log, told by the broker's book, whoever sends them and whoever runs them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from tests.jobs.party import Shop

from triomq.app import Broker, open_broker
from triomq.endpoints.emqp.jobs.traced import followers_of, trace_submitted
from triomq.endpoints.jobs import BookedJob, JobSender
from triomq.errors import JobCancelled, JobFailed
from triomq.jobs import JobFunction, Jobs
from triomq.protocols.emqp import Extension

from .conftest import Row, Traced


@asynccontextmanager
async def open_shop(traced: Traced) -> AsyncIterator[Shop]:
    """Open a broker that is traced, with a worker, and connect a shop's jobs."""
    shop = Shop()
    with trio.fail_after(100_000):
        async with open_broker() as broker, trio.open_nursery() as nursery:
            broker.directory.trace(traced.recorder)
            shop.broker, shop.where = broker, await broker.emqp_connector()
            await nursery.start(shop.work)
            async with shop.jobs.connect(broker):
                yield shop
            nursery.cancel_scope.cancel()


@pytest.fixture
async def shop(traced: Traced) -> AsyncIterator[Shop]:
    async with open_shop(traced) as shop:
        yield shop


def name_of(function: JobFunction[..., Any, Any]) -> str:
    return function.definition.name


def of_jobs(traced: Traced) -> list[Row]:
    return [row for row in traced.take() if str(row["kind"]).startswith("job-")]


def kinds(rows: list[Row], job: str | None = None) -> list[object]:
    return [str(row["kind"]).removeprefix("job-") for row in rows if job is None or row["job_id"] == job]


async def test_job_is_submitted_started_and_finished(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    handle = await shop.sell.send(7)
    await handle.result()
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "finished"]
    assert {(row["job_id"], row["job"], row["queue"], row["domain"]) for row in rows} == {
        (handle.id, name_of(shop.sell), "default", "default")
    }
    assert [row.get("attempt") for row in rows] == [None, 1, 1]
    assert "/endpoints/" in str(rows[1]["consumer"])


async def test_messages_of_a_job_have_its_id(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    handle = await shop.sell.send(7)
    await handle.result()
    (queued,) = [row for row in traced.take() if row["kind"] == "queued" and row["queue"] == "default"]
    assert (queued["message_id"], queued["protocol"]) == (handle.id, "emqp")


async def test_job_that_fails_says_of_what(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    with pytest.raises(JobFailed):
        await shop.fail.call("no " * 100)
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "failed"]
    assert (rows[-1]["attempt"], rows[-1]["error"]) == (1, "ValueError: " + ("no " * 100)[:200])


async def test_job_that_is_tried_again_is_retried_until_it_has_failed(
    shop: Shop, traced: Traced, autojump_clock: object
) -> None:
    with pytest.raises(JobFailed):
        await shop.fail.using(retries=1).call("no")
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "retried", "started", "failed"]
    assert [row.get("attempt") for row in rows] == [None, 1, 1, 2, 2]
    assert [row.get("error") for row in rows] == [None, None, "ValueError: no", None, "ValueError: no"]
    assert {row["job"] for row in rows} == {name_of(shop.fail)}


async def test_job_that_has_failed_for_good_is_followed_to_the_dead_ones(
    autojump_clock: object, open_traced: Callable[..., Traced]
) -> None:
    for rate in (1.0, 0.0):
        found = open_traced(rate=rate, queues={"default": 1.0})
        async with open_shop(found) as shop:
            handle = await shop.fail.using(retries=1).send("no")
            with pytest.raises(JobFailed):
                await handle.result()
        rows = found.take()
        *_, last = [row["msg_id"] for row in rows if (row["kind"], row["queue"]) == ("delivered", "default")]
        (dead,) = [row for row in rows if row.get("queue") == "jobs.dead"]
        assert (dead["kind"], dead["from_queue"], dead["from_id"], dead["error"]) == (
            "queued",
            "default",
            last,
            "failed",
        )


async def test_job_that_runs_too_long_is_timed_out(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    with pytest.raises(JobFailed):
        await shop.sleep.using(timeout=5.0).call()
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "timed-out"]
    assert str(rows[-1]["error"]).startswith("TimeoutError")


async def test_job_that_is_cancelled_says_so(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    running, waiting = await shop.sleep.send(), await shop.sell.using(delay=100.0).send(1)
    await trio.sleep(1)
    for handle in (running, waiting):
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await handle.result()
    rows = of_jobs(traced)
    assert kinds(rows, running.id) == ["submitted", "started", "cancelled"]
    assert kinds(rows, waiting.id) == ["submitted", "cancelled"]


async def test_job_that_comes_too_late_is_cancelled_with_the_reason(
    shop: Shop, traced: Traced, autojump_clock: object
) -> None:
    late = await shop.sell.using(delay=100.0, deadline=5.0).send(1)
    await trio.sleep(10)
    rows = of_jobs(traced)
    assert kinds(rows, late.id) == ["submitted", "cancelled"]
    assert str(rows[-1]["error"]).startswith("JobExpired")


async def test_progress_is_an_event(shop: Shop, traced: Traced, autojump_clock: object) -> None:
    await shop.report.call()
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "progressed", "progressed", "finished"]
    assert {row["job"] for row in rows} == {name_of(shop.report)}


async def test_job_of_a_lost_worker_is_retried_with_another(traced: Traced, autojump_clock: object) -> None:
    shop = Shop()
    async with open_broker() as broker, trio.open_nursery() as nursery:
        broker.directory.trace(traced.recorder)
        shop.where = await broker.emqp_connector()
        async with shop.jobs.connect(broker):
            async with trio.open_nursery() as first:
                await first.start(shop.work)
                handle = await shop.sleep.send(50.0)
                await trio.sleep(1)
                cut_workers(broker)
                first.cancel_scope.cancel()
            await nursery.start(shop.work)
            await handle.result()
        nursery.cancel_scope.cancel()
    rows = of_jobs(traced)
    assert kinds(rows) == ["submitted", "started", "retried", "started", "finished"]
    assert str(rows[2]["error"]).startswith("WorkerLost")


def cut_workers(broker: Broker) -> None:
    """Let the broker lose all workers."""
    for endpoint in broker.endpoints.children.values():
        for client in list(endpoint.actor._clients.values()):  # type: ignore[union-attr]
            if getattr(client, "worker", None) is not None:
                client.mark_lost("the peer is silent")
                client.ref.run_in_turn(client.leave)


@pytest.mark.parametrize("rate", [0.0, 0.3])
async def test_job_is_traced_whole_or_not_at_all(
    open_traced: Callable[..., Traced], autojump_clock: object, rate: float
) -> None:
    traced = open_traced(rate=rate)
    async with open_shop(traced) as shop:
        handles = [await shop.sell.send(number) for number in range(60)]
        for handle in handles:
            await handle.result()
    rows = traced.take()
    jobs = {str(row["job_id"]) for row in rows if "job_id" in row}
    assert len(jobs) < 60
    assert bool(jobs) == bool(rate)
    for job in jobs:
        assert kinds([row for row in rows if "job_id" in row], job) == ["submitted", "started", "finished"]
    queued = [row for row in rows if (row["kind"], row["queue"]) == ("queued", "default")]
    assert {row["message_id"] for row in queued} == jobs
    accepted = {row["msg_id"] for row in rows if (row["kind"], row["queue"]) == ("accepted", "default")}
    assert accepted == {row["msg_id"] for row in queued}


async def test_job_that_a_broker_has_from_before_has_a_name(traced: Traced, autojump_clock: object) -> None:
    jobs = Jobs()

    @jobs.job
    async def early() -> None: ...

    async with open_shop(traced) as shop, jobs.connect(shop.broker):
        await early.using(queue="later").send()
        traced.restart()
        async with jobs.work(shop.broker, queues=["later"]):
            await trio.sleep(5)
    assert [row.get("job") for row in of_jobs(traced)] == [name_of(early)] * 2


async def test_job_has_the_beginning_of_a_long_name_and_of_a_long_error(
    shop: Shop, traced: Traced, autojump_clock: object
) -> None:
    directory, about = shop.broker.directory, Extension(type="T" * 1_000, message="m" * 1_000)
    followers_of(directory).tell(BookedJob(b"failed", "q", JobSender("")), "failed", (b"", about))
    call = b'["run",{"path":"p","callable":"%s","args":[]}]' % (b"n" * 500)
    trace_submitted(directory, "q", [b"named"], [call])
    failed, named = of_jobs(traced)
    assert (failed["error"], named["job"]) == (f"{'T' * 200}: {'m' * 200}", "p." + "n" * 198)
