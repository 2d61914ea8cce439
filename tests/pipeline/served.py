"""A broker for tap and AMQP: ``python -m pipeline.served TAP-PORT AMQP-PORT DIRECTORY``, until its standard input ends.

It prints ``listening`` when it does. Each line that it reads is JSON: the name of a method of the broker, and its
arguments; it answers with a line, which is empty or an error.
"""

import json
import os
import sys
from pathlib import Path

import trio

from triomq import AMQP, Broker, Tap, open_broker
from triomq.errors import TriomqError


async def call(broker: Broker, line: bytes) -> str:
    """Do what a line says, and return what is to be answered."""
    method, arguments = json.loads(line)
    target: object = broker
    *path, name = method.split(".")  # "queue.delete" is a method of the handle of a queue
    for step in path:
        target = getattr(target, step)(arguments.pop("name"))
    try:
        await getattr(target, name)(**arguments)
    except TriomqError as error:
        return repr(error)
    return ""


async def main(tap_port: str, amqp_port: str, directory: str) -> None:
    """Serve."""
    endpoints = Tap(host="127.0.0.1", port=int(tap_port)), AMQP(host="127.0.0.1", port=int(amqp_port))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the store's process would hold standard output open when we are gone
    async with open_broker(*endpoints, data_dir=Path(directory)) as broker:
        print("listening", file=answers)
        lines = trio.lowlevel.FdStream(os.dup(0))
        rest = b""
        async for data in lines:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                print(await call(broker, line), file=answers)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
