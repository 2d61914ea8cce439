"""What contents over MTL cost the broker: processor time for each content, with the threads of libzmq.

    python benchmarks/mtl.py [--contents 100000] [--rounds 3] [--peers 1000] [--only in out …] [--floor] [--quick]

The broker is `triomq serve` in a process of its own, its CPU is what the operating system has counted for it. Writers
and readers are blocking DEALERs of pyzmq in other processes, with frames as the specification has them, 100 octets of
body and one property. Beside each row stands its floor: a plain ROUTER in a process that moves the same frames by the
same calls of pyzmq's backend, and looks at nothing but the first octet.

in          a writer into a queue that nobody reads: without confirms; with them, and a window of 1,000; into a durable
            queue of a broker that has a store
out         what is in a queue to a reader, without confirms, and with
through     a writer and a reader at once, without confirms, and with
trip        one command at a time over a control flow
peers       memory of control flows that are logged in and idle, and of readers' leases with their data flows, KiB each
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeAlias

import zmq

from emqp import Broker
from idle_workers import memory
from loadgen.mtl import Control, Side, be_peers, be_router, round_trips


class Measured(NamedTuple):
    """What a round shows: microseconds of CPU for each content, and contents in a second."""

    cpu: float
    rate: float


class Moved:
    """What moves contents: a broker, or a plain ROUTER; and a control flow to it.

    Args:
        port: For control flows.
        process: The number of its process.
    """

    def __init__(self, port: int, process: int) -> None:
        self.port = port
        self.process = process
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.control = Control(self._context, port)

    def cpu(self) -> float:
        """Return the seconds that all its threads have had."""
        threads = Path(f"/proc/{self.process}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def close(self) -> None:
        self.control.socket.close()
        self._context.term()


@contextmanager
def open_broker(count: int, *, durable: bool = False) -> Iterator[Moved]:
    """Run `triomq serve` with an endpoint for MTL."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), durable=durable, endpoint="mtl", options="data_port = 0\n")
        moved = Moved(broker.port, broker.process)
        try:
            yield moved
        finally:
            moved.close()
            broker.close()


