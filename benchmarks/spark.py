"""Measure Spark with streams as its source and its sink; files, and pika with pyarrow, beside.

    python benchmarks/spark.py [--only batch-noop-100 stream-sink-100 …] [--records 5000000] [--rounds 3]

The broker runs in a process of its own with a data directory, Spark as ``local[2]`` on two streams, of which each is a
partition. Records are appended over AMQP as services send them, each with a value that differs; those with properties
have message ids, trace headers and times that differ as well, and Spark is asked for them.

batch-noop, batch-parquet     ``spark.read``: all records, dropped or written to Parquet files
stream-noop, stream-parquet   ``spark.readStream``, 200,000 records a trigger; the rate is without the first trigger,
                              in which Spark starts its Python workers
stream-sink                   from stream to stream, exactly once
parquet-sink                  ``df.write`` from Parquet files to a stream
files-noop, files-parquet     the same rows read by Spark from Parquet files
pika-parquet                  the same records consumed by pika and written by pyarrow, a process for each stream
trips                         ten records again and again, from stream to stream: until a reader of the sink has them
idle                          a query with nothing to read: processor time of a second, and of one trigger

Items are measured in turn, so that other work on the machine meets all. Processor time is what the OS has counted for
driver, JVM, Python workers and broker, with all that they have started. Parquet is compressed by zstd everywhere.
"""

import argparse
import contextlib
import csv
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from amqp import write_json
from loadgen.brokers import open_tapped_triomq
from sparkside import queries
from sparkside.meter import Meter, Seconds
from sparkside.queries import Bench, Cost, Measure, Trips
from sparkside.records import KINDS, Records, fill, open_streams
from triomq.pipeline import session


class Work(msgspec.Struct, frozen=True):
    """What is measured: `name` selects it, `title` stands in the table, with the records that it moves.

    Args:
        part: of the records, how many are used; slow ones get fewer.
    """

    name: str
    title: str
    measure: Measure
    kind: str
    part: float = 1.0


WORKS = [
    Work("batch-noop-100", "batch source, dropped", queries.batch_to_noop, "100"),
    Work("files-noop-100", "Parquet files, dropped", queries.files_to_noop, "100"),
    Work("batch-parquet-100", "batch source to Parquet", queries.batch_to_parquet, "100"),
    Work("files-parquet-100", "Parquet files to Parquet", queries.files_to_parquet, "100"),
    Work("pika-parquet-100", "pika and pyarrow to Parquet", queries.pika_to_parquet, "100", 0.05),
    Work("stream-noop-100", "stream source, 200,000 a trigger", queries.stream_to_noop, "100"),
    Work("stream-parquet-100", "stream to Parquet, 200,000 a trigger", queries.stream_to_parquet, "100"),
    Work("stream-sink-100", "stream to sink, 200,000 a trigger", queries.stream_to_sink, "100"),
    Work("parquet-sink-100", "Parquet files to sink", queries.parquet_to_sink, "100"),
    Work("batch-noop-1024", "batch source, dropped", queries.batch_to_noop, "1024"),
    Work("stream-noop-1024", "stream source, 200,000 a trigger", queries.stream_to_noop, "1024"),
    Work("parquet-sink-1024", "Parquet files to sink", queries.parquet_to_sink, "1024"),
    Work("batch-noop-properties", "batch source, dropped", queries.batch_to_noop, "properties"),
    Work("batch-parquet-properties", "batch source to Parquet", queries.batch_to_parquet, "properties"),
    Work("pika-parquet-properties", "pika and pyarrow to Parquet", queries.pika_to_parquet, "properties", 0.05),
    Work("stream-noop-properties", "stream source, 200,000 a trigger", queries.stream_to_noop, "properties"),
    Work("stream-sink-properties", "stream to sink, 200,000 a trigger", queries.stream_to_sink, "properties"),
]
OTHERS = ("trips", "idle")

SIZES = {"100": 1.0, "1024": 0.2, "properties": 0.4}
"""Of the records that were asked for, how many there are of each kind: so that all take about as many bytes."""

AIMS = {
    "batch-noop-100": 2_000_000,
    "stream-noop-100": 500_000,
    "stream-sink-100": 350_000,
    "parquet-sink-100": 800_000,
}
"""Records per second that are wanted on a quiet machine with two cores."""

TRIPS_AIM = 250.0
"""Milliseconds for half of the single records."""


class Session:
    """Spark on two cores of this machine; made for a folder, ends with `close`."""

    def __init__(self, folder: str) -> None:
        self.session = session("benchmark", master="local[2]")

    def close(self) -> None:
        """Stop it."""
        self.session.stop()


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    records: int
    rounds: int
    seconds: float
    smoke: bool
    csv: str | None
    json: str | None


