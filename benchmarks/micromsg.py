"""What messages over MicroMsg2 cost the broker: processor time for each, beside a relay that moves the same octets.

    python benchmarks/micromsg.py [--messages 300000] [--rounds 3] [--only in out …] [--csv FILE] [--quick]

The broker is `triomq serve` in a process of its own, its CPU is what the operating system has counted for it. Writer
and reader are blocking sockets in other processes, with octets made before: 100 octets of body, ``batch-ack`` and a
window of 1,000 where the row names nothing else. The relay is a Trio program that receives and sends, and knows
nothing; where there is one, the last two columns are how many times its CPU and its time the broker needs.

in           a writer into a queue that nobody reads
out          what is in a queue, to a reader
through      a writer and a reader at once
own          the same, each message with a property that no other has
1K, 64K      the same with larger bodies; 64 KiB are LARGE frames
single       through, and each message acked singly
durable      through, with a store; in-durable without a reader
behind       through, behind a backlog of 100,000 messages
slow         through, while another connection has subscribed to a backlog and reads nothing
filters      through a topic: no filter; 200 by equality on two connections, of which one takes each message; the same
             with properties that never come again; 200 comparisons on two connections that hold for no message, and one
             subscriber without; the ratios are to no filter
arrival      how long a message is under way, at 1,000 in a second
idle         memory of 1,000 connections that do nothing
"""

import argparse
import csv
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeAlias

from emqp import Broker
from idle_workers import memory
from loadgen.micromsg import BATCH_ACK, SINGLE_ACK, Side, Work, be_idle, hear, read, stall, tick, write
from loadgen.micromsg_relay import be_relay

QUEUE, TOPIC, OTHER = "queue/q", "topic/orders", "queue/other"
FILTERS = 200
OPTIONS = "dynamic_queues = true\ndynamic_topics = true\n"
BACKLOG = 100_000


class Moved(NamedTuple):
    """What moves messages: a broker, or the relay.

    Args:
        port: Where it listens.
        process: The number of its process.
    """

    port: int
    process: int

    def cpu(self) -> float:
        """Return the seconds that all its threads and children have had."""
        return sum(map(_seconds_of, _with_children(self.process)))


def _with_children(process: int) -> list[int]:
    found = [process]
    for each in found:  # grows meanwhile
        found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    return found


def _seconds_of(process: int) -> float:
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def open_broker(*, durable: bool = False) -> Iterator[Moved]:
    """Run `triomq serve` with an endpoint for MicroMsg2."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), durable=durable, endpoint="micromsg", options=OPTIONS)
        try:
            yield Moved(broker.port, broker.process)
        finally:
            broker.close()


@contextmanager
def open_relay(work: Work | None = None) -> Iterator[Moved]:
    """Run the relay; with work, it is what a reader gets."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=be_relay, args=(work, theirs), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        yield Moved(ours.recv(), process.pid)
    finally:
        process.kill()
        process.join()


class Measured(NamedTuple):
    """What a round shows: microseconds of CPU for each message, and messages in a second."""

    cpu: float
    rate: float


# What is moved


def begin(sides: Iterable[Side]) -> None:
    for side in sides:
        side.begin()


def run(
    moved: Moved, count: int, readers: Sequence[Side], writers: Sequence[Side], *, has_backlog: bool = False
) -> Measured:
    """Let sides do their parts; return what that took.

    Args:
        moved: What moves the messages.
        count: How many they are.
        readers: Have subscribed before it is measured, unless there is a backlog.
        writers: Those that write.
        has_backlog: Whether something waits for the readers.
    """
    begin(() if has_backlog else readers)
    before, began = moved.cpu(), time.perf_counter()
    begin(readers if has_backlog else ())
    begin(writers)
    for side in (*readers, *writers):
        side.seconds()
    seconds, cpu = time.perf_counter() - began, moved.cpu() - before
    for side in (*readers, *writers):
        side.end()
    return Measured(cpu / count * 1e6, count / seconds)


def move_in(moved: Moved, work: Work) -> Measured:
    return run(moved, work.count, [], [Side(write, moved.port, work)])


def move_out(moved: Moved, work: Work) -> Measured:
    return run(moved, work.count, [reader(moved, work.destination, work.count, work.acks)], [], has_backlog=True)


def reader(moved: Moved, destination: str, count: int, acks: str = BATCH_ACK, conditions: Sequence[str] = ()) -> Side:
    return Side(read, moved.port, destination, count, conditions, acks)


