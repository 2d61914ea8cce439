"""Jobs in tests: a broker, a worker and the code that sends, in one Trio run and in virtual time.

    test ── f.send() ──> memory ──> broker ──> memory ──> worker, here ──┬─ result ──> test
                                                                         └─ failure ──> wait_idle raises it

Nothing of it is a stand-in: the same engines, the same queues, the same retries as over a network. What differs is that
the clock jumps, so that an hour of backoff takes no time, and that errors are here, where the test can see them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import trio
import trio.testing

from triomq.app.broker import Broker
from triomq.jobs import Jobs, Middleware, RunningJob

_PATIENCE: Final = 10.0
"""Seconds of real time after which ``wait_idle`` gives up: whoever waits for longer wants virtual time."""

_CONCURRENCY: Final = 100
"""Async jobs at a time, as ``triomq worker`` has it."""


class _Watch(Middleware):
    """Remembers what jobs have raised for good, until it is raised where the test sees it."""

    def __init__(self) -> None:
        self.failures: dict[str, BaseException] = {}

    def failed(self, job: RunningJob, error: BaseException) -> None:
        if not isinstance(error, trio.Cancelled):
            error.add_note(f"Raised by job {job.name} {job.id}, attempt {job.attempt}, in queue {job.queue!r}.")
            self.failures[job.id] = error

    def forget(self, job: str) -> None:
        """Forget what a job has raised: its caller has it."""
        self.failures.pop(job, None)


class JobsInTest:
    """What the fixture ``jobs`` is: any number of ``Jobs``, with one broker, for one test.

    Args:
        broker: The test's.
        nursery: For what ends with the test.
    """

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        """The broker, to look into queues, or to publish by another protocol."""
        self._watch = _Watch()
        self._nursery = nursery
        self._over = trio.Event()
        self._wait_broker_idle = broker.wait_idle

    async def work(self, *registries: Jobs, concurrency: int = _CONCURRENCY) -> None:
        """Connect some ``Jobs`` with the broker, and run their jobs here, until the test has ended.

        Sync jobs run here too, one at a time: a test has no need of processes, and can patch what they use.

        Args:
            registries: Whose jobs.
            concurrency: How many async jobs run at a time, of each.

        Raises:
            ConfigError: A job's annotations cannot be used.
            AlreadyConnected: They are connected with something else.
        """
        for registry in registries:
            await self.connect(registry)
            await self._nursery.start(self._hold, registry.work(self.broker, concurrency=concurrency))

    async def connect(self, *registries: Jobs) -> None:
        """Connect some ``Jobs`` with the broker, until the test has ended; what is sent waits in its queue.

        Raises:
            AlreadyConnected: They are connected with something else.
        """
        for registry in registries:
            await self._nursery.start(self._hold, self._connected(registry))

    @asynccontextmanager
    async def _connected(self, registry: Jobs) -> AsyncIterator[None]:
        before = registry.middleware
        async with registry.connect(self.broker):
            registry.middleware = (*before, self._watch)
            registry.link().raised = self._watch.forget  # type: ignore[method-assign]  # of this one connection
            try:
                yield
            finally:
                registry.middleware = before

    async def _hold(
        self,
        context: AbstractAsyncContextManager[object],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with context:
            task_status.started()
            await self._over.wait()

    async def wait_idle(self) -> None:
        """Wait until all that was sent is done, retries and delayed jobs included, and raise what jobs have raised.

        One error is raised as it is, so that ``pytest.raises`` finds it; several are a group. What somebody got by
        ``call``, ``result`` or ``gather``, in the test or in a job, is not raised again. Schedules go on for ever and
        are not waited for: sleep as long as you want to see of them.

        Raises:
            TimeoutError: This runs in real time, and what is to come takes longer than ten seconds.
        """
        await _within_patience(self._wait_broker_idle, self.broker)
        failures = self.failures
        self._watch.failures.clear()
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise BaseExceptionGroup(f"{len(failures)} jobs have failed", failures)

    @property
    def failures(self) -> list[BaseException]:
        """What jobs have raised for good, after their last attempt, and neither callers nor ``wait_idle`` got yet."""
        return list(self._watch.failures.values())

    @property
    def now(self) -> datetime:
        """The time that schedules go by, in UTC; virtual time begins with the year 2000."""
        return datetime.fromtimestamp(self.broker.context.unix_time(), UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """Sleep until a moment of that time.

        Raises:
            ValueError: It has no time zone, or has passed.
        """
        if moment.tzinfo is None:
            raise ValueError(f"{moment} has no time zone: write datetime(…, tzinfo=UTC), or ZoneInfo('Europe/Oslo')")
        seconds = (moment - self.now).total_seconds()
        if seconds < 0:
            raise ValueError(f"{moment} has passed: it is {self.now}; virtual time begins with the year 2000")
        await trio.sleep(seconds)

    def end(self) -> None:
        """End workers and connections."""
        self._over.set()


async def _within_patience(wait: Callable[[], Awaitable[None]], broker: Broker) -> None:
    if isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock):
        await wait()
        return
    with trio.move_on_after(_PATIENCE) as patience:
        await wait()
    if patience.cancelled_caught:
        raise TimeoutError(
            f"not idle within {_PATIENCE:g} s: {broker.describe_busy()}. If it waits for a retry or a delay, let the "
            "test take the fixture `autojump_clock` too: in virtual time that takes no time"
        )


@asynccontextmanager
async def open_jobs_in_test(broker: Broker) -> AsyncIterator[JobsInTest]:
    """Open what the fixture ``jobs`` is; ``broker.wait_idle`` raises what jobs have raised from now on."""
    async with trio.open_nursery() as nursery:
        jobs = JobsInTest(broker, nursery)
        broker.wait_idle = jobs.wait_idle  # type: ignore[method-assign]  # of this one broker
        yield jobs
        jobs.end()
