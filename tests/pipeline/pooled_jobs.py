"""Jobs that tests run on executors; they import nothing of the tests."""

import ctypes
import os
import sys
import time
from typing import Any

import msgspec
import trio

from triomq.jobs import Jobs

jobs = Jobs()


@jobs.job
def add(first: int, second: int = 1) -> int:
    return first + second


@jobs.job
async def where() -> int:
    return os.getppid()


@jobs.job(retries=0)
def fail(text: str) -> None:
    raise ValueError(text)


@jobs.job(retries=0)
def crash() -> None:
    ctypes.string_at(0)


@jobs.job(retries=0)
def leave() -> None:
    sys.exit(3)


@jobs.job(retries=0)
async def leave_the_loop() -> None:
    sys.exit(4)


@jobs.job(retries=0, timeout=1.0)
def hang() -> int:
    return sum(range(1 << 60))  # one call in C, which looks at no signal


@jobs.job
async def begin(fifo: str) -> None:
    """Say that it has begun, and never end."""
    await trio.Path(fifo).write_text("begun")
    await trio.sleep_forever()


@jobs.job
def wait_for(begun: str, go: str) -> str:
    """Say that it has begun, and end when it is told to."""
    with open(begun, "w") as file:
        file.write("begun")
    with open(go) as file:
        return file.read()


class Order(msgspec.Struct):
    """What a typed job takes and returns."""

    id: int
    amount: float
    tags: list[str] = []


@jobs.job
def price(order: Order, factor: float, *, currency: str = "EUR") -> Order:
    if factor < 0:
        raise ValueError("a factor below nothing")
    return Order(order.id, order.amount * factor, [currency])


@jobs.job
async def anything(order: dict[str, Any], factor: float | None) -> Any:
    return [order, factor]


@jobs.job
def huge(factor: float) -> int:
    return int(factor * 1e30)


@jobs.job
def work(log: str, number: int) -> int:
    """Write down that it has begun, and take some time."""
    with open(log, "a") as file:
        file.write(f"{number}\n")
    time.sleep(0.2)
    return number
