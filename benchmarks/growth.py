"""Show how the cost of one message grows, with RabbitMQ beside where it is installed, as plots and tables.

    python benchmarks/growth.py --write docs/topics/speed

What counts is the broker's processor time per message, in a steady window or over a fixed number of messages. Brokers
run as processes of their own and are asked in turn at each point. See `loadgen/growing.py` for what is measured.
"""

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from loadgen import memory
from loadgen.brokers import Broker, open_rabbitmq, open_triomq, rabbitmq_script
from loadgen.growing import GROWTHS, Growth, Series, measure
from loadgen.memory import SETTLE, MemoryResult, MemoryWork
from loadgen.report import Row

MEMORIES = [
    MemoryWork("memory", "idle connection with a channel", 1_000, SETTLE, memory.open_connections),
    MemoryWork("memory", "idle queue", 10_000, SETTLE, memory.declare_queues),
]


Opener = Callable[[], contextlib.AbstractContextManager[Broker]]


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    seconds: float
    most: int | None
    no_rabbitmq: bool
    write: str | None


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    names = [*(growth.name for growth in GROWTHS), "memory"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window (2)")
    parser.add_argument("--most", type=int, help="go no further than this many of anything")
    parser.add_argument("--no-rabbitmq", action="store_true", help="measure without RabbitMQ beside")
    parser.add_argument("--write", metavar="FOLDER", help="write plots and tables; needs matplotlib")
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


def chosen(options: Options) -> list[Growth]:
    """The plots that are wanted, as far as they shall go."""
    growths = [growth for growth in GROWTHS if growth.name in options.only]
    if options.most is None:
        return growths
    return [
        msgspec.structs.replace(growth, counts=[count for count in growth.counts if count <= options.most])
        for growth in growths
    ]


def show(growth: Growth, found: Sequence[Series]) -> None:
    """Print what was found."""
    print(f"\n{growth.title} (broker's CPU, µs)")
    for series in found:
        points = ", ".join(f"{point.count:,}: {point.microseconds:.1f}" for point in series.points)
        print(f"  {series.broker}{', ' if series.label else ''}{series.label}: {points}")


def write(growth: Growth, found: Sequence[Series], folder: Path) -> None:
    """Write plot and table of one growth."""
    from loadgen import plots  # matplotlib is an extra, which only they need

    folder.mkdir(parents=True, exist_ok=True)
    plots.draw(growth, found, folder / f"{growth.name}.svg")
    plots.tabulate(growth, found, folder / f"{growth.name}.csv")


def measure_memory(openers: Sequence[Opener], most: int | None, folder: Path | None) -> None:
    """Fill brokers that have just been started with one kind of thing, and see how large they are."""
    rows: list[Row[MemoryResult]] = []
    for work in MEMORIES:
        few = work if most is None else msgspec.structs.replace(work, count=min(work.count, most))
        with contextlib.ExitStack() as stack:
            for broker in [stack.enter_context(opener()) for opener in openers]:
                print(f"memory: {broker.name}, {few.count} × {few.title}", file=sys.stderr)
                rows.append(Row(work.name, work.title, broker.name, [memory.measure(few, broker)]))
    print("\nResident memory")
    for row in rows:
        (result,) = row.rounds
        print(f"  {row.broker}, {result.count:,} × {row.title}: {result.resident / 1e6:.1f} MB")
    if folder is not None:
        from loadgen import plots

        plots.tabulate_memory(rows, folder / "memory.csv")


def main() -> None:
    """Measure, print, write."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    openers: list[Opener] = [open_triomq]
    if not options.no_rabbitmq and rabbitmq_script() is not None:
        openers.append(open_rabbitmq)
    folder = Path(options.write) if options.write else None
    for growth in chosen(options):
        # Fresh brokers for each plot: what one leaves behind in memory must not slow the next.
        with contextlib.ExitStack() as stack:
            brokers = [stack.enter_context(opener()) for opener in openers]
            found = measure(growth, brokers, options.seconds, lambda line: print(line, file=sys.stderr))
        show(growth, found)
        if folder is not None:
            write(growth, found, folder)
    if "memory" in options.only:
        measure_memory(openers, options.most, folder)


if __name__ == "__main__":
    main()
