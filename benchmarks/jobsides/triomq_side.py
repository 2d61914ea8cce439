"""triomq's side: its jobs, for its workers, and its client."""

import json
import os
import socket
import sys
import time
from contextlib import suppress
from itertools import repeat
from typing import Any

import trio
from trio.socket import SocketType

from jobsides import counting
from triomq import Jobs
from triomq.jobs import JobFunction

jobs = Jobs()


@jobs.job
def noop(number: int) -> None:
    counting.count()


@jobs.job
def nap(number: int) -> None:
    time.sleep(0.01)
    counting.count()


@jobs.job
async def async_noop(number: int) -> None:
    counting.count()


@jobs.job
async def async_nap(number: int) -> None:
    await trio.sleep(0.01)
    counting.count()


@jobs.job
def knock() -> None:
    counting.knock()


@jobs.job
def answer(number: int) -> int:
    return number


@jobs.job
async def async_answer(number: int) -> int:
    return number


MANY: dict[str, JobFunction[[int], Any, None]] = {
    "noop": noop,
    "nap": nap,
    "async_noop": async_noop,
    "async_nap": async_nap,
}


async def do(knocks: SocketType, verb: str, *words: str) -> object:
    """Do what `driving.py` describes, without a thread between."""
    began = time.perf_counter()
    if verb == "send":
        await MANY[words[0]].map(repeat(0, int(words[1])))
    elif verb == "one":
        for _ in range(int(words[1])):
            await MANY[words[0]].send(0)
    elif verb == "delay":
        await noop.using(delay=3600.0).map(repeat(0, int(words[0])))
    else:
        return [await trip(knocks, verb) for _ in range(int(words[0]))]
    return time.perf_counter() - began


async def trip(knocks: SocketType, verb: str) -> float:
    """Return the milliseconds of one job."""
    began = time.perf_counter()
    if verb == "trip":
        await knock.send()
        await knocks.recv(1)
    elif verb == "call":
        await answer.call(1)
    else:
        await async_answer.call(1)
    return (time.perf_counter() - began) * 1000


async def main() -> None:
    """Do what is asked until there are no lines any more."""
    with suppress(FileNotFoundError):
        os.unlink(os.environ["JOBS_KNOCK"])
    knocks = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    await knocks.bind(os.environ["JOBS_KNOCK"])
    async with jobs.connect(os.environ["JOBS_BROKER"]):
        print("ready", flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            print(json.dumps(await do(knocks, *line.split())), flush=True)


if __name__ == "__main__":
    # What workers import, not `__main__`: names of jobs have their module in them.
    from jobsides import triomq_side

    trio.run(triomq_side.main)
