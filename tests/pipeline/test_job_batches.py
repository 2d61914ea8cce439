"""Jobs in bulk on the executors of a Spark, without a broker."""

import datetime
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from triomq.errors import ConfigError, PipelineError, UnknownJob
from triomq.jobs import Jobs
from triomq.pipeline import run_batch

from .pooled_jobs import add, begin, crash, fail, hang, jobs, leave, leave_the_loop, where


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors find the jobs where they are: the folder in which the driver was started."""
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.mark.spark
def test_each_job_of_a_batch_ends_alone(spark: SparkSession) -> None:
    orders = [add.order(place, second=2) for place in range(20)]
    orders[3:3] = [fail.order("on purpose"), crash.order(), hang.order(), where.order()]
    orders += [leave.order(), leave_the_loop.order()]
    before = datetime.datetime.now()
    rows = run_batch(spark, jobs, orders, partitions=2).collect()
    left = [rows.pop(), rows.pop()]
    assert [(row.status, row.error_type, row.error) for row in left] == [
        ("failed", "SystemExit", "4"), ("failed", "SystemExit", "3")
    ]  # fmt: skip
    assert [row.job_id for row in rows] == [*map(str, range(24))]
    assert [row.status for row in rows[3:7]] == ["failed", "crashed", "timeout", "ok"]
    good = rows[:3] + rows[7:]
    assert [row.result for row in good] == [str(place + 2) for place in range(20)]
    assert {row.status for row in good} == {"ok"}
    assert {row.host for row in rows} == {socket.gethostname()}
    assert {row.attempt for row in rows} == {1}
    assert {row.partition for row in rows} == {0, 1}
    failed, crashed, hung = rows[3:6]
    assert (failed.error_type, failed.error, failed.result) == ("ValueError", "on purpose", None)
    assert "raise ValueError(text)" in failed.traceback
    assert "SIGSEGV" in crashed.error
    assert hung.wall_ms > 1000
    assert all(before <= row.started for row in rows)


@pytest.mark.spark
def test_using_what_a_batch_has_returned_runs_nothing_again(spark: SparkSession) -> None:
    table = run_batch(spark, "pipeline.pooled_jobs:jobs", {"one": where.order(), "two": add.order(1)})
    assert table.count() == 2
    assert [row.started for row in table.collect()] == [row.started for row in table.collect()]
    assert table.select("job_id").collect() == [Row(job_id="one"), Row(job_id="two")]
    assert run_batch(spark, jobs, []).schema == table.schema


@pytest.mark.spark
def test_batch_is_cancelled_by_its_tag(spark: SparkSession, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)

    def cancel() -> None:
        assert begun.read_text() == "begun"
        spark.sparkContext.cancelJobsWithTag("nightly")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(PipelineError, match="the batch has failed: it was cancelled"):
        run_batch(spark, jobs, [begin.order(str(begun))], tag="nightly")
    canceller.join()


@pytest.mark.spark
def test_module_that_executors_lack_is_named(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="the batch has failed: there is no module 'nowhere' here"):
        run_batch(spark, "nowhere:jobs", [add.order(1)])


def test_job_that_is_not_registered_is_refused_before_anything_runs() -> None:
    other = Jobs()

    @other.job
    def stranger() -> None: ...

    @other.job
    def letters() -> Iterator[str]:
        yield "a"

    with pytest.raises(UnknownJob, match=r"stranger is not in this registry; there are pipeline.pooled_jobs.add, "):
        run_batch(object(), jobs, [stranger.order()])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="letters is a generator"):
        run_batch(object(), "x:y", [letters.order()])  # type: ignore[arg-type, attr-defined]
