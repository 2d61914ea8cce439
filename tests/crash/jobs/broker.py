"""A broker of jobs for a test that kills it: ``python -m crash.jobs.broker DIRECTORY PORT``, which prints its port."""

import argparse
import logging
import sys

import trio

from triomq import EMQP, open_broker

from ..broker import take_output
from .task import QUEUE


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("port", type=int)
    given = parser.parse_args()
    output = take_output()
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    endpoint = EMQP(port=given.port, heartbeat=0.5, silence=15.0)
    async with open_broker(endpoint, data_dir=given.directory, disk_reserve=0) as broker:
        await broker.declare_queue(QUEUE)  # what comes before its workers would go to the default one
        print(f"listening {broker.listening[0].port}", file=output)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
