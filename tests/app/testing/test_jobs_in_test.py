"""The fixture ``jobs``: programs with jobs, tested in one Trio run and in virtual time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import trio

from triomq import Broker
from triomq.app.testing import JobsInTest
from triomq.errors import JobFailed, JobTimedOut
from triomq.jobs import Jobs, current_job, gather, outcomes


class Program:
    """A program under test: its jobs, and what they have done."""

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.done: list[object] = []

    def job(self, **options: object) -> object:
        return self.jobs.job(**options)  # type: ignore[call-overload]  # options of all kinds


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def real_time() -> Iterator[float]:
    """See that a test takes no real time, whatever its clock says."""
    from time import monotonic

    began = monotonic()
    yield began
    assert monotonic() - began < 20, "an hour of virtual time is to take milliseconds"


async def test_job_runs_and_its_result_comes_back(jobs: JobsInTest, program: Program) -> None:
    @program.jobs.job
    async def add(a: int, b: int) -> int:
        return a + b

    @program.jobs.job
    def multiply(a: int, b: int) -> int:
        return a * b

    await jobs.work(program.jobs)
    assert await add.call(2, 3) == 5
    assert await multiply.call(2, 3) == 6


async def test_error_of_a_job_is_raised_where_the_test_waits(jobs: JobsInTest, program: Program) -> None:
    @program.jobs.job(retries=0)
    async def fail() -> None:
        raise KeyError("no such customer")

    await jobs.work(program.jobs)
    await fail.send()
    with pytest.raises(KeyError, match="no such customer") as caught:
        await jobs.wait_idle()
    assert "attempt 1, in queue 'default'" in caught.value.__notes__[0]
    await jobs.wait_idle()  # it is raised once


async def test_errors_of_several_jobs_are_a_group_and_the_broker_raises_them_too(
    jobs: JobsInTest, broker: Broker, program: Program
) -> None:
    @program.jobs.job(retries=0)
    async def fail(number: int) -> None:
        raise ValueError(number)

    await jobs.work(program.jobs)
    await fail.map([1, 2])
    with pytest.RaisesGroup(ValueError, ValueError):
        await jobs.broker.wait_idle()


async def test_hour_of_backoff_takes_no_time(
    jobs: JobsInTest, program: Program, autojump_clock: object, real_time: float
) -> None:
    @program.jobs.job(retries=5, backoff=(600, 3600))
    async def fail_at_first() -> int:
        if current_job().attempt < 4:
            raise TimeoutError("not yet")
        program.done.append(trio.current_time())
        return current_job().attempt

    await jobs.work(program.jobs)
    began = trio.current_time()
    job = await fail_at_first.send()
    await jobs.wait_idle()
    assert await job.result() == 4
    assert 1800 < trio.current_time() - began < 10800


async def test_delayed_job_runs_when_its_time_has_come(
    jobs: JobsInTest, program: Program, autojump_clock: object
) -> None:
    @program.jobs.job
    async def wake() -> None:
        program.done.append(jobs.now)

    await jobs.work(program.jobs)
    at = jobs.now + timedelta(days=1)
    await wake.using(delay=3600).send()
    await wake.using(at=at).send()
    await jobs.wait_idle()
    assert [round((done - at).total_seconds(), 1) for done in program.done] == [-82800.0, 0.0]  # type: ignore[operator]


async def test_day_of_cron_takes_no_time(
    jobs: JobsInTest, program: Program, autojump_clock: object, real_time: float
) -> None:
    @program.jobs.cron("0 6,18 * * *", timezone="Europe/Oslo")
    async def report() -> None:
        program.done.append(f"{jobs.now:%d %H:%M}")

    await jobs.work(program.jobs)
    await jobs.sleep_until(datetime(2000, 1, 3, tzinfo=UTC))
    await jobs.wait_idle()
    assert program.done == ["01 05:00", "01 17:00", "02 05:00", "02 17:00"]


async def test_timeout_is_virtual_too(jobs: JobsInTest, program: Program, autojump_clock: object) -> None:
    @program.jobs.job(timeout=60, retries=0)
    async def hang() -> None:
        await trio.sleep_forever()

    await jobs.work(program.jobs)
    with pytest.raises(JobTimedOut):
        await hang.call()


async def test_connected_jobs_without_a_worker_wait_in_their_queue(
    jobs: JobsInTest, broker: Broker, program: Program
) -> None:
    @program.jobs.job(queue="mail")
    async def send_mail(to: str) -> None:
        program.done.append(to)

    await jobs.broker.declare_queue("mail")
    await jobs.connect(program.jobs)
    await send_mail.send("ada")
    assert (await jobs.broker.queue("mail").statistics()).ready == 1
    assert program.done == []


async def test_jobs_are_free_again_for_the_next_test(jobs: JobsInTest, program: Program) -> None:
    await jobs.connect(program.jobs)
    assert program.jobs.is_connected
    jobs.end()
    await trio.testing.wait_all_tasks_blocked()
    assert not program.jobs.is_connected
    assert program.jobs.middleware == ()


async def test_awaited_failure_has_the_remote_traceback(jobs: JobsInTest, program: Program) -> None:
    @program.jobs.job(retries=0)
    async def fail() -> None:
        raise KeyError("no such customer")

    await jobs.work(program.jobs)
    with pytest.raises(JobFailed, match="no such customer"):
        await fail.call()


async def test_failure_that_a_caller_got_is_not_raised_again(jobs: JobsInTest, program: Program) -> None:
    @program.jobs.job(retries=0)
    async def fail(number: int) -> None:
        raise KeyError(number)

    @program.jobs.job(retries=0, unique="same")
    async def fail_alone() -> None:
        await both_are_sent.wait()
        raise KeyError("alone")

    @program.jobs.job
    async def try_both() -> str:
        try:
            await fail.call(1)
        except JobFailed:
            return "it failed"
        return "it did not"

    both_are_sent = trio.Event()
    await jobs.work(program.jobs)
    assert await try_both.call() == "it failed"
    with pytest.RaisesGroup(JobFailed, JobFailed):
        await gather(await fail.map([2, 3]))
    assert isinstance((await outcomes([await fail.send(4)]))[0], JobFailed)
    first, second = await fail_alone.send(), await fail_alone.send()
    both_are_sent.set()
    for job in (first, second):
        with pytest.raises(JobFailed, match="alone"):
            await job.result()
    with pytest.raises(JobFailed):
        await trio.to_thread.run_sync(fail.blocking.call, 5)
    await jobs.wait_idle()
    await fail.send(6)
    with pytest.raises(KeyError, match="6"):
        await jobs.wait_idle()
    assert jobs.failures == []


async def test_moment_without_a_time_zone_is_refused(jobs: JobsInTest, autojump_clock: object) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        await jobs.sleep_until(datetime(2000, 1, 2))  # that is what is refused
    with pytest.raises(ValueError, match="has passed"):
        await jobs.sleep_until(datetime(1999, 1, 2, tzinfo=UTC))
