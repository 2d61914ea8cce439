"""Type checkers find typing errors in the words that the broker takes."""

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is not installed; pip install -e '.[lint]'")

PROGRAM = """\
from triomq import AMQP, Broker, Properties, open_broker
from triomq.app.portal import AsyncioBroker, BlockingBroker


async def right(broker: Broker) -> None:
    sink = await broker.declare_sink("s", "topic", hash_property=None)
    queue = await broker.declare_queue("q", overflow="reject-publish", dead_letter_sink=sink)
    await sink.bind("q", "k")
    await sink.bind(queue, "k")
    await broker.publish(sink, "k", b"1", Properties(priority=1))


async def wrong(broker: Broker) -> None:
    await broker.declare_sink("s", "topics")  # wrong
    await broker.declare_sink("s", "x-consistent-hash", hash_property="user")  # wrong
    await broker.declare_queue("q", overflow="drop_head")  # wrong
    await broker.declare_queue("q", max_length="5")  # wrong
    await broker.publish("", "q", "42")  # wrong
    await broker.publish("", "q", b"42", {"priority": 1})  # wrong
    await broker.listen(5672)  # wrong
    open_broker(store_host="disk")  # wrong
    async with broker.queue("q").open_feed() as feed:
        async for delivery in feed:
            delivery.body + "text"  # wrong


async def outside(loop: AsyncioBroker, thread: BlockingBroker) -> None:
    await loop.declare_sink("s", "topics")  # wrong
    await loop.declare_queue("q", overflow="drop_head")  # wrong
    thread.declare_sink("s", "topics")  # wrong
    thread.declare_queue("q", overflow="drop_head")  # wrong
    thread.publish(thread.sink("s"), "k", b"1")


AMQP(port="5672")  # wrong
"""


def test_type_checker_finds_what_the_broker_would_refuse(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    arguments = ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={tmp_path}"]
    found, errors, _ = api.run([*arguments, str(program)])
    assert errors == ""
    refused = {int(line) for line in re.findall(r"program\.py:(\d+): error", found)}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert refused == wrong, found
