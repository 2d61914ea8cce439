"""Handles of jobs: states, cancelling, progress, streams; in memory and in virtual time."""

import pytest
import trio
from tests.jobs.party import Shop
from trio.testing import MockClock

from triomq.errors import JobCancelled, JobError, JobExpired, JobFailed, JobsFailed, NoSuchJob, ResultNotKept


async def test_cancelled_job_ends_as_such(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.sleep.send()
    await trio.sleep(1)
    assert await job.cancel()
    with pytest.raises(JobCancelled, match=r"party\.sleep was cancelled"):
        await job.result()
    assert local_shop.cancelled == ["tests.jobs.party.sleep"]


async def test_job_that_waits_can_be_cancelled(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.add.using(delay=60).send(1)
    assert await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result()
    await trio.sleep(100)
    assert local_shop.seen == []


async def test_cancelled_call_cancels_the_job(local_shop: Shop, autojump_clock: MockClock) -> None:
    with trio.move_on_after(5) as scope:
        await local_shop.sleep.call()
    assert scope.cancelled_caught
    await trio.sleep(1)
    assert local_shop.cancelled == ["tests.jobs.party.sleep"]


async def test_cancelled_result_leaves_the_job_alone(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.sleep.send(10)
    with trio.move_on_after(5):
        await job.result()
    assert await job.result() is None
    assert local_shop.cancelled == []


async def test_children_are_cancelled_with_their_parent(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.family.send()
    await trio.sleep(1)
    assert len(local_shop.seen) == 3
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result()
    await trio.sleep(1)
    assert sorted(local_shop.cancelled) == ["tests.jobs.party.family", *["tests.jobs.party.sleep"] * 2]


async def test_state_says_how_it_is(local_shop: Shop, autojump_clock: MockClock) -> None:
    running, later = await local_shop.sleep.send(10), await local_shop.sleep.using(delay=60).send(1)
    await trio.sleep(1)
    assert ((await running.state()).state, (await later.state()).state) == ("running", "delayed")
    assert (await running.state()).queue == "default"
    assert (await local_shop.jobs.handle("nothing").state()).state == "unknown"
    await running.result()


async def test_result_that_is_kept_is_there_for_others(local_shop: Shop, autojump_clock: MockClock) -> None:
    kept, not_kept = await local_shop.add.using(keep=60).send(1, 2), await local_shop.add.send(1)
    await kept.result()
    await not_kept.result()
    assert await local_shop.add.handle(kept.id).result() == 3
    with pytest.raises((NoSuchJob, ResultNotKept)):
        await local_shop.add.handle(not_kept.id).result()
    await trio.sleep(200)
    with pytest.raises((NoSuchJob, ResultNotKept)):
        await local_shop.add.handle(kept.id).result()


async def test_result_of_a_job_of_others_can_be_waited_for(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.sleep.using(keep=60).send(10)
    assert await local_shop.sleep.handle(job.id).result() is None
    failing = await local_shop.fail.using(delay=5).send("no")
    with pytest.raises(JobFailed):
        await local_shop.fail.handle(failing.id).result()


async def test_unique_job_is_sent_once(local_shop: Shop, autojump_clock: MockClock) -> None:
    first = await local_shop.sleep.using(unique=True, keep=60).send(10)
    again = await local_shop.sleep.using(unique=True).send(10)
    other = await local_shop.sleep.using(unique=True).send(11)
    assert (again.id, again.is_duplicate, first.is_duplicate, other.is_duplicate) == (first.id, True, False, False)
    assert await again.result() is None
    assert len(local_shop.seen) == 2
    await local_shop.sleep.using(unique=True).call(10)
    await other.result()
    assert len(local_shop.seen) == 3


async def test_progress_is_seen(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.report.send()
    assert [value async for value in job.progress()][-1] == {"done": 2}
    typed = await local_shop.report.send()
    assert [value async for value in typed.progress(dict[str, int])][-1] == {"done": 2}
    with pytest.raises(JobError, match="goes to its sender"):
        local_shop.jobs.handle(job.id).progress()


async def test_items_of_a_stream_come_one_by_one(local_shop: Shop, autojump_clock: MockClock) -> None:
    async with local_shop.count.stream(500) as items:
        assert [item async for item in items] == list(range(500))
    assert local_shop.cancelled == []


async def test_stream_that_is_left_is_cancelled(local_shop: Shop, autojump_clock: MockClock) -> None:
    async with local_shop.count.stream(1_000_000) as items:
        async for item in items:
            if item == 10:
                break
    await trio.sleep(1)
    assert local_shop.cancelled == ["tests.jobs.party.count"]


async def test_failure_of_a_stream_comes_after_its_items(local_shop: Shop, autojump_clock: MockClock) -> None:
    found: list[int] = []

    async def read() -> None:
        async with local_shop.broken_count.stream(3) as items:
            async for item in items:
                found.append(item)

    with pytest.raises(JobFailed, match="ValueError: no more"):
        await read()
    assert found == [0, 1, 2]


async def test_job_that_has_not_begun_by_its_deadline_never_will(local_shop: Shop, autojump_clock: MockClock) -> None:
    job = await local_shop.add.using(delay=10, deadline=5).send(1)
    with pytest.raises(JobExpired, match=r"party\.add expired before it began"):
        await job.result()
    assert local_shop.seen == []


async def test_failures_of_children_come_as_one_group(local_shop: Shop, autojump_clock: MockClock) -> None:
    with pytest.raises(JobsFailed) as raised:
        await local_shop.broken_family.call()
    first, second = raised.value.exceptions
    for error in (first, second):
        assert isinstance(error, JobFailed)
        assert "party.fail failed: ValueError: child" in error.reason
        assert "raise ValueError(text)" in error.remote_traceback
    await trio.sleep(1)
    assert local_shop.cancelled == ["tests.jobs.party.sleep"]


async def test_children_have_no_more_time_than_their_parent(local_shop: Shop, autojump_clock: MockClock) -> None:
    start = trio.current_time()
    await local_shop.parent.using(deadline=30).call(1)
    assert {job.deadline for job in local_shop.seen} == {start + 30}
    detached = await local_shop.add.using(detached=True).send(1)
    await detached.result()
    assert local_shop.seen[-1].deadline == float("inf")
