"""A program whose ``sys.executable`` is the program: ``python selfstarting.py USE DIRECTORY``.

It counts in the file of the variable STARTS how often it was started, and then opens what wants a process of Python.
"""

import os
import sys

import trio

import triomq
from triomq.errors import ConfigError, TriomqError

sys.path.append(os.path.join(os.path.dirname(__file__), "frozen_program"))
use, directory = sys.argv[1:3] if len(sys.argv) == 3 else ("store", "elsewhere")  # started for an interpreter
sys.executable = os.environ["APP"]
if "freeze_support" in os.environ:
    triomq.freeze_support()

with open(os.environ["STARTS"], "a") as file:
    print(os.getppid(), file=file)


async def store() -> None:
    async with triomq.open_broker(data_dir=directory) as broker:
        await broker.declare_queue("q", durable=True)


async def trace() -> None:
    async with triomq.open_broker(trace=triomq.Trace(directory=directory)):
        pass


async def children() -> None:
    from shop_jobs import jobs, process_of

    async with triomq.open_broker() as broker, jobs.connect(broker), jobs.work(broker, processes=1):
        await process_of.call("hello")


async def thread() -> None:
    async with triomq.open_broker(data_dir=directory, store_host="thread") as broker:
        await broker.declare_queue("q", durable=True)


try:
    trio.run({"store": store, "trace": trace, "children": children, "thread": thread}[use])
except ConfigError as error:
    sys.exit(f"ConfigError: {error}")
except TriomqError as error:
    sys.exit(f"{type(error).__name__}: {error}")
