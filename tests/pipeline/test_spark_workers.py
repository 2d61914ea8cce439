"""Workers on executors, between a broker here and a Spark on this machine."""

import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import py4j
import pyspark
import pytest
import trio
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from ports import free_port
from triomq import EMQP, open_broker
from triomq.errors import JobFailed, JobTimedOut, PipelineError, WorkerLost
from triomq.pipeline import SPARK_ERRORS, SparkWorkers, open_spark_workers
from triomq.pipeline.spark_failures import failed_tasks

from .pooled_jobs import add, begin, crash, fail, hang, jobs, leave, leave_the_loop, where

TARGET = "pipeline.pooled_jobs:jobs"
HERE = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors find the jobs where they are: the folder in which the driver was started."""
    monkeypatch.chdir(HERE)


@asynccontextmanager
async def working(
    spark: SparkSession, target: str = TARGET, workers: int = 2, **options: str
) -> AsyncIterator[SparkWorkers]:
    """Open a broker and workers, and connect the jobs."""
    with trio.fail_after(100):
        async with open_broker(EMQP(port=0), drain=0.2) as broker:
            url = f"emqp://127.0.0.1:{broker.listening[0].port}"
            async with (
                jobs.connect(url),
                open_spark_workers(spark, target, broker=url, workers=workers, **options) as opened,  # type: ignore[arg-type]
            ):
                yield opened


@pytest.mark.spark
async def test_jobs_run_on_executors_and_each_ends_alone(spark: SparkSession) -> None:
    async with working(spark) as workers:
        await workers.wait_ready(2)
        assert workers.statistics().ready == workers.statistics().started == 2
        calls = await add.map(range(100), second=2)
        assert [await call.result() for call in calls] == list(range(2, 102))
        with pytest.raises(JobFailed, match="ValueError: on purpose"):
            await fail.call("on purpose")
        slow = await hang.send()
        with pytest.raises(WorkerLost, match="SIGSEGV"):
            await crash.call()
        with pytest.raises(JobFailed, match="SystemExit: 3"):
            await leave.call()
        with pytest.raises(JobFailed, match="SystemExit: 4"):
            await leave_the_loop.call()
        with pytest.raises(JobTimedOut):
            await slow.result()
        assert await add.call(1) == 2
    assert not workers.statistics().connected
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


@pytest.mark.spark
async def test_worker_that_dies_is_started_again_in_the_same_task(spark: SparkSession) -> None:
    async with working(spark, workers=1) as workers:
        task = await where.call()
        await workers.wait_ready()
        worker = (await trio.Path(f"/proc/{task}/task/{task}/children").read_text()).split()
        os.kill(int(worker[0]), signal.SIGKILL)
        assert await where.call() == task
        assert workers.statistics().started == 2


@pytest.mark.spark
async def test_module_that_executors_lack_ends_all_with_its_name(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"cannot be loaded on .*: ConfigError: there is no module 'nowhere' here"):
        async with working(spark, "nowhere:jobs") as workers:
            await workers.wait()


BROKEN = {
    "raise ValueError('no licence')": r"cannot be loaded on .*: ValueError: no licence",
    "import sys; sys.exit('no licence')": r"cannot be loaded on .*: SystemExit: no licence",
    "import os; os.abort()": r"the worker on .* has ended before it had its jobs: its process ended with -6",
}


@pytest.mark.spark
@pytest.mark.parametrize("text", BROKEN)
async def test_module_that_ends_where_it_is_imported_ends_all(
    spark: SparkSession, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=BROKEN[text]):
        async with working(spark, "broken:jobs", workers=1) as workers:
            await workers.wait()


@pytest.mark.spark
async def test_executor_without_triomq_ends_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, bare = tmp_path / "site", tmp_path / "python"
    site.mkdir()
    for package in (py4j, pyspark):
        (site / package.__name__).symlink_to(Path(package.__file__).parent)
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(PipelineError, match="an executor has no triomq; install it there"):
        async with working(spark) as workers:
            await workers.wait()


@pytest.mark.spark
def test_failed_tasks_of_a_group_are_counted(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "doomed")
    try:
        with pytest.raises(SPARK_ERRORS, match="ZeroDivisionError"):
            context.parallelize(range(2), 1).map(lambda number: 1 // number).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert (failed_tasks(context, "doomed"), failed_tasks(context, "nobody's")) == (1, 0)


@pytest.mark.spark
async def test_tasks_are_ended_by_a_tag_and_the_broker_has_their_jobs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "begun")
    with pytest.raises(PipelineError, match="it was cancelled"):  # noqa: PT012  # the block is what this is about
        async with working(spark, workers=1, tag="weekly") as workers:
            job = await begin.send(str(tmp_path / "begun"))
            assert await trio.Path(tmp_path / "begun").read_text() == "begun"
            await trio.to_thread.run_sync(spark.sparkContext.cancelJobsWithTag, "weekly")
            while (await job.state()).state not in ("waiting", "delayed"):  # noqa: ASYNC110  # nobody else would tell
                await trio.sleep(0.05)
            await workers.wait()


@pytest.mark.spark
async def test_loop_makes_no_call_into_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, callers, send = threading.get_ident(), set(), ClientServerConnection.send_command

    def sending(self: ClientServerConnection, command: str) -> str:
        callers.add(threading.get_ident())
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", sending)
    async with working(spark, workers=1):
        assert await add.call(1) == 2
    assert callers
    assert ours not in callers


@pytest.mark.spark
async def test_workers_outlast_their_broker(spark: SparkSession) -> None:
    port = free_port()
    url = f"emqp://127.0.0.1:{port}"
    with trio.fail_after(100):
        async with open_spark_workers(spark, TARGET, broker=url, workers=1) as workers:
            for _ in range(2):
                async with open_broker(EMQP(port=port), drain=0.2), jobs.connect(url):
                    assert await add.call(1) == 2
            assert workers.statistics().started == 1


@pytest.mark.spark
async def test_error_in_the_block_ends_the_tasks(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block is what this is about
        async with working(spark) as workers:
            await workers.wait_ready()
            raise ZeroDivisionError
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


async def test_session_of_connect_is_refused() -> None:
    with pytest.raises(PipelineError, match="a driver of its own"):
        async with open_spark_workers(object(), TARGET, broker=""):  # type: ignore[arg-type]
            pass