class SparkRow(msgspec.Struct, frozen=True):
    """All rounds of one item."""

    work: str
    title: str
    records: str
    rounds: list[Cost]

    @property
    def rate(self) -> float:
        """The median of records per second."""
        return statistics.median(found.rate for found in self.rounds)

    def microseconds(self, part: Callable[[Seconds], float]) -> float:
        """The median of processor time per record, of all or of one of those who take part."""
        return statistics.median(part(found.microseconds) for found in self.rounds)


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    names = [*(work.name for work in WORKS), *OTHERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--records", type=int, default=5_000_000, help="of 100 B; of others fewer (5,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each item (3)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long single records are sent (20)")
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    parser.add_argument("--json", metavar="FILE", help="write every round to FILE")
    found = msgspec.convert(vars(parser.parse_args(arguments)), Options)
    return msgspec.structs.replace(found, records=40_000, rounds=1, seconds=2.0) if found.smoke else found


def run(bench: Bench, options: Options) -> list[SparkRow]:
    """Measure the chosen items, kind by kind, in each round each of them once."""
    rows: list[SparkRow] = []
    for kind in KINDS.values():
        works = [work for work in WORKS if work.name in options.only and work.kind == kind.name]
        if not works:
            continue
        with open_streams(bench.broker, 2) as streams, open_streams(bench.broker, 2) as few:
            count = int(options.records * SIZES[kind.name])
            print(f"appending {count:,} records of {kind.title}", file=sys.stderr)
            records = fill(bench.broker, streams, kind, count)
            parts = {1.0: records}
            for work in works:
                if work.part not in parts:
                    parts[work.part] = fill(bench.broker, few, kind, max(5_000, int(count * work.part)))
            queries.files_of(bench, records)
            rows += run_kind(bench, works, parts, options.rounds)
    return rows


def run_kind(bench: Bench, works: Sequence[Work], parts: dict[float, Records], rounds: int) -> list[SparkRow]:
    """Measure what has records of one kind."""
    found: dict[str, list[Cost]] = {work.name: [] for work in works}
    for number in range(rounds):
        for work in works:
            print(f"{work.name}, round {number + 1} of {rounds}", file=sys.stderr)
            found[work.name].append(work.measure(bench, parts[work.part]))
    return [SparkRow(work.name, work.title, KINDS[work.kind].title, found[work.name]) for work in works]


HEADINGS = ["work", "records", "records/s", "times the aim", "CPU µs", "driver", "JVM", "workers", "broker"]
PARTS: list[Callable[[Seconds], float]] = [
    lambda found: found.whole,
    lambda found: found.driver,
    lambda found: found.jvm,
    lambda found: found.workers,
    lambda found: found.broker,
]


def cells(rows: Sequence[SparkRow]) -> list[list[str]]:
    """Return the table, a list for each line."""
    return [
        [
            row.title,
            row.records,
            f"{row.rate:,.0f}",
            f"{row.rate / AIMS[row.work]:.2f}" if row.work in AIMS else "–",
            *(f"{row.microseconds(part):.2f}" for part in PARTS),
        ]
        for row in rows
    ]


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Print the table."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_ratios(rows: Sequence[SparkRow]) -> None:
    """Print how the source compares with what else does it."""
    rates = {row.work: row.rate for row in rows}
    costs = {row.work: row.microseconds(PARTS[0]) for row in rows}
    for ours, theirs in [
        ("batch-noop-100", "files-noop-100"),
        ("batch-parquet-100", "files-parquet-100"),
        ("batch-parquet-100", "pika-parquet-100"),
        ("stream-parquet-100", "pika-parquet-100"),
        ("batch-parquet-properties", "pika-parquet-properties"),
    ]:
        if ours in rates and theirs in rates:
            rate, cost = rates[ours] / rates[theirs], costs[theirs] / costs[ours]
            print(f"{ours} has {rate:.2f} times the rate of {theirs}, and takes {cost:.2f} times less processor time")


def print_trips(found: Trips) -> None:
    """Print what single records have shown."""
    print(
        f"ten records from stream to sink: p50 {found.p50:.0f} ms (aim: {TRIPS_AIM:.0f}), p95 {found.p95:.0f} ms; "
        f"micro-batch {found.trigger:.0f} ms, processor time {_shares(found.milliseconds, 'ms')}"
    )


def print_idle(free: Seconds, slow: Seconds) -> None:
    """Print what a query costs that has nothing to do."""
    print(f"an idle query, as often as Spark likes: {_shares(free.times(1e3), 'ms')} of each second")
    trigger = slow.times(1e3 * INTERVAL)
    print(f"an idle query, every {INTERVAL:g} s: {_shares(trigger, 'ms')} for each trigger")


def _shares(found: Seconds, unit: str) -> str:
    return (
        f"{found.whole:.1f} {unit} (driver {found.driver:.1f}, JVM {found.jvm:.1f}, "
        f"workers {found.workers:.1f}, broker {found.broker:.1f})"
    )


INTERVAL = 0.1
"""Seconds between the triggers of the slower one of the idle queries."""


def main() -> None:
    """Measure what was chosen and print the tables."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that nothing stays behind
    with (
        tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as folder,
        open_tapped_triomq() as broker,
        contextlib.closing(Session(folder)) as spark,
    ):
        bench = Bench(spark.session, broker, Meter(spark.session, broker), Path(folder))
        rows = run(bench, options)
        lines = [HEADINGS, *cells(rows)]
        if rows:
            print_table(lines)
            print_ratios(rows)
        if "trips" in options.only:
            print_trips(queries.measure_trips(bench, options.seconds))
        if "idle" in options.only:
            seconds = options.seconds / 2
            print_idle(queries.measure_idle(bench, seconds), queries.measure_idle(bench, seconds, interval=INTERVAL))
    if options.csv:
        with Path(options.csv).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    if options.json:
        write_json(Path(options.json), rows)


if __name__ == "__main__":
    main()
