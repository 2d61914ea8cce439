"""Groups and chains of jobs, over a broker in memory and in virtual time."""

import pytest
from tests.jobs.party import Shop
from trio.testing import MockClock

from triomq.errors import JobError, JobFailed
from triomq.jobs import as_ended, chain, gather, outcomes


async def test_results_of_a_group_are_in_order(local_shop: Shop, autojump_clock: MockClock) -> None:
    assert await gather(await local_shop.add.map(range(2500))) == list(range(2500))
    assert await gather([]) == []


async def test_all_failures_of_a_group_are_shown(local_shop: Shop, autojump_clock: MockClock) -> None:
    jobs = [await local_shop.add.send(1), await local_shop.fail.send("a"), await local_shop.fail.send("b")]
    with pytest.raises(ExceptionGroup, match="2 of 3 jobs failed") as raised:
        await gather(jobs)
    assert [error.reason for error in raised.value.exceptions if isinstance(error, JobFailed)] == ["a", "b"]


async def test_outcomes_of_a_group_are_results_and_errors(local_shop: Shop, autojump_clock: MockClock) -> None:
    one, two = await outcomes([await local_shop.sell.send(1), await local_shop.fail.send("a")])
    assert one == "1 for 1.0"
    assert isinstance(two, JobError)


async def test_jobs_come_as_they_end(local_shop: Shop, autojump_clock: MockClock) -> None:
    jobs = [await local_shop.sleep.send(seconds) for seconds in (30, 10, 20)]
    assert [jobs.index(job) async for job in as_ended(jobs)] == [1, 2, 0]
    with pytest.raises(JobError, match="was sent by others"):
        await anext(aiter(as_ended([local_shop.jobs.handle(jobs[0].id)])))


async def test_chain_gives_each_result_to_the_next_function(local_shop: Shop, autojump_clock: MockClock) -> None:
    assert await chain(await local_shop.add.send(1, 2), local_shop.add, local_shop.sell) == "3 for 1.0"


async def test_chain_ends_at_the_first_failure(local_shop: Shop, autojump_clock: MockClock) -> None:
    with pytest.raises(JobFailed, match=r"party\.fail failed"):
        await chain(await local_shop.sell.send(1), local_shop.fail, local_shop.sleep)
    assert [job.name.rpartition(".")[2] for job in local_shop.seen] == ["sell", "fail"]
