"""What programs do with several jobs at once: wait for all, take them as they end, have one's result go to the next.

    async with jobs.connect(…):
        sizes = await gather(await thumbnail.map(files))
        report = await chain(await fetch.send(url), parse, store)

Rules:

- These are plain functions over handles. A group is a list of them, and a chain is one ``call`` behind the other.
- They run where their caller is. What is to go on without it belongs into a job: the others are its children then.
- Of a group no failure is hidden: all of them come in one ``ExceptionGroup``, with their remote tracebacks.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Concatenate, Final, Generic, TypeVar, cast, overload

import trio

from triomq.errors import JobCancelled, JobError
from triomq.jobs.function import Caller
from triomq.jobs.handle import Job
from triomq.jobs.link import cancel

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_AT_A_TIME: Final = 200
"""Jobs that are waited for at a time, with a task each, which costs as much as half of a short job; of a million most
end in the order in which they began."""


async def gather(jobs: Iterable[Job[R]]) -> list[R]:
    """Wait until all jobs have ended, and return their results in the order of the handles.

    When one fails, those that have not ended are cancelled. Cancelling this cancels none.

    Args:
        jobs: The handles, such as those that ``map`` returns.

    Raises:
        ExceptionGroup: Some have failed: a ``JobFailed`` for each of them.
    """
    every = list(jobs)
    found = await _run(every, partial(_wait_all, every, cancels=True))
    failures = [each for each in found if isinstance(each, Exception)]
    if not failures:
        return cast("list[R]", found)
    own = [each for each in failures if not isinstance(each, JobCancelled)] or failures
    raise ExceptionGroup(f"{len(own)} of {len(every)} jobs failed", own)


async def outcomes(jobs: Iterable[Job[R]]) -> list[R | JobError]:
    """Wait until all jobs have ended, and return the result or the error of each, in the order of the handles."""
    every = list(jobs)
    return cast("list[R | JobError]", await _run(every, partial(_wait_all, every, cancels=False)))


async def as_ended(jobs: Iterable[Job[R]]) -> AsyncIterator[Job[R]]:
    """Yield the handles in the order in which their jobs end; ``await job.result()`` is at once then.

    Args:
        jobs: The handles of jobs that were sent here, not those of others.

    Raises:
        JobError: One was sent by others.
    """
    every = list(jobs)
    for job in every:
        if not job.is_own:
            raise JobError(f"job {job.id} was sent by others; as_ended is for those that were sent here")
    ended = _EndedJobs(every)
    for _ in every:
        yield await every[0].link.run(ended.take)


class _EndedJobs(Generic[R]):
    """Jobs that have ended and were not taken, in the connection's Trio run."""

    def __init__(self, jobs: list[Job[R]]) -> None:
        self._jobs: list[Job[R]] | None = jobs
        self._ended: deque[Job[R]] = deque()
        self._lot = trio.lowlevel.ParkingLot()

    async def take(self) -> Job[R]:
        if self._jobs is not None:
            jobs, self._jobs = self._jobs, None
            for job in jobs:
                assert job.request is not None
                job.request.watch(partial(self._put, job))
        await trio.lowlevel.checkpoint()
        while not self._ended:
            await self._lot.park()
        return self._ended.popleft()

    def _put(self, job: Job[R]) -> None:
        self._ended.append(job)
        self._lot.unpark_all()


async def _run(jobs: list[Job[R]], function: Callable[[], Any]) -> Any:
    """Run a function in the Trio run that the jobs' connection lives in."""
    return await jobs[0].link.run(function) if jobs else []


async def _wait_all(jobs: list[Job[R]], *, cancels: bool) -> list[R | JobError]:
    found: list[R | JobError | None] = [None] * len(jobs)
    places = iter(range(len(jobs)))
    has_failed = False

    async def wait() -> None:
        nonlocal has_failed
        for place in places:
            if place % _AT_A_TIME == 0:
                await trio.lowlevel.checkpoint()  # for a list of jobs of which all have ended
            found[place] = outcome = await _outcome(jobs[place])
            if cancels and isinstance(outcome, JobError) and not has_failed:
                has_failed = True
                nursery.start_soon(_cancel_all, jobs)

    async with trio.open_nursery() as nursery:
        for _ in range(min(_AT_A_TIME, len(jobs))):
            nursery.start_soon(wait)
    return cast("list[R | JobError]", found)


async def _outcome(job: Job[R]) -> R | JobError:
    try:
        return job.outcome(job.answer_now() or await job.answer())
    except JobError as error:
        return error


async def _cancel_all(jobs: list[Job[R]]) -> None:
    for job in jobs:
        if job.request is None or not job.request.is_over:
            await cancel(job.link.connection, job.id.encode())


@overload
async def chain(job: Job[A], first: "Caller[Concatenate[A, ...], B]", /) -> B: ...
@overload
async def chain(
    job: Job[A], first: "Caller[Concatenate[A, ...], B]", second: "Caller[Concatenate[B, ...], C]", /
) -> C: ...
@overload
async def chain(
    job: Job[A],
    first: "Caller[Concatenate[A, ...], B]",
    second: "Caller[Concatenate[B, ...], C]",
    third: "Caller[Concatenate[C, ...], D]",
    /,
) -> D: ...
async def chain(job: Job[Any], *functions: "Caller[..., Any]") -> object:
    """Give each result to the next function, and return the last one, as ``await parse.call(await job.result())`` does.

    The first that fails ends the chain, and its error says which it was. Cancelling this cancels the one that runs.

    Args:
        job: The first.
        functions: What is called with its result, what with the result of that, …

    Raises:
        JobFailed: As ``Caller.call`` does, also the others there.
    """
    try:
        value = await job.result()
    finally:
        await job.close()
    for function in functions:
        value = await function.call(value)
    return value
