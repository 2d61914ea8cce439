"""What the trace log costs: a broker without one beside brokers that trace 1 in 100 messages, and all.

Brokers run as processes of their own and are driven in turn (A B C A B C …), with the same load over loopback. What
counts is the broker's own processor time for a message, since the process that writes the files has a core of its own
where there is one, and what consumers received. The last columns are what the files have, and how many events were
lost on the way to them.

    python benchmarks/tracelog.py
    python benchmarks/tracelog.py --only properties --rounds 7
"""

import argparse
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from loadgen import topology
from loadgen.brokers import Broker, open_triomq
from loadgen.flow import FlowResult
from loadgen.work import Work

WORKS = (
    Work(name="alike", title="100 B alike, no-ack, 1→1"),
    Work(name="properties", title="200 B, properties that differ, no-ack, 1→1", size=200, heads="differ"),
    Work(name="acked", title="100 B alike, ack 100, prefetch 300, 1→1", ack_every=100, prefetch=300),
    Work(name="alone", title="100 B, one confirm outstanding, ack each, 1→1", confirms=True, under_way=1, ack_every=1),
)

RATES = {"off": None, "1 in 100": "0.01", "whole": "1"}
"""Which part of the messages is traced, as the command has it; None is no trace log at all."""


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    rounds: int
    seconds: float


class Recorded(msgspec.Struct, frozen=True):
    """What the files of a trace log have: events, and how many are said to be lost."""

    events: int
    lost: int


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=5, help="windows per broker and item (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window (2)")
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


def recorded(directory: Path) -> Recorded:
    """Count the events of a trace log, whose broker has ended."""
    events = lost = 0
    for path in directory.rglob("trace-*.parquet"):
        table = pq.read_table(path, columns=["kind", "size"], partitioning=None)
        events += table.num_rows
        found = zip(table["kind"].to_pylist(), table["size"].to_pylist(), strict=True)
        lost += sum(size for kind, size in found if kind == "lost-events")
    return Recorded(events, lost)


def measure(work: Work, options: Options) -> list[str]:
    """Measure an item with all brokers in turn; return the lines of its table."""
    results: dict[str, list[FlowResult]] = {name: [] for name in RATES}
    with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
        with ExitStack() as stack:
            brokers: dict[str, Broker] = {}
            for name, rate in RATES.items():
                trace = [] if rate is None else ["--trace", f"{folder}/{name}", "--trace-rate", rate]
                brokers[name] = stack.enter_context(open_triomq(name, options=trace))
            for number in range(options.rounds):
                for name, broker in brokers.items():
                    print(f"{work.title}: {name}, round {number + 1} of {options.rounds}", file=sys.stderr)
                    results[name].append(topology.measure(work, options.seconds, broker))
        found = {name: recorded(Path(folder, name)) for name in RATES}
    return [line(name, results[name], results["off"], found[name]) for name in RATES]


def line(name: str, results: Sequence[FlowResult], off: Sequence[FlowResult], found: Recorded) -> str:
    """Return a line: medians, and the median of what each round has cost more than without a trace log."""
    own, rates = [result.own_microseconds or 0.0 for result in results], [result.rate for result in results]
    both = [result.processor_microseconds or 0.0 for result in results]
    more = statistics.median(
        here.own_microseconds / there.own_microseconds - 1
        for here, there in zip(results, off, strict=True)
        if here.own_microseconds and there.own_microseconds
    )
    least = min(own) / min(result.own_microseconds or 0.0 for result in off) - 1
    return (
        f"  {name:10}{statistics.median(rates):12,.0f}{max(rates):12,.0f}{statistics.median(own):10.2f}"
        f"{more:9.1%}{least:9.1%}{statistics.median(both):10.2f}{found.events:14,}{found.lost:10,}"
    )


def main() -> None:
    """Measure what was chosen and print a table for each."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    columns = ("messages/s", "best", "µs own", "more", "of least", "µs both", "events", "lost")
    widths = (12, 12, 10, 9, 9, 10, 14, 10)
    for work in WORKS:
        if work.name in options.only:
            lines = measure(work, options)
            print(work.title)
            print(" " * 12 + "".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True)))
            print("\n".join(lines) + "\n", flush=True)


if __name__ == "__main__":
    main()