@contextmanager
def open_plain(count: int, *, durable: bool = False, asks: bool = False) -> Iterator[Moved]:
    """Run a plain ROUTER, which sends so many contents to whom it has to send some; see ``be_router``."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=be_router, args=(count, asks, theirs), daemon=True)
    process.start()
    assert process.pid is not None
    moved = Moved(ours.recv(), process.pid)
    try:
        yield moved
    finally:
        moved.close()
        process.kill()
        process.join()


Opens: TypeAlias = Callable[..., AbstractContextManager[Moved]]


# Contents


def run_side(moved: Moved, side: Side, count: int) -> Measured:
    side.wait_ready()
    before = moved.cpu()
    side.begin()
    seconds = side.seconds()
    cpu = moved.cpu() - before
    side.end()
    return Measured(cpu / count * 1e6, count / seconds)


def move_in(moved: Moved, queue: str, count: int, confirm: str) -> Measured:
    return run_side(moved, moved.control.writer(queue, count, confirm), count)


def move_in_durable(moved: Moved, queue: str, count: int, confirm: str) -> Measured:
    return run_side(moved, moved.control.writer(queue, count, confirm, persistent=True), count)


def move_out(moved: Moved, queue: str, count: int, confirm: str) -> Measured:
    return run_side(moved, moved.control.reader(queue, count, confirm), count)


def move_through(moved: Moved, queue: str, count: int, confirm: str) -> Measured:
    reader, writer = moved.control.reader(queue, count, confirm), moved.control.writer(queue, count, confirm)
    reader.wait_ready()
    writer.wait_ready()
    before, began = moved.cpu(), time.perf_counter()
    reader.begin()
    writer.begin()
    reader.seconds()
    seconds, cpu = time.perf_counter() - began, moved.cpu() - before
    writer.seconds()
    reader.end()
    writer.end()
    return Measured(cpu / count * 1e6, count / seconds)


class Row(NamedTuple):
    """One line of the table."""

    name: str
    move: Callable[[Moved, str, int, str], Measured]
    confirm: str = "none"
    durable: bool = False


ROWS = {
    "in": Row("in, confirm none", move_in),
    "in-full": Row("in, confirm full", move_in, "full"),
    "in-durable": Row("in, confirm full, durable", move_in_durable, "full", durable=True),
    "out": Row("out, confirm none", move_out),
    "out-full": Row("out, confirm full", move_out, "full"),
    "through": Row("through, confirm none", move_through),
    "through-full": Row("through, confirm full", move_through, "full"),
}


def measure(row: Row, opens: Opens, count: int) -> Measured:
    """Measure a row once, with a broker or a ROUTER of its own."""
    queue = "out" if row.move is move_out else "in"  # a plain ROUTER has contents for whom summons `out`
    with opens(count, durable=row.durable) as moved:
        if opens is open_broker:
            moved.control.call("Queue.Create", name="warm", durable=row.durable)
            move_through(moved, "warm", max(count // 20, 200), row.confirm)
            moved.control.call("Queue.Create", name=queue, durable=row.durable)
            if row.move is move_out:
                move_in(moved, queue, count, "none")
        return row.move(moved, queue, count, row.confirm)


def contents(rows: list[Row], count: int, rounds: int) -> Iterator[str]:
    """Yield the lines of contents; rounds of the broker and of the floor alternate."""
    yield f"{'':28}{'µs CPU':>10}{'contents/s':>12}{'floor: µs':>12}{'contents/s':>12}"
    for row in rows:
        ours, floor = zip(
            *((measure(row, open_broker, count), measure(row, open_plain, count)) for _ in range(rounds)), strict=True
        )
        figures = "".join(f"{min(some).cpu:12.1f}{max(one.rate for one in some):12,.0f}" for some in (ours, floor))
        yield f"{row.name:26}{figures}"


# Commands


def trips(opens: Opens, count: int) -> str:
    with opens(0) as moved:
        round_trips(moved.control, count // 10, "Queue.List")
        before = moved.cpu()
        taken = round_trips(moved.control, count, "Queue.List")
        cpu = (moved.cpu() - before) / count * 1e6
    quantiles = statistics.quantiles(taken, n=100)
    return f"p50 {quantiles[49]:.2f}, p99 {quantiles[98]:.2f} ms, {cpu:.0f} µs CPU"


# Memory

FIRST = 20
"""Peers that are not measured: with them comes what is made once."""


def idle(opens: Opens, count: int, *, leases: bool) -> float:
    """Return how many KiB a peer takes."""
    with opens(0) as moved:
        moved.control.call("Queue.Create", name="q")
        sides: list[Side] = []
        for number in (FIRST, count):
            before = memory(moved.process)
            sides.append(Side(be_peers, moved.port, number, leases))
            sides[-1].wait_ready()
            time.sleep(1)
        after = memory(moved.process)
        for side in sides:
            side.end()
    return (after - before) / count


def peers(count: int) -> Iterator[str]:
    """Yield lines about memory: what libzmq takes where nobody is asked about a connection, and where somebody is."""
    asking = partial(open_plain, asks=True)
    control, plain, asked = (idle(opens, count, leases=False) for opens in (open_broker, open_plain, asking))
    yield f"{count} control flows, KiB each: {control:.1f}; a plain ROUTER {plain:.1f}, one that asks {asked:.1f}"
    yield f"so a session takes {control - asked:.1f}"
    both, plain, of_both = (idle(opens, count, leases=True) for opens in (open_broker, open_plain, asking))
    yield f"with a lease and its flow: {both:.1f}; a plain ROUTER {plain:.1f}, one that asks {of_both:.1f}"
    yield f"so a lease with its flow takes {both - of_both - (control - asked):.1f}"


def main() -> None:
    """Print the tables."""
    names = [*ROWS, "trip", "peers"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--floor", action="store_true", help="the plain ROUTER alone")
    parser.add_argument("--quick", action="store_true", help="a few contents, to see that it works")
    arguments = parser.parse_args()
    count, rounds, number = (
        (1000, 1, 50) if arguments.quick else (arguments.contents, arguments.rounds, arguments.peers)
    )
    if arguments.floor:
        for name in arguments.only:
            if name in ROWS:
                print(f"{name:28}", measure(ROWS[name], open_plain, count), flush=True)
        return
    rows = [ROWS[name] for name in arguments.only if name in ROWS]
    for line in contents(rows, count, rounds) if rows else ():
        print(line, flush=True)
    if "trip" in arguments.only:
        print(f"trip: {trips(open_broker, max(count // 20, 100))}")
        print(f"trip, floor: {trips(open_plain, max(count // 20, 100))}")
    if "peers" in arguments.only:
        for line in peers(number):
            print(line, flush=True)


if __name__ == "__main__":
    main()
