"""A job knows which one it is, and how long it may run."""

from math import inf

import pytest
import trio

from triomq.errors import JobCancelled, JobTimedOut, NoRunningJob, WrongResult
from triomq.jobs import RunningJob, current_job, running


async def test_current_job_is_that_of_the_task_and_its_children() -> None:
    seen: list[str] = []

    async def child() -> None:
        seen.append(current_job().id)

    async def work(name: str) -> None:
        with running(RunningJob(name, "m.f")):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, "1")
        nursery.start_soon(work, "2")
    assert sorted(seen) == ["1", "2"]
    with pytest.raises(NoRunningJob, match="no job runs here"):
        current_job()


def test_progress_is_reported_as_json() -> None:
    reported: list[tuple[str, bytes]] = []
    job = RunningJob("1", "m.f", report=lambda kind, value: reported.append((kind, value)))
    job.progress({"done": 3})
    with pytest.raises(WrongResult, match="cannot be sent"):
        job.progress(object())
    assert reported == [("progress", b'{"done":3}')]


def test_job_learns_that_it_is_to_stop() -> None:
    now = 10.0
    job = RunningJob("1", "m.f", deadline=12.0, clock=lambda: now)
    assert job.seconds_left == 2.0
    job.check()
    now = 13.0
    with pytest.raises(JobTimedOut, match=r"m\.f timed out \(job 1\)"):
        job.check()
    job.is_cancelled = True
    with pytest.raises(JobCancelled):
        job.check()
    assert RunningJob("1", "m.f").seconds_left == inf
