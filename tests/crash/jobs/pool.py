"""A worker whose jobs run in processes: ``python -m crash.jobs.pool PORT LOG``. Any of them may be killed."""

import argparse
import os
import time

import trio

from triomq import Jobs, current_job
from triomq.jobs.worker import open_worker

from .log import Log
from .task import QUEUE, URL, Task

LOG = "CRASH_LOG"
"""The variable with the path of the log, for processes of jobs too."""

jobs = Jobs()


@jobs.job(queue=QUEUE, name="crash.do")
def do(task: Task) -> int:
    """Do what a job is told."""
    log, job = Log(os.environ[LOG]), current_job()
    log.write("begin", job.id, job.attempt)
    time.sleep(task.seconds)
    fails = job.attempt <= task.failures
    log.write("failed" if fails else "ended", job.id, job.attempt)
    log.close()
    if fails:
        raise RuntimeError("as it was told")
    return task.number


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("log")
    given = parser.parse_args()
    os.environ[LOG] = given.log
    from crash.jobs import pool  # this module is `__main__`, and its processes know it by its name

    async with open_worker(pool.jobs, URL.format(given.port), processes=4, target="crash.jobs.pool:jobs"):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