def move_through(moved: Moved, work: Work) -> Measured:
    readers = [reader(moved, work.destination, work.count, work.acks)]
    return run(moved, work.count, readers, [Side(write, moved.port, work)])


def move_behind(moved: Moved, work: Work) -> Measured:
    """Through a queue with a backlog, which the reader gets first."""
    fill(moved, work.destination)
    readers = [reader(moved, work.destination, BACKLOG + work.count, work.acks)]
    return run(moved, BACKLOG + work.count, readers, [Side(write, moved.port, work)], has_backlog=True)


def move_beside(moved: Moved, work: Work) -> Measured:
    """Through, beside a reader that has subscribed to a backlog and reads nothing."""
    fill(moved, OTHER)
    slow = Side(stall, moved.port, OTHER, ())
    slow.begin()
    measured = move_through(moved, work)
    slow.end()
    return measured


def fill(moved: Moved, destination: str) -> None:
    move_in(moved, Work(destination, BACKLOG))


def halves(conditions: Sequence[str]) -> list[Sequence[str]]:
    """Divide filters among two connections: one has at most a hundred."""
    return [conditions[: FILTERS // 2], conditions[FILTERS // 2 :]]


def move_equal(moved: Moved, work: Work) -> Measured:
    """Through 200 filters by equality; each message meets one."""
    conditions = [f"customer=Tc{number:03}" for number in range(FILTERS)]
    readers = [reader(moved, TOPIC, work.count // 2, BATCH_ACK, some) for some in halves(conditions)]
    return run(moved, work.count, readers, [Side(write, moved.port, work)])


def move_compared(moved: Moved, work: Work) -> Measured:
    """Through 200 filters by comparison that hold for nothing, and one subscriber without."""
    conditions = [f"size<N{-number}" for number in range(FILTERS)]
    idle = [Side(stall, moved.port, TOPIC, some) for some in halves(conditions)]
    begin(idle)
    measured = move_through(moved, work)
    for side in idle:
        side.end()
    return measured


Moves: TypeAlias = Callable[[Moved, Work], Measured]


class Row(NamedTuple):
    """One line of the table.

    Args:
        name: What it says.
        move: What is done.
        work: With what.
        part: Of the number of messages that is asked for.
        durable: Whether the broker has a store.
        relay: Whether a relay can do the same.
    """

    name: str
    move: Moves
    work: Work
    part: float = 1.0
    durable: bool = False
    relay: bool = True


PLAIN = Work(QUEUE, 0)
LARGE = Work(QUEUE, 0, size=64 * 1024)
FILTERED = Work(TOPIC, 0, customers=FILTERS)
OWN_FILTERED = Work(TOPIC, 0, customers=FILTERS, own=True)
ROWS = {
    "in": Row("in", move_in, PLAIN),
    "out": Row("out", move_out, PLAIN),
    "through": Row("through", move_through, PLAIN),
    "own": Row("through, a property of its own in each", move_through, Work(QUEUE, 0, own=True)),
    "1K": Row("through, 1 KiB", move_through, Work(QUEUE, 0, size=1024), 0.3),
    "64K": Row("through, 64 KiB", move_through, LARGE, 0.01),
    "single": Row("through, acked singly", move_through, Work(QUEUE, 0, acks=SINGLE_ACK), 0.03, relay=False),
    "in-durable": Row("in, durable", move_in, PLAIN, 0.3, durable=True, relay=False),
    "durable": Row("through, durable", move_through, PLAIN, 0.3, durable=True, relay=False),
    "behind": Row("through, behind 100,000", move_behind, PLAIN, relay=False),
    "slow": Row("through, beside one that reads nothing", move_beside, PLAIN, relay=False),
    "none": Row("topic, no filter", move_through, FILTERED, 0.3),
    "equal": Row("topic, 200 filters by equality", move_equal, FILTERED, 0.3, relay=False),
    "none-own": Row("topic, properties of its own, no filter", move_through, OWN_FILTERED, 0.3),
    "equal-own": Row(
        "topic, properties of its own, 200 by equality",
        move_equal,
        OWN_FILTERED,
        0.3,
        relay=False,
    ),
    "compared": Row("topic, 200 filters by comparison", move_compared, FILTERED, 0.1, relay=False),
    "compared-own": Row(
        "topic, properties of its own, 200 by comparison",
        move_compared,
        OWN_FILTERED,
        0.1,
        relay=False,
    ),
}


def with_count(row: Row, messages: int) -> Work:
    """Return a row's work with its number of messages, an even one."""
    work = row.work
    count = max(200, int(messages * row.part)) // 2 * 2
    return Work(work.destination, count, work.size, work.acks, work.customers, work.own)


def measure(row: Row, messages: int) -> Measured:
    """Measure a row once, with a broker of its own that has been warmed."""
    work = with_count(row, messages)
    with open_broker(durable=row.durable) as moved:
        move_through(moved, Work("queue/warm", 2_000))
        if row.move is move_out:
            move_in(moved, work)
        return row.move(moved, work)


def measure_relay(row: Row, messages: int) -> Measured:
    work = with_count(row, messages)
    with open_relay(work if row.move is move_out else None) as moved:
        return row.move(moved, work)


def rows(names: Sequence[str], messages: int, rounds: int) -> Iterator[list[str]]:
    """Yield the lines of the table; rounds of the broker and of the relay alternate."""
    yield ["", "µs CPU", "messages/s", "relay: µs", "messages/s", "CPU ratio", "time ratio"]
    for name in names:
        row = ROWS[name]
        ours: list[Measured] = []
        floor: list[Measured] = []
        for _ in range(rounds):
            ours.append(measure(row, messages))
            if row.relay:
                floor.append(measure_relay(row, messages))
        best = Measured(min(one.cpu for one in ours), max(one.rate for one in ours))
        line = [row.name, f"{best.cpu:.2f}", f"{best.rate:,.0f}"]
        if floor:
            least = Measured(min(one.cpu for one in floor), max(one.rate for one in floor))
            line += [f"{least.cpu:.2f}", f"{least.rate:,.0f}"]
            line += [f"{best.cpu / least.cpu:.1f}", f"{least.rate / best.rate:.1f}"]
        yield line


def arrival(moved: Moved, count: int, rate: float) -> str:
    """Return how long messages are under way."""
    heard, ticking = Side(hear, moved.port, QUEUE, count), Side(tick, moved.port, QUEUE, count, rate)
    heard.begin()
    before = moved.cpu()
    ticking.begin()
    taken = heard.times()
    ticking.seconds()
    cpu = (moved.cpu() - before) / count * 1e6
    for side in (heard, ticking):
        side.end()
    quantiles = statistics.quantiles(taken, n=100)
    return f"p50 {quantiles[49]:.2f}, p99 {quantiles[98]:.2f} ms, {cpu:.0f} µs CPU"


FIRST = 20
"""Connections that are not measured: with them comes what is made once."""


def idle(moved: Moved, count: int) -> float:
    """Return how many KiB a connection takes."""
    sides = [Side(be_idle, moved.port, FIRST)]
    time.sleep(1)
    before = memory(moved.process)
    sides.append(Side(be_idle, moved.port, count))
    time.sleep(1)
    after = memory(moved.process)
    for side in sides:
        side.end()
    return (after - before) / count


def show(line: Sequence[str]) -> str:
    """Return a line of the table as text."""
    return f"{line[0]:50}" + "".join(f"{text:>12}" for text in line[1:])


def main() -> None:
    """Print the table."""
    names = [*ROWS, "arrival", "idle"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--csv", type=Path, help="write the table to this file too")
    parser.add_argument("--quick", action="store_true", help="a few messages, to see that it works")
    arguments = parser.parse_args()
    messages, rounds = (2_000, 1) if arguments.quick else (arguments.messages, arguments.rounds)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    table: list[list[str]] = []
    for line in rows([name for name in arguments.only if name in ROWS], messages, rounds):
        table.append(line)
        print(show(line), flush=True)
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="") as file:
            csv.writer(file).writerows(line + [""] * (len(table[0]) - len(line)) for line in table)
    if "arrival" in arguments.only:
        for name, opens in (("broker", open_broker), ("relay", open_relay)):
            with opens() as moved:
                count = 300 if arguments.quick else 5_000
                print(f"arrival at 1,000 in a second, {name}: {arrival(moved, count, 1000.0)}")
    if "idle" in arguments.only:
        count = 50 if arguments.quick else 1_000
        for name, opens in (("broker", open_broker), ("relay", open_relay)):
            with opens() as moved:
                print(f"{count} idle connections, {name}: {idle(moved, count):.1f} KiB each")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
