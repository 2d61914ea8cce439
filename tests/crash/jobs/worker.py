"""A worker for a test that kills it: ``python -m crash.jobs.worker PORT LOG SLOTS``.

Its jobs run in its own loop.
"""

import argparse

import trio

from triomq.clients.emqp.job import EMQPJob
from triomq.clients.emqp.opening import open_emqp_worker

from .log import Log
from .task import QUEUE, URL, shown, task_of


async def do(job: EMQPJob, log: Log) -> None:
    """Do what a job wants: take some time, and perhaps fail."""
    task = task_of(job.message)
    log.write("begin", shown(job.id), job.attempt)
    await trio.sleep(task.seconds)
    fails = job.attempt <= task.failures
    log.write("failed" if fails else "ended", shown(job.id), job.attempt)
    if fails:
        job.fail(RuntimeError("as it was told"))
    else:
        job.reply(b'{"value": %d}' % task.number)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("log")
    parser.add_argument("slots", type=int)
    given = parser.parse_args()
    log = Log(given.log)
    async with (
        open_emqp_worker(URL.format(given.port), [QUEUE], slots=given.slots) as worker,
        trio.open_nursery() as nursery,
    ):
        async for job in worker:
            nursery.start_soon(do, job, log)


if __name__ == "__main__":
    trio.run(main)
