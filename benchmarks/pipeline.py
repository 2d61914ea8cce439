"""Measure jobs on the executors of a Spark: through the pool of workers, in bulk, and over the rows of a table.

    python benchmarks/pipeline.py [--only trip pool-10000 …] [--rounds 5] [--rows 100000]

Spark is `local[2]` in this process, the broker a process of its own without a data directory; both are warm: each item
is done once before it is measured. Jobs do nothing, and each result is waited for.

trip          one job into an idle pool, again and again: milliseconds until its result is back, the median and the 95th
              of a hundred
pool-N        N jobs by `.map()` and `gather`, until the last result is back, from a client in this process
batch-N       N jobs by `run_batch`, until its table is there
map           `map_on` over rows of one number, counted
pool-start    from `open_spark_workers` until all workers have their jobs

Plain functions run in processes, `async` ones in the loops of workers. The best round is shown beside the median: other
work on the machine only ever makes it slower. There are two workers with one process each.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio
from pyspark.sql import SparkSession

from amqp import write_json
from jobs import open_ours
from sparkside.noops import async_noop, double, jobs, noop
from triomq.jobs import JobFunction, gather
from triomq.pipeline import open_spark_workers, run_batch, session

TARGET = "sparkside.noops:jobs"
Noop: TypeAlias = JobFunction[[int], Any, Any]
TRIPS = 100
WARM_UP = 2000


class Row(msgspec.Struct, frozen=True):
    """What was measured of one item, in each round: seconds, or milliseconds for `trip`."""

    name: str
    title: str
    jobs: int
    rounds: list[float]

    def text(self) -> str:
        """Return a line of the table."""
        best, median = min(self.rounds), statistics.median(self.rounds)
        if not self.jobs:
            return f"{self.name:20} {self.title:46} {median:10.3f} {best:10.3f}"
        rates = f"{self.jobs / median:>12,.0f}/s {self.jobs / best:>12,.0f}/s"
        return f"{self.name:20} {self.title:46} {median:10.3f} {best:10.3f} {rates}"


Measure = Callable[[], Awaitable[float]]


async def pooled(job: Noop, count: int) -> float:
    """Send jobs, and wait for all results."""
    began = time.perf_counter()
    await gather(await job.map(range(count)))
    return time.perf_counter() - began


async def trip(job: Noop, share: float) -> float:
    """Send one job at a time, with a pause in which the pool falls idle; return milliseconds."""
    times = []
    for number in range(TRIPS):
        await trio.sleep(0.01)
        began = time.perf_counter()
        await job.call(number)
        times.append(time.perf_counter() - began)
    return sorted(times)[int(share * TRIPS)] * 1000


async def batch(spark: SparkSession, job: Noop, count: int) -> float:
    """Run jobs in bulk."""
    began = time.perf_counter()
    orders = [job.order(number) for number in range(count)]
    table = await trio.to_thread.run_sync(partial(run_batch, spark, jobs, orders))
    taken = time.perf_counter() - began
    bad = await trio.to_thread.run_sync(table.where("status != 'ok'").count)
    assert not bad, f"{bad} jobs of the batch have failed"
    return taken


async def mapped(spark: SparkSession, rows: int) -> float:
    """Run a job over a table."""
    began = time.perf_counter()
    table = double.map_on(spark, spark.range(0, rows, 1, 2).withColumnRenamed("id", "number"))
    good = await trio.to_thread.run_sync(table.where("error IS NULL AND result = 2 * number").count)
    assert good == rows, f"{rows - good} rows have no result"
    return time.perf_counter() - began


class Works:
    """All items, in the order in which they are measured."""

    def __init__(self, chosen: Sequence[str], rounds: int) -> None:
        self._chosen = chosen
        self._rounds = rounds
        self.rows: list[Row] = []

    async def measure(self, name: str, title: str, count: int, measure: Measure, *, is_cold: bool = False) -> None:
        """Measure an item, if it was chosen."""
        if self._chosen and not any(name == each or name.startswith(f"{each}-") for each in self._chosen):
            return
        if not is_cold:
            await measure()
        row = Row(name, title, count, [await measure() for _ in range(self._rounds)])
        self.rows.append(row)
        print(row.text(), flush=True)


async def measure_all(spark: SparkSession, url: str, works: Works, rows: int) -> None:
    """Measure what was chosen."""
    kinds: list[tuple[str, Noop]] = [("process", noop), ("async", async_noop)]

    async def start() -> float:
        began = time.perf_counter()
        async with open_spark_workers(spark, TARGET, broker=url, workers=2) as workers:
            await workers.wait_ready(2)
            return time.perf_counter() - began

    await works.measure("pool-start", "two workers ready", 0, start, is_cold=True)
    async with open_spark_workers(spark, TARGET, broker=url, workers=2) as workers, jobs.connect(url):
        await workers.wait_ready(2)
        for kind, job in kinds:
            await pooled(job, WARM_UP)
            await works.measure(
                f"trip-{kind}-p50", f"one {kind} job, idle pool: ms, median", 0, partial(trip, job, 0.5)
            )
            await works.measure(f"trip-{kind}-p95", f"one {kind} job, idle pool: ms, 95th", 0, partial(trip, job, 0.95))
            for count in (1, 100, 10_000):
                title = f"{count:,} {kind} jobs through the pool"
                await works.measure(f"pool-{count}-{kind}", title, count, partial(pooled, job, count))
    for kind, job in kinds:
        for count in (1, 100, 10_000):
            title = f"{count:,} {kind} jobs by run_batch"
            await works.measure(f"batch-{count}-{kind}", title, count, partial(batch, spark, job, count))
    await works.measure("map", f"{rows:,} rows by map_on", rows, partial(mapped, spark, rows))


def main() -> None:
    """Measure what was chosen and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="ITEM", help="the names above; with -async or -process"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000, help="of `map`")
    parser.add_argument("--json", help="write each round to this file")
    options = parser.parse_args()
    os.chdir(Path(__file__).parent)  # where workers on executors look for modules
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    began = time.perf_counter()
    spark = session("benchmark of jobs", master="local[2]", conf=conf)
    print(f"the session has started in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    print(f"{'':67} {'median':>10} {'best':>10} {'median':>14} {'best':>14}")
    works = Works(options.only, options.rounds)
    try:
        with open_ours(is_sure=False) as broker:
            trio.run(measure_all, spark, broker.url, works, options.rows)
    finally:
        spark.stop()
    if options.json:
        write_json(Path(options.json), works.rows)


if __name__ == "__main__":
    main()
