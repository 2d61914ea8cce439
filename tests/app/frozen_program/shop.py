"""A program that is frozen: ``shop DIRECTORY [--plain]``; with ``--plain`` it has no processes of its own."""

import os
import sys

import trio

import triomq
from triomq.clients import open_amqp
from triomq.errors import ConfigError

if "--plain" not in sys.argv:
    triomq.freeze_support()

from shop_jobs import jobs, process_of

STARTS = os.environ["STARTS"]


async def main(directory: str) -> None:
    async with triomq.open_broker(triomq.AMQP(port=0), data_dir=directory) as broker:
        queue = await broker.declare_queue("orders", durable=True)
        await broker.publish("", "orders", b"order 1")
        async with open_amqp(f"amqp://guest:guest@127.0.0.1:{broker.listening[0].port}/") as connection:
            print("connected with", connection.server_properties["version"])
        print("messages", (await queue.statistics()).ready)
        async with jobs.connect(broker), jobs.work(broker, processes=1):
            word, process = await process_of.call("hello")
        print("job", word, process != os.getpid())


with open(STARTS, "a") as starts:
    print(os.getpid(), file=starts)
try:
    trio.run(main, sys.argv[1])
except ConfigError as error:
    sys.exit(str(error))
