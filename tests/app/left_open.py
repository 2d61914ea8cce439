"""A program that leaves something open: ``python left_open.py FACE END DIRECTORY URL``.

It opens a broker or a client, does what is confirmed, says so, and ends in some way without having closed it.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import triomq.process
from triomq import AMQP, EMQP, BlockingBroker, Jobs, open_asyncio_broker, open_blocking_broker
from triomq.clients import open_blocking, open_tap

KEPT: list[object] = []
"""What nothing else refers to, so that it is collected last."""

jobs = Jobs()


@jobs.job
def nothing() -> None: ...


def blocking_broker(directory: str, url: str) -> None:
    opened = open_blocking_broker(AMQP(port=0), data_dir=directory)
    broker = opened.__enter__()
    KEPT.extend((opened, broker))
    queue = broker.declare_queue("q", durable=True)
    KEPT.append(queue.open_feed().__enter__)
    broker.publish("", "q", b"confirmed")


def broker_with_a_client(directory: str, url: str) -> None:
    opened = open_blocking_broker(AMQP(port=0), EMQP(port=0), data_dir=directory)
    broker = opened.__enter__()
    KEPT.extend((opened, broker))
    broker.declare_queue("q", durable=True)
    broker.publish("", "q", b"confirmed")
    KEPT.append(open_blocking(f"amqp://guest:guest@127.0.0.1:{broker.listening[0].port}/"))
    connected = jobs.connect_blocking(broker)
    connected.__enter__()
    KEPT.append(connected)
    nothing.blocking.send()


def stuck_broker(directory: str, url: str) -> None:
    """One that cannot end: its thread is busy with something for longer than the end of a process may take."""
    blocking_broker(directory, url)
    triomq.process.ending._PATIENCE = 1.0
    broker = KEPT[1]
    assert isinstance(broker, BlockingBroker)
    broker.portal.callbacks.call_soon(lambda: time.sleep(100))


def asyncio_broker(directory: str, url: str) -> None:
    async def use() -> None:
        opened = open_asyncio_broker(data_dir=directory)
        broker = await opened.__aenter__()
        KEPT.extend((opened, broker))
        await broker.declare_queue("q", durable=True)
        await broker.publish("", "q", b"confirmed")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())
    KEPT.append(loop)


def blocking_client(directory: str, url: str) -> None:
    connection = open_blocking(url)
    KEPT.append(connection)
    connection.publish("", "q", b"confirmed")


def blocking_jobs(directory: str, url: str) -> None:
    opened = jobs.connect_blocking(url)
    opened.__enter__()
    KEPT.append(opened)
    nothing.blocking.send()


def jobs_when_needed(directory: str, url: str) -> None:
    jobs.connect_when_needed(url)
    nothing.blocking.send()


def tap(directory: str, url: str) -> None:
    connection = open_tap(url)
    KEPT.append(connection)
    connection.ping()


FACES: dict[str, Callable[[str, str], None]] = {
    face.__name__: face
    for face in (
        blocking_broker,
        broker_with_a_client,
        stuck_broker,
        asyncio_broker,
        blocking_client,
        blocking_jobs,
        jobs_when_needed,
        tap,
    )
}
ENDS = ("falls off", "raises", "exits", "in a thread", "in a daemon")


def main() -> None:
    face, end, directory, url = sys.argv[1:]
    if end in ("in a thread", "in a daemon"):
        thread = threading.Thread(target=FACES[face], args=(directory, url), daemon=end == "in a daemon")
        thread.start()
        thread.join()
    else:
        FACES[face](directory, url)
    print("confirmed", flush=True)
    if end == "raises":
        raise LookupError("the program's own error")
    if end == "exits":
        sys.exit(7)


if __name__ == "__main__":
    main()
