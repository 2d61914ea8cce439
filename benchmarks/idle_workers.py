"""What an idle worker over eMQP takes of the broker's memory, beside what libzmq alone takes for its connection.

    python benchmarks/idle_workers.py [--workers 10000] [--quick]

Workers say INFORM and READY, and then nothing; they are in other processes. The broker is `triomq serve` in a process
of its own. What libzmq takes is the memory of a process that has a ROUTER and no more, with the same peers. There are
three open files for each worker in all.
"""

import argparse
import os
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import zmq

from emqp import VERSION, Broker

OF_A_PROCESS = 2000
"""Workers of one process: each takes two files there."""

HEARTBEAT = 600.0
"""Seconds between heartbeats of the broker, which are not to be measured."""


def be_router(ready: Connection) -> None:  # a process gets it
    """Receive until killed, and answer INFORMs."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        ready.send(router.bind_to_random_port("tcp://127.0.0.1"))
        while True:
            identity, *frames = router.recv_multipart()
            if frames[2] == b"INFORM":
                router.send_multipart([identity, b"", VERSION, b"ACK", b"a", frames[3]])


def be_workers(port: int, count: int, ready: Connection) -> None:  # a process gets it
    """Be workers until killed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.max_sockets = count + 10
    workers = []
    for _ in range(count):
        worker = context.socket(zmq.DEALER)
        worker.connect(f"tcp://127.0.0.1:{port}")
        worker.send_multipart([b"", VERSION, b"INFORM", b"i", b'[[10, "default"]]', b"worker"])
        while worker.recv_multipart()[2] != b"ACK":
            pass
        worker.send_multipart([b"", VERSION, b"READY", b"r"])
        workers.append(worker)
    ready.send(len(workers))
    ready.recv()


def memory(process: int) -> float:
    """Return the resident memory of a process in KiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def connected(port: int, count: int, process: int) -> tuple[float, float]:
    """Return the memory of a process without and with so many workers."""
    spawn = get_context("spawn")
    made = []

    def add(number: int) -> None:
        ours, theirs = spawn.Pipe()
        made.append(spawn.Process(target=be_workers, args=(port, number, theirs), daemon=True))
        made[-1].start()
        assert ours.recv() == number
        pipes.append(ours)

    pipes: list[Connection] = []
    add(10)  # with them comes what is made once
    before = memory(process)
    for start in range(0, count, OF_A_PROCESS):
        add(min(OF_A_PROCESS, count - start))
    time.sleep(1)  # the last ones' READY
    after = memory(process)
    for worker in made:
        worker.kill()
        worker.join()
    return before, after


def of_libzmq(count: int) -> float:
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    router = spawn.Process(target=be_router, args=(theirs,), daemon=True)
    router.start()
    port = ours.recv()
    assert router.pid is not None
    before, after = connected(port, count, router.pid)
    router.kill()
    router.join()
    return (after - before) / count


def of_broker(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), options=f"heartbeat = {HEARTBEAT}\nsilence = {2 * HEARTBEAT}\n")
        try:
            before, after = connected(broker.port, count, broker.process)
        finally:
            broker.close()
    return (after - before) / count


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="a few workers, to see that it works")
    count = 100 if (given := parser.parse_args()).quick else given.workers
    libzmq, broker = of_libzmq(count), of_broker(count)
    figures = f"libzmq alone {libzmq:.1f}, the broker {broker:.1f}, so ours {broker - libzmq:.1f}"
    print(f"{count} idle workers, KiB each: {figures}")


if __name__ == "__main__":
    main()
