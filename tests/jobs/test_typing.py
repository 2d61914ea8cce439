"""Type checkers know what a job takes and returns, in all the ways in which it is sent."""

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is not installed; pip install -e '.[lint]'")

PROGRAM = """\
from collections.abc import AsyncIterator, Iterator

from triomq import Job, Jobs
from triomq.jobs import chain, gather

jobs = Jobs()


@jobs.job
async def send_mail(to: str, subject: str = "") -> str:
    return to


@jobs.job(queue="pictures", retries=5)
def size(path: str) -> int:
    return len(path)


@jobs.every(60)
async def tick() -> None: ...


@jobs.cron("0 6 * * *", timezone="Europe/Oslo")
@jobs.job(queue="reports")
async def report(days: int = 1) -> bytes:
    return b""


@jobs.job
async def lines(path: str) -> AsyncIterator[bytes]:
    yield b""


@jobs.job
def numbers() -> Iterator[int]:
    yield 1


async def right() -> None:
    text: str = await send_mail("a")
    number: int = size("a")
    text = await send_mail.call("a", subject="b")
    number = await size.using(delay=5, priority=3).call("a")
    job: Job[int] = await size.send("a")
    number = await job.result()
    handles: list[Job[str]] = await send_mail.map(["a", "b"], subject="c")
    texts: list[str] = await gather(handles)
    data: bytes = await report.call(days=3)
    number = await chain(await send_mail.send("a"), size)
    other: Job[int] = size.handle("id")
    await tick.send()
    async with lines.stream("a") as items:
        async for item in items:
            data = item
    async with numbers.stream() as some:
        number = await anext(some)
    async for mapping in job.progress(dict[str, int]):
        number = mapping["done"]


@jobs.job
async def resize(path: str, width: int, *, height: int = 0, sharp: bool = True) -> bytes:
    return b""


@jobs.job
def four(a: int, b: int, c: int, d: int, e: int = 5) -> int:
    return a


async def mapped() -> None:
    pictures: list[Job[bytes]] = await resize.map(["a"], width=5)
    pictures = await resize.map(["a"], [5])
    pictures = await resize.map(iter(["a"]), range(5), height=5)
    pictures = await resize.using(delay=1).map(["a"], width=5, sharp=False)
    pictures = await report.map([1, 2])
    numbers: list[Job[int]] = await four.map([1], [2], [3], d=4)
    numbers = await four.map([1], [2], [3], [4], [5])
    print(pictures, numbers, resize.blocking.map(["a"], [5], height=1)[0].result())


async def wrongly_mapped() -> None:
    await size.map([1, 2])  # wrong
    await size.map(5)  # wrong
    await size.map(["a"], ["b"])  # wrong
    await size.map(["a"], path="b")  # wrong
    await size.map(["a"], width=5)  # wrong
    await resize.map(["a"])  # wrong
    await resize.map(["a"], width="5")  # wrong
    await resize.map(["a"], ["5"])  # wrong
    await resize.map(["a"], [5], [6])  # wrong
    await four.map([1], [2], ["3"], d=4)  # wrong
    texts: list[Job[str]] = await size.map(["a"])  # wrong
    resize.blocking.map(["a"], ["5"])  # wrong
    await tick.map([1])  # wrong


def outside() -> None:
    with jobs.connect_blocking("emqp://127.0.0.1"):
        number: int = size.blocking.call("a")
        number = size.using(queue="q").blocking.send("a").result(timeout=5)
        with lines.blocking.stream("a") as items:
            data: list[bytes] = list(items)


async def wrong() -> None:
    await send_mail.call(5)  # wrong
    await send_mail.send("a", subjekt="b")  # wrong
    await size.using(dealy=5).send("a")  # wrong
    await size.using(delay="5").send("a")  # wrong
    number: int = await send_mail.call("a")  # wrong
    text: str = await (await size.send("a")).result()  # wrong
    size.blocking.call(b"a")  # wrong
    lines.stream(5)  # wrong
    await lines.call("a")  # wrong
    size.stream("a")  # wrong
    await chain(await size.send("a"), size)  # wrong


@jobs.job(queu="a")  # wrong
def misspelt() -> None: ...


@jobs.job(retries="3")  # wrong
def text() -> None: ...
"""


def test_type_checker_finds_what_a_job_does_not_take(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    arguments = ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={tmp_path}"]
    found, errors, _ = api.run([*arguments, str(program)])
    assert errors == ""
    refused = {int(line) for line in re.findall(r"program\.py:(\d+): error", found)}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert refused == wrong, found
