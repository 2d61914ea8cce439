"""Measure `triomq serve` over AMQP 0-9-1, with RabbitMQ beside it where it is installed.

    python benchmarks/amqp.py --only noack-200 prefetch-1 --rounds 5
    python benchmarks/amqp.py --same-heads

Messages have properties as services send them: content type, trace, message-id and timestamp, of which the last three
differ in each message. `--same-heads` shows the table in which all heads are alike and carry no property, which
flatters a broker that handles together what is alike.

Brokers run as processes of their own and are driven in turn (A B A B …) with the same load over loopback, so that other
work on the machine meets both. What counts is what consumers received in a steady window, and the broker's processor
time in the same window. See `loadgen/` for how.
"""

import argparse
import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from loadgen import floor, latency, memory, report, topology
from loadgen.brokers import Broker, existing, open_rabbitmq, open_triomq, rabbitmq_script
from loadgen.flow import FlowResult
from loadgen.latency import LatencyResult
from loadgen.memory import MEMORIES, MemoryResult
from loadgen.report import Result, Row, Table
from loadgen.work import AHEADS, FLOWS, LATENCIES, SAME_HEADS

Opener = Callable[[], contextlib.AbstractContextManager[Broker]]


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    same_heads: bool
    seconds: float
    rounds: int
    no_rabbitmq: bool
    no_triomq: bool
    url: str | None
    pid: int | None
    rst: bool
    csv: str | None
    json: str | None


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    names = [work.name for work in (*FLOWS, *AHEADS)]
    same = [*(work.name for work in SAME_HEADS), *(work.name for work in LATENCIES), *(work.name for work in MEMORIES)]
    everything = list(dict.fromkeys([*names, *same]))
    words = f"{', '.join(names)}; with --same-heads: {', '.join(same)}"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=everything, default=[], help=words)
    parser.add_argument("--same-heads", action="store_true", help="100 B and other sizes, all heads alike")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window (3)")
    parser.add_argument("--rounds", type=int, default=3, help="windows per broker and item (3)")
    parser.add_argument("--no-rabbitmq", action="store_true", help="measure without RabbitMQ beside")
    parser.add_argument("--no-triomq", action="store_true", help="measure RabbitMQ alone")
    parser.add_argument("--url", help="measure a broker that runs already, instead of starting triomq")
    parser.add_argument("--pid", type=int, help="with --url: the process whose time and memory are counted")
    parser.add_argument("--rst", action="store_true", help="write reStructuredText")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    parser.add_argument("--json", metavar="FILE", help="write every round to FILE")
    found = msgspec.convert(vars(parser.parse_args(arguments)), Options)
    known = same if found.same_heads else names
    if strange := [name for name in found.only if name not in known]:
        parser.error(f"{', '.join(strange)}: in the other table; {'omit' if found.same_heads else 'add'} --same-heads")
    return msgspec.structs.replace(found, only=found.only or known)


def choose_openers(options: Options) -> list[Opener]:
    """The brokers that take part, as functions that start them."""
    openers: list[Opener] = []
    if options.url:
        broker = existing(options.url, options.pid)
        openers.append(lambda: contextlib.nullcontext(broker))
    elif not options.no_triomq:
        openers.append(open_triomq)
    if not options.no_rabbitmq and rabbitmq_script() is not None:
        openers.append(open_rabbitmq)
    return openers


@contextlib.contextmanager
def all_open(openers: Sequence[Opener]) -> Iterator[list[Broker]]:
    """Start all brokers; they run for the length of the block."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(opener()) for opener in openers]


def measure_in_turn(
    name: str, title: str, rounds: int, brokers: Sequence[Broker], measure: Callable[[Broker], Result]
) -> list[Row[Result]]:
    """Measure each broker once per round: A B A B …, so that a noisy minute meets all of them."""
    results: dict[str, list[Result]] = {broker.name: [] for broker in brokers}
    for number in range(rounds):
        for broker in brokers:
            print(f"{title}: {broker.name}, round {number + 1} of {rounds}", file=sys.stderr)
            results[broker.name].append(measure(broker))
    return [Row(name, title, broker, found) for broker, found in results.items()]


def run_flows(brokers: Sequence[Broker], options: Options) -> list[Row[FlowResult]]:
    """The chosen throughput items, each with the floor where a relay can stand in for a broker."""
    rows: list[Row[FlowResult]] = []
    for work in SAME_HEADS if options.same_heads else FLOWS:
        if work.name in options.only:
            measure = functools.partial(topology.measure, work, options.seconds)
            rows += measure_in_turn(work.name, work.title, options.rounds, brokers, measure)
            if floor.floor_of(work):
                rows.append(Row(work.name, work.title, report.FLOOR, [floor.measure(work, options.seconds)]))
    return rows


def run_latencies(brokers: Sequence[Broker], options: Options) -> list[Row[LatencyResult]]:
    """The chosen backlogs and fixed rates."""
    rows: list[Row[LatencyResult]] = []
    for ahead in [] if options.same_heads else AHEADS:
        if ahead.name in options.only:
            measure = functools.partial(latency.measure_ahead, ahead, options.seconds)
            rows += measure_in_turn(ahead.name, ahead.title, options.rounds, brokers, measure)
    for work in LATENCIES if options.same_heads else []:
        if work.name in options.only:
            measure = functools.partial(latency.measure, work, options.seconds)
            rows += measure_in_turn(work.name, work.title, options.rounds, brokers, measure)
    return rows


def run_memories(openers: Sequence[Opener], options: Options) -> list[Row[MemoryResult]]:
    """The chosen memory items, each in a broker that has just been started; once, since memory does not jitter."""
    rows: list[Row[MemoryResult]] = []
    for work in MEMORIES:
        if options.same_heads and work.name in options.only:
            with all_open(openers) as brokers:
                measure = functools.partial(memory.measure, work)
                rows += measure_in_turn(work.name, work.title, 1, brokers, measure)
    return rows


def write_json(path: Path, rows: Sequence[object]) -> None:
    """Write every round of every row."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))


def main() -> None:
    """Measure what was chosen and print the tables."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    render = report.as_rst if options.rst else report.as_text
    heading = report.heading(options.rounds, options.seconds)
    openers = choose_openers(options)
    with all_open(openers) as brokers:
        flows, latencies = run_flows(brokers, options), run_latencies(brokers, options)
    memories = run_memories(openers, options)
    tables: list[Table] = [report.flow_table(flows), report.latency_table(latencies), report.memory_table(memories)]
    print("\n\n".join([heading, *(render(table) for table in tables if table.lines)]))
    if options.csv:
        report.write_csv(Path(options.csv), [*flows, *latencies])
    if options.json:
        write_json(Path(options.json), [*flows, *latencies, *memories])


if __name__ == "__main__":
    main()
