"""Measure what keeping messages on disk costs, with RabbitMQ's durable classic queues beside where it is installed.

    python benchmarks/durable.py --only durable-100-1 confirm --rounds 5

triomq runs with a data directory, RabbitMQ as ever; both directories are temporary ones on the same file system. They
are driven in turn (A B A B …) with the same load over loopback. Heads differ in every message (see `amqp.py`), except
in fixed rates and backlogs; `--same-heads` shows the flows with heads that are all alike. What else a broker does
beside it is part of some items: a flood of transient messages without acks on another connection. The last items show
what a data directory costs when nothing is durable.
"""

import argparse
import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from amqp import Opener, all_open, measure_in_turn, write_json
from loadgen import backlog, confirming, latency, report, topology
from loadgen.backlog import BACKLOGS, BacklogResult
from loadgen.brokers import Broker, open_kept_triomq, open_rabbitmq, open_triomq, rabbitmq_script
from loadgen.confirming import ConfirmResult
from loadgen.flow import FlowResult
from loadgen.report import Row, Table
from loadgen.work import CONFIRMS, DURABLES, FLOWS, SAME_DURABLES, SAME_HEADS, Work

BESIDE = "-flood"
TRANSIENT = [work for work in FLOWS if work.name in ("noack-200", "ack-200")]
SAME_TRANSIENT = [work for work in SAME_HEADS if work.name in ("noack-100", "ack-100")]


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    seconds: float
    rounds: int
    messages: int
    same_heads: bool
    no_rabbitmq: bool
    rst: bool
    csv: str | None
    json: str | None


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    durable = [work.name for work in DURABLES]
    flooded = [work.name + BESIDE for work in DURABLES if work.pipelined]
    confirms, backlogs = [work.name for work in CONFIRMS], [work.name for work in BACKLOGS]
    names = [*durable, *flooded, *confirms, *backlogs, *(work.name for work in (*TRANSIENT, *SAME_TRANSIENT))]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a window (5)")
    parser.add_argument("--rounds", type=int, default=3, help="windows per broker and item (3); a backlog has one")
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages of the backlog (1,000,000)")
    parser.add_argument("--same-heads", action="store_true", help="flows whose heads are all alike")
    parser.add_argument("--no-rabbitmq", action="store_true", help="measure without RabbitMQ beside")
    parser.add_argument("--rst", action="store_true", help="write reStructuredText")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    parser.add_argument("--json", metavar="FILE", help="write every round to FILE")
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


def beside_a_flood(work: Work, seconds: float, broker: Broker) -> FlowResult:
    """Measure a flow while another connection floods the same broker; its processor time is the flood's as well."""
    with latency.running(latency.run_floods, broker.address, 1):
        found = topology.measure(work, seconds, broker)
    return msgspec.structs.replace(found, processor_microseconds=None, own_microseconds=None)


def run_durables(brokers: Sequence[Broker], options: Options) -> list[Row[FlowResult]]:
    """The chosen flows, alone and beside a flood."""
    rows: list[Row[FlowResult]] = []
    kinds: list[tuple[str, str, Callable[[Work, float, Broker], FlowResult]]] = [
        ("", "", topology.measure),
        (BESIDE, ", beside a flood", beside_a_flood),
    ]
    for suffix, words, measure in kinds:
        for work in SAME_DURABLES if options.same_heads else DURABLES:
            if (name := work.name + suffix) in options.only:
                one = functools.partial(measure, work, options.seconds)
                rows += measure_in_turn(name, work.title + words, options.rounds, brokers, one)
    return rows


def run_confirms(brokers: Sequence[Broker], options: Options) -> list[Row[ConfirmResult]]:
    """The chosen fixed rates."""
    rows: list[Row[ConfirmResult]] = []
    for work in CONFIRMS:
        if work.name in options.only:
            one = functools.partial(confirming.measure, work, options.seconds)
            rows += measure_in_turn(work.name, work.title, options.rounds, brokers, one)
    return rows


def run_backlogs(openers: Sequence[Opener], options: Options) -> list[Row[BacklogResult]]:
    """The chosen backlogs, in brokers that have just been started; once, each broker alone."""
    rows: list[Row[BacklogResult]] = []
    for work in [work for work in BACKLOGS if work.name in options.only]:
        title = f"{options.messages:,} × {work.title}"
        measure = functools.partial(backlog.measure, work, options.messages)
        for opener in openers:
            with opener() as broker:
                rows += measure_in_turn(work.name, title, 1, [broker], measure)
    return rows


def run_transient(options: Options) -> list[Row[FlowResult]]:
    """Work of which nothing is durable, with and without a data directory."""
    rows: list[Row[FlowResult]] = []
    chosen = [work for work in (SAME_TRANSIENT if options.same_heads else TRANSIENT) if work.name in options.only]
    with contextlib.ExitStack() as stack:
        if chosen:
            brokers = [
                stack.enter_context(open_triomq("in memory")),
                stack.enter_context(open_kept_triomq("data directory")),
            ]
        for work in chosen:
            measure = functools.partial(topology.measure, work, options.seconds)
            rows += measure_in_turn(work.name, work.title, options.rounds, brokers, measure)
    return rows


def main() -> None:
    """Measure what was chosen and print the tables."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    render = report.as_rst if options.rst else report.as_text
    heading = report.heading(options.rounds, options.seconds)
    openers: list[Opener] = [open_kept_triomq]
    if not options.no_rabbitmq and rabbitmq_script() is not None:
        openers.append(open_rabbitmq)
    with all_open(openers) as brokers:
        flows, confirms = run_durables(brokers, options), run_confirms(brokers, options)
    backlogs, transient = run_backlogs(openers, options), run_transient(options)
    tables: list[Table] = [
        report.durable_table(flows),
        report.confirm_table(confirms),
        report.backlog_table(backlogs),
        report.flow_table(transient),
    ]
    print("\n\n".join([heading, *(render(table) for table in tables if table.lines)]))
    if options.csv:
        report.write_csv(Path(options.csv), flows)
    if options.json:
        write_json(Path(options.json), [*flows, *confirms, *backlogs, *transient])


if __name__ == "__main__":
    main()
