"""A worker for a test that kills it: ``python -m crash.jobs.worker PORT LOG SLOTS``.

It writes a line to the log when a job begins, and one when it has ended, each at once and whole, so that they are there
whatever happens to it.
"""

import argparse
import os
import time

import msgspec
import trio

from triomq.clients.emqp.job import EMQPJob
from triomq.clients.emqp.opening import open_emqp_worker

from .task import QUEUE, Task, shown


class Log:
    """Lines of what jobs do."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str, job: EMQPJob) -> None:
        os.write(self._file, f"{what} {shown(job.id)} {job.attempt} {os.getpid()} {time.monotonic()}\n".encode())


async def do(job: EMQPJob, log: Log) -> None:
    """Do what a job wants: take some time, and perhaps fail."""
    task = msgspec.json.decode(job.message, type=Task)
    log.write("begin", job)
    await trio.sleep(task.seconds)
    fails = job.attempt <= task.failures
    log.write("failed" if fails else "ended", job)
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
    log, url = Log(given.log), f"emqp://127.0.0.1:{given.port}?heartbeat=0.5&silence=3&timeout=60"
    async with open_emqp_worker(url, [QUEUE], slots=given.slots) as worker, trio.open_nursery() as nursery:
        async for job in worker:
            nursery.start_soon(do, job, log)


if __name__ == "__main__":
    trio.run(main)
