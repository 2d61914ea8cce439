"""Jobs of a shop, and a worker that is as small as one can be."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import trio

from triomq.app import Broker
from triomq.clients import EMQPConnector, EMQPJob, open_emqp_worker
from triomq.errors import JobFailed
from triomq.jobs import JobCall, JobDefinition, Jobs, RunningJob, current_job, running
from triomq.jobs.failures import describe


class Shop:
    """Some jobs; ``work`` runs them."""

    def __init__(self) -> None:
        self.jobs = jobs = Jobs()
        self.where: str | EMQPConnector = ""
        self.broker: Broker
        self.seen: list[RunningJob] = []
        self.cancelled: list[str] = []

        @jobs.job(retries=0)
        async def sell(order: int, *, price: float = 1.0) -> str:
            return f"{order} for {price}"

        @jobs.job(retries=0)
        def add(a: int, b: int = 0) -> int:
            return a + b

        @jobs.job(retries=0)
        async def fail(text: str) -> None:
            raise ValueError(text)

        @jobs.job(retries=0)
        async def fail_twice(text: str) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail, text)
                nursery.start_soon(fail, text)

        @jobs.job(retries=0)
        async def sleep(seconds: float = 1000.0) -> None:
            await trio.sleep(seconds)

        @jobs.job(retries=0)
        async def parent(order: int) -> str:
            return await sell.call(order)

        @jobs.job(retries=0)
        async def count(most: int) -> AsyncIterator[int]:
            for number in range(most):
                yield number

        @jobs.job(retries=0)
        async def report() -> None:
            current_job().progress({"done": 1})
            current_job().progress({"done": 2})
            await trio.sleep(0.3)

        @jobs.job(retries=0)
        async def family() -> None:
            for _ in range(2):
                await sleep.send()
            await trio.sleep(1000)

        @jobs.job(retries=0)
        async def broken_count(most: int) -> AsyncIterator[int]:
            for number in range(most):
                yield number
            raise ValueError("no more")

        @jobs.job(retries=0)
        async def broken_family() -> None:
            await sleep.send()
            failures = []
            for child in [await fail.send("child 1"), await fail.send("child 2")]:
                try:
                    await child.result()
                except JobFailed as failure:
                    failures.append(failure)
            raise ExceptionGroup("children", failures)

        self.broken_family = broken_family
        self.report, self.family, self.broken_count = report, family, broken_count
        self.sell, self.add, self.fail, self.fail_twice = sell, add, fail, fail_twice
        self.sleep, self.parent, self.count = sleep, parent, count

    async def work(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run what comes, all at the same time."""
        async with (
            open_emqp_worker(self.where, ["default", "other"], slots=100) as worker,
            trio.open_nursery() as nursery,
        ):
            task_status.started()
            async for job in worker:
                nursery.start_soon(self._run, job)

    async def _run(self, job: EMQPJob) -> None:
        definition: JobDefinition | None = None
        try:
            definition = self.jobs.definition_of(job.message)
            here = RunningJob(
                job.id.decode(), definition.name, queue=job.queue, attempt=job.attempt, deadline=job.deadline,
                clock=trio.current_time, trace=job.extension.trace, report=lambda kind, value: job.progress(value),
            )  # fmt: skip
            self.seen.append(here)
            with running(here), trio.CancelScope() as scope:
                job.on_cancel = scope.cancel
                result = await self._result(definition.bind(job.message), job)
            if scope.cancelled_caught:
                self.cancelled.append(definition.name)
                job.end("cancelled")
            else:
                job.reply(definition.encode_result(result))
        except Exception as error:
            failure = describe(error)
            message, text = failure.payload(), failure.message
            retry = definition is not None and definition.is_worth_retry(error)
            job.end("failed", message=message, type=failure.type, text=text, traceback=failure.traceback, retry=retry)

    async def _result(self, call: JobCall, job: EMQPJob) -> object:
        made = call.run()
        if call.definition.is_stream:
            async with aclosing(made) as items:  # type: ignore[type-var]  # it is an async generator
                async for item in items:  # type: ignore[attr-defined]  # as above
                    await job.item(call.definition.encode_item(item))
            return None
        return await made if call.definition.is_async else made  # type: ignore[misc]  # it is a coroutine
