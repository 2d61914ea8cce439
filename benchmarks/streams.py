"""Measure streams over AMQP, with RabbitMQ's stream queues beside where it is installed.

    python benchmarks/streams.py --only append-100-1 read-100 --records 1000000 --rounds 3

triomq runs with a data directory and syncs what it confirms; RabbitMQ runs as ever, and never syncs a stream. Both are
driven in turn with the same load over loopback: records with confirms, and consumers that ack each half of their
prefetch. Ranges are read over tap, which RabbitMQ does not speak. Processor time is what the OS has counted for all
processes of a broker, and for its first one.
"""

import argparse
import contextlib
import functools
import signal
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from amqp import Opener, all_open, write_json
from loadgen import streaming
from loadgen.brokers import Broker, open_rabbitmq, open_tapped_triomq, rabbitmq_script
from loadgen.report import REFERENCE
from loadgen.streaming import STREAMS, StreamResult


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    records: int
    rounds: int
    no_rabbitmq: bool
    csv: str | None
    json: str | None


class StreamRow(msgspec.Struct, frozen=True):
    """All rounds of one broker with one item."""

    title: str
    broker: str
    rounds: list[StreamResult]

    @property
    def rate(self) -> float:
        """The median of records per second."""
        return statistics.median(found.rate for found in self.rounds)

    @property
    def microseconds(self) -> float:
        """The median of processor time per record, of all processes."""
        return statistics.median(found.microseconds for found in self.rounds)

    @property
    def own_microseconds(self) -> float:
        """The same of the broker's first process."""
        return statistics.median(found.own_microseconds for found in self.rounds)


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    names = [work.name for work in STREAMS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--records", type=int, default=500_000, help="records of a round (500,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per broker and item (3)")
    parser.add_argument("--no-rabbitmq", action="store_true", help="measure without RabbitMQ beside")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    parser.add_argument("--json", metavar="FILE", help="write every round to FILE")
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


def run(brokers: Sequence[Broker], options: Options) -> list[StreamRow]:
    """Measure the chosen items, each round on every broker in turn."""
    rows: list[StreamRow] = []
    for work in [work for work in STREAMS if work.name in options.only]:
        measure = functools.partial(streaming.measure, work, options.records)
        rounds: dict[str, list[StreamResult]] = {broker.name: [] for broker in brokers}
        for _ in range(options.rounds):
            for broker in brokers:
                if not work.fetches or broker.tap is not None:
                    rounds[broker.name].append(measure(broker))
        rows += [StreamRow(work.title, name, found) for name, found in rounds.items() if found]
    return rows


HEADINGS = ["work", "broker", "records/s", "CPU µs", "of the broker's own", "times RabbitMQ's rate"]


def cells(rows: Sequence[StreamRow]) -> list[list[str]]:
    """Return the table, a list for each line."""
    theirs = {row.title: row.rate for row in rows if row.broker == REFERENCE}
    return [
        [
            row.title,
            row.broker,
            f"{row.rate:,.0f}",
            f"{row.microseconds:.2f}",
            "–" if row.broker == REFERENCE else f"{row.own_microseconds:.2f}",  # which starts by a shell
            f"{row.rate / theirs[row.title]:.2f}" if row.title in theirs else "–",
        ]
        for row in rows
    ]


def main() -> None:
    """Measure what was chosen and print the table."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    openers: list[Opener] = [open_tapped_triomq]
    if not options.no_rabbitmq and rabbitmq_script() is not None:
        openers.append(open_rabbitmq)
    with all_open(openers) as brokers:
        rows = run(brokers, options)
    lines = [HEADINGS, *cells(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if options.csv:
        with contextlib.closing(Path(options.csv).open("w", encoding="utf-8", newline="")) as file:
            file.writelines(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    if options.json:
        write_json(Path(options.json), rows)


if __name__ == "__main__":
    main()
