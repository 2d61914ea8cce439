"""What direct connections (6/DMP) carry, beside AMQP and beside a relay that only copies octets.

``python benchmarks/dmp.py [--seconds 3] [--rounds 3] [--only NAME …] [--no-rabbitmq] [--csv FILE]``. Broker, generator
and relay are processes of their own, all over TCP on loopback; one run measures all in turns. Heads that differ come
first; where all are alike, AMQP stands beside. The best round of each counts. Read the figures as ratios; two machines
never agree.
"""

import argparse
import contextlib
import csv
import functools
import sys
from collections.abc import Callable

from loadgen import direct, topology
from loadgen.brokers import Broker, open_rabbitmq, open_triomq, rabbitmq_script
from loadgen.direct import DirectWork
from loadgen.flow import FlowResult
from loadgen.work import Work

WORKS = (
    DirectWork(name="ids", title="100 B, a message-id each", heads="ids"),
    DirectWork(name="topics", title="100 B, 50 topic keys in turn", heads="topics"),
    DirectWork(name="keys", title="100 B, a topic key each", heads="keys"),
    DirectWork(name="ids-large", title="64 KiB, a message-id each", heads="ids", size=65536),
    DirectWork(name="ids-fanout", title="100 B, ids, fanout to 4", heads="ids", width=4),
    DirectWork(name="small", title="100 B, 1 to 1, heads alike"),
    DirectWork(name="kilobyte", title="1 KiB, 1 to 1, heads alike", size=1024),
    DirectWork(name="large", title="64 KiB, 1 to 1, heads alike", size=65536),
    DirectWork(name="fanout", title="100 B, fanout to 4, alike", width=4),
)


def over_amqp(work: DirectWork) -> Work | None:
    """Give the same load for AMQP connections, where there is one."""
    if work.heads != "same":
        return None
    return Work(name=work.name, title=work.title, size=work.size, shape="fanout", width=work.width)


def best(rounds: int, measure: Callable[[], FlowResult]) -> FlowResult:
    """Measure several times, and take the highest rate."""
    return max((measure() for _ in range(rounds)), key=lambda found: found.rate)


class Listing:
    """The table, printed line by line, and written to a file where one is wanted."""

    def __init__(self, path: str | None) -> None:
        self._file = open(path, "w", encoding="utf-8", newline="") if path else None  # noqa: SIM115
        self._writer = csv.writer(self._file, lineterminator="\n") if self._file else None
        print(f"{'':44} {'deliveries/s':>11} {'MiB/s':>8} {'broker µs':>8} {'floor':>5} {'generator':>9}")
        if self._writer:
            self._writer.writerow(["load", "over", "deliveries/s", "MiB/s", "broker's µs", "of the relay"])

    def add(self, title: str, who: str, found: FlowResult, size: int, floor: float) -> None:
        """Print one line, and write it."""
        cost, mebibytes = found.processor_microseconds, found.rate * size / 2**20
        used, part = "" if cost is None else f"{cost:.2f}", found.rate / floor
        print(
            f"{title:29} {who:14} {found.rate:11,.0f} {mebibytes:9,.0f} {used:>8} {part:6.0%} "
            f"{found.generator_share:9.0%}",
            flush=True,
        )
        if self._writer:
            self._writer.writerow([title, who, f"{found.rate:,.0f}", f"{mebibytes:,.0f}", used, f"{part * 100:.0f} %"])

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def run(
    work: DirectWork, broker: Broker, rabbitmq: Broker | None, seconds: float, rounds: int, listing: Listing
) -> None:
    """Measure one load over everything that can carry it."""
    floor = best(rounds, functools.partial(direct.measure_floor, work, seconds))
    listing.add(work.title, "relay", floor, work.size, floor.rate)
    found = best(rounds, functools.partial(direct.measure, work, seconds, broker))
    listing.add("", "triomq DMP", found, work.size, floor.rate)
    same = over_amqp(work)
    if same is not None:
        for who, name in ((broker, "triomq AMQP"), (rabbitmq, "RabbitMQ AMQP")):
            if who is not None:
                found = best(rounds, functools.partial(topology.measure, same, seconds, who))
                listing.add("", name, found, work.size, floor.rate)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(open_triomq())
        rabbitmq = None
        if not options.no_rabbitmq and rabbitmq_script() is not None:
            print("starting RabbitMQ", file=sys.stderr)
            rabbitmq = stack.enter_context(open_rabbitmq())
        listing = stack.enter_context(contextlib.closing(Listing(options.csv)))
        for work in WORKS:
            if not options.only or work.name in options.only:
                run(work, broker, rabbitmq, options.seconds, options.rounds, listing)
        if not options.only or "trips" in options.only:
            for is_direct, name in ((True, "triomq DMP"), (False, "triomq AMQP")):
                trips = min(
                    (
                        direct.measure_round_trips(options.seconds, broker, direct=is_direct)
                        for _ in range(options.rounds)
                    ),
                    key=lambda found: found.microseconds,
                )
                print(f"{'100 B, round trip':29} {name:14} {trips.microseconds:8.1f} µs at the median")


if __name__ == "__main__":
    main()
