"""``triomq worker --pool spark``: workers on executors, until a signal stops them, in two steps as any worker."""

import logging
import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from triomq.app.logs import set_up_logging
from triomq.app.work import WorkSettings
from triomq.errors import ConfigError, PipelineError
from triomq.jobs import Jobs
from triomq.jobs.worker import load_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from triomq.pipeline import SparkWorkers

_log = logging.getLogger("triomq.worker")

_CONF: Final = {
    # A task's failure is a machine that has gone; in weeks there are more of these than Spark's 4.
    "spark.task.maxFailures": 1_000_000,
    # A bar that stands still for as long as there are workers.
    "spark.ui.showConsoleProgress": "false",
}


class SparkSettings(NamedTuple):
    """What ``--pool spark`` is to do.

    Args:
        work: What each worker is to do.
        master: Of Spark; what is configured if empty.
        workers: How many there are; as many as there are slots if 0.
        processes: Of each worker; as many as a task has processors if None.
    """

    work: WorkSettings
    master: str
    workers: int
    processes: int | None


def run_spark_pool(settings: SparkSettings, *, started: Callable[[Jobs], None]) -> int:
    """Have workers on executors until a signal comes, with a log, a Spark session and an event loop of its own.

    Returns:
        The exit code for the process: 0 after a drain, 128 plus the signal's number when cut.

    Raises:
        ConfigError: There is no such registry, or it has a mistake; there is no Spark, or the workers cannot start.
    """
    set_up_logging(settings.work.log)
    jobs = load_jobs(settings.work.target)  # a mistake is better found before Spark starts
    jobs.check()
    try:
        from triomq.pipeline import open_session
    except ModuleNotFoundError as error:
        raise ConfigError(f"--pool spark: {error}; pip install 'triomq[spark]'") from None
    try:
        with open_session(f"triomq worker {settings.work.target}", master=settings.master, conf=_CONF) as spark:
            started(jobs)
            return trio.run(_work, spark, settings)
    except PipelineError as error:
        raise ConfigError(str(error)) from None


async def _work(spark: "SparkSession", settings: SparkSettings) -> int:
    from triomq.pipeline import open_spark_workers

    work = settings.work
    opened = open_spark_workers(
        spark,
        work.target,
        broker=work.broker,
        workers=settings.workers,
        processes=settings.processes,
        options=_options(work),
    )
    ending = _TwoSignals()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals, ending.everything:
        async with opened as workers, trio.open_nursery() as nursery:
            nursery.start_soon(ending.signals, signals, workers)
            nursery.start_soon(_log_ready, workers)
            await workers.wait()
            nursery.cancel_scope.cancel()
    _log.info("workers have ended", extra={"fields": {"started": workers.statistics().started}})
    return ending.exit_code


def _options(work: WorkSettings) -> list[str]:
    queues = ",".join(f"{name}:{weight}" for name, weight in work.queues.items())
    options = ["--queues", queues, "--concurrency", str(work.concurrency)]
    return [*options, "--log-level", work.log.level, "--log-format", work.log.format]


class _TwoSignals:
    """What signals do: the first one drains, the second one cuts."""

    def __init__(self) -> None:
        self.everything = trio.CancelScope()
        self.exit_code = 0

    async def signals(self, signals: AsyncIterator[int], workers: "SparkWorkers") -> None:
        """Obey two of them."""
        number = await anext(signals)
        _log.info("draining", extra={"fields": {"signal": signal.Signals(number).name}})
        workers.drain()
        number = await anext(signals)
        self.exit_code = 128 + number
        self.everything.cancel()


async def _log_ready(workers: "SparkWorkers") -> None:
    tasks = workers.statistics().tasks
    _log.info("workers are started on executors", extra={"fields": {"workers": tasks}})
    await workers.wait_ready(tasks)
    hosts = workers.statistics().hosts
    _log.info("workers are ready", extra={"fields": dict(sorted(hosts.items()))})
