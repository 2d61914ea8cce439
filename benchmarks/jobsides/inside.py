"""Broker, client and worker in one process, without a socket: what a program has that does its own jobs.

    python -m jobsides.inside 20000 500

Prints jobs in a second, processor seconds for each, and the milliseconds of single ones until their results are back.
"""

import json
import os
import sys
import time
from itertools import repeat

import trio

from jobsides.triomq_side import async_answer, async_noop, jobs
from triomq import open_broker
from triomq.jobs.worker import open_worker


async def run(count: int) -> tuple[float, float]:
    """Return seconds, and processor seconds, of so many jobs."""
    began, spent = time.perf_counter(), time.process_time()
    handles = await async_noop.map(repeat(0, count))
    for handle in handles:
        await handle.result()
    return time.perf_counter() - began, time.process_time() - spent


async def trip() -> float:
    """Return the milliseconds of one job."""
    began = time.perf_counter()
    await async_answer.call(1)
    return (time.perf_counter() - began) * 1000


async def main(count: int, trips: int) -> None:
    """Measure."""
    async with open_broker() as broker, jobs.connect(broker), open_worker(jobs, broker):
        await run(count // 10)
        seconds, processor = await run(count)
        taken = [await trip() for _ in range(trips)]
    print(json.dumps({"rate": count / seconds, "processor": processor / count, "trips": taken}))


if __name__ == "__main__":
    os.environ.setdefault("JOBS_COUNTS", ".")
    from jobsides import inside

    trio.run(inside.main, int(sys.argv[1]), int(sys.argv[2]))
