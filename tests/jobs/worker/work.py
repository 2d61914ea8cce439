"""The jobs that the tests' workers run; written to be imported by child processes too."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import trio

from triomq.jobs import Jobs, current_job

jobs = Jobs()
both = Jobs()
"""Sync and async ones, in one queue."""


@jobs.job(name="nothing")
def nothing() -> None:
    pass


@jobs.job(name="record")
def record(path: str, number: int) -> int:
    """Append a line, in one write, so that a test sees how often each ran."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b"%d\n" % number)
    os.close(descriptor)
    return number


@jobs.job(name="wait_for", timeout=60)
def wait_for(begun: str, go: str) -> str:
    """Say so in one fifo, and wait for the other."""
    with open(begun, "w") as begin:
        begin.write("begun")
    with open(go) as end:
        return end.read()


@jobs.job(name="hang")
def hang(begun: str) -> None:
    """Say so in a fifo, and never end."""
    with open(begun, "w") as begin:
        begin.write("begun")
    while True:
        signal.pause()


@jobs.job(name="hang_in_c")
def hang_in_c(begun: str) -> None:
    """Say so in a fifo, and work in C with the interpreter's lock, where no signal is looked at."""
    with open(begun, "w") as begin:
        begin.write("begun")
    sum(range(10**15))


@jobs.job(name="pause", timeout=0.2)
def pause() -> None:
    while True:
        signal.pause()


@jobs.job(name="stop_when_asked")
def stop_when_asked(begun: str) -> None:
    """Say so in a fifo, and look whether it is to stop."""
    with open(begun, "w") as begin:
        begin.write("begun")
    while True:
        current_job().check()


@jobs.job(name="die")
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job(name="leave")
def leave() -> None:
    sys.exit(3)


@jobs.job(name="fail")
def fail(text: str) -> None:
    raise ValueError(text)


@jobs.job(name="process_number")
def process_number() -> int:
    return os.getpid()


@jobs.job(name="echo")
def echo(text: str) -> str:
    return text


@jobs.job(name="count_to")
def count_to(number: int) -> Iterator[int]:
    for value in range(number):
        current_job().progress(value)
        yield value


@jobs.job(name="spin")
def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@both.job(name="do_nothing")
def do_nothing() -> None:
    pass


@both.job(name="wait_here")
async def wait_here() -> None:
    current_job().progress("begun")
    await trio.sleep_forever()


@both.job(name="answer_here")
async def answer_here() -> int:
    await trio.lowlevel.checkpoint()
    return 1
