"""What routing costs, and how it grows: bindings, wildcards, words; topic against direct, fanout and headers.

``python benchmarks/routing.py [--smoke]``. Times are the best of several runs, in microseconds; read them as ratios.
Keys rotate, so that nothing is found because it was just found; each message reaches exactly one queue unless the row
says otherwise.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TypeVarTuple

import trio

from triomq.actors import Turn, open_system
from triomq.core import (
    EVERYTHING,
    Bind,
    CachedRoute,
    Comparison,
    Condition,
    DeclareQueue,
    DeclareSink,
    Directory,
    Domain,
    Head,
    Properties,
    Publish,
    Publisher,
    Purge,
    QueueOptions,
    Session,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    encode_core,
    make_binding,
    make_predicate,
)

SMOKE = "--smoke" in sys.argv
RUNS = 1 if SMOKE else 7
CALLS = 100 if SMOKE else 2_000
FEW = 10
MANY = 200 if SMOKE else 10_000
COUNTS = (FEW, MANY // 10, MANY)
WORDS = (10, 20, 40, 80)
BODY = b"x" * 100

Ts = TypeVarTuple("Ts")
Headers = Mapping[str, object]


class Harness:
    """One domain with one queue for each binding, so that what a message reaches can be counted."""

    def __init__(self, directory: Directory, session: Session, turn: Turn) -> None:
        """Take over a domain that runs."""
        self.directory = directory
        self.session = session
        self.turn = turn

    def sink(self, name: str, kind: SinkKind) -> None:
        """Declare a sink."""
        self.session.domain.ask_nowait(DeclareSink(name, SinkOptions(kind=kind)))

    def bind(self, sink: str, queue: str, key: str = "", arguments: Headers | None = None) -> None:
        """Declare a queue and bind it."""
        self.session.domain.ask_nowait(DeclareQueue(queue, QueueOptions(), self.session))
        binding = make_binding(sink, Target.QUEUE, queue, key, arguments)
        self.session.domain.ask_nowait(Bind(binding, self.session))

    def come_and_go(self, sink: str, queue: str, key: str) -> None:
        """Bind a queue by one more key, and take it back."""
        self.bind(sink, queue, key)
        binding = make_binding(sink, Target.QUEUE, queue, key)
        self.session.domain.ask_nowait(Unbind(binding, self.session))

    def route(self, sink: str, keys: Iterable[str], headers: Headers) -> None:
        """Find the queues for messages, one by one."""
        route = self.directory.route
        for key in keys:
            route(sink, key, lambda: headers)

    def publish(self, sink: str, keys: Iterable[str]) -> None:
        """Publish messages one by one, as somebody in this process does, a turn for each."""
        route = self.directory.route
        for key in keys:
            head = Head(exchange=sink, routing_key=key)
            for queue in route(sink, key, dict).queues:
                queue.tell_nowait(Publish(head, [BODY], len(BODY)))

    def bind_filter(self, sink: str, queue: str, condition: Condition) -> None:
        """Declare a queue and bind it with a predicate."""
        self.session.domain.ask_nowait(DeclareQueue(queue, QueueOptions(), self.session))
        binding = make_binding(sink, Target.QUEUE, queue, "t", predicate=make_predicate([condition]))
        self.session.domain.ask_nowait(Bind(binding, self.session))

    def publish_runs(self, sink: str, runs: Iterable[tuple[Head, list[bytes]]]) -> None:
        """Publish runs as endpoints do, a turn for each; what was found before is forgotten."""
        self.directory.changed()
        publisher, route = Publisher(self.directory, EVERYTHING, self.turn), CachedRoute(sink, "t")
        for head, contents in runs:
            size = sum(map(len, contents))
            self.turn.run(publisher.publish, route, head, contents, size)

    def empty(self) -> None:
        """Forget all messages."""
        for queue in self.directory.queues.values():
            queue.ref.ask_nowait(Purge())


def best(calls: int, function: Callable[[*Ts], None], *args: *Ts) -> float:
    """Give the microseconds of each of so many calls that the function makes, in the best run."""
    fastest = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        function(*args)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / calls * 1e6


def show(what: str, microseconds: float, compared: float | None = None) -> None:
    """Print a row of the table."""
    ratio = "" if compared is None else f"  {microseconds / compared:6.2f}"
    print(f"{what:58} {microseconds:9.2f} µs{ratio}")


def heading(what: str, compared: str = "") -> None:
    """Begin a table."""
    print(f"\n{what:72}{compared}".rstrip())


def key_of(number: int) -> str:
    """Give one of the keys: five words, as in ``shop.eu3.orders.17.created``."""
    return f"shop.eu{number % 10}.orders.{number}.created"


def pattern_of(number: int) -> str:
    """Give a pattern that matches the key of this number alone; half of them have wildcards."""
    return (
        key_of(number),
        f"shop.*.orders.{number}.created",
        key_of(number),
        f"shop.eu{number % 10}.#.{number}.*",
        key_of(number),
        f"*.*.*.{number}.*",
        key_of(number),
        f"#.{number}.created",
        key_of(number),
        f"shop.#.{number}.#",
    )[number % 10]


def keys_among(count: int) -> list[str]:
    """Give keys of bindings, in an order that nothing can guess."""
    chance = random.Random(1)
    return [key_of(chance.randrange(count)) for _ in range(CALLS)]


def bind_patterns(harness: Harness, sink: str, count: int) -> None:
    """Bind as many queues to a topic sink."""
    harness.sink(sink, SinkKind.TOPIC)
    for number in range(count):
        harness.bind(sink, f"{sink}.{number}", pattern_of(number))


def topic(harness: Harness) -> None:
    """Compare few bindings with many."""
    heading("topic: bindings, half of them with * or #", "to few")
    route = [(count, best(CALLS, harness.route, f"topic{count}", keys_among(count), {})) for count in COUNTS]
    publish = [(count, best(CALLS, harness.publish, f"topic{count}", keys_among(count))) for count in COUNTS]
    for what, rows in (("route", route), ("publish", publish)):
        for count, microseconds in rows:
            show(f"{what}, {count:,} bindings", microseconds, rows[0][1])
    harness.empty()


def check(harness: Harness) -> None:
    """See that each key reaches one queue."""
    for count in COUNTS:
        assert all(len(harness.directory.route(f"topic{count}", key, dict).queues) == 1 for key in keys_among(count))


def bind_kinds(harness: Harness, count: int) -> None:
    """Bind as many queues to a sink of each other kind."""
    for kind in (SinkKind.DIRECT, SinkKind.HEADERS, SinkKind.FANOUT):
        sink = f"{kind.value}{count}"
        harness.sink(sink, kind)
        for number in range(count):
            harness.bind(sink, f"{sink}.{number}", key_of(number), {"number": number, "kind": "order"})


def kinds(harness: Harness, count: int) -> None:
    """Compare the kinds of sink."""
    bind_kinds(harness, count)
    heading(f"the kinds of sink, {count:,} bindings", "to direct")
    keys, headers = keys_among(count), {"number": 7, "kind": "order"}
    some = keys[: max(1, CALLS // count)]
    direct = best(CALLS, harness.route, f"direct{count}", keys, headers)
    fanout = best(len(some), harness.route, f"fanout{count}", some, headers)
    show("direct", direct)
    show("topic", best(CALLS, harness.route, f"topic{count}", keys, headers), direct)
    show("headers, which looks at each rule", best(len(some), harness.route, f"headers{count}", some, headers), direct)
    show(f"fanout, to {count:,} queues", fanout, direct)
    show("fanout, for each of the queues", fanout / count, direct)


def publishes(harness: Harness) -> None:
    """Compare a publish through a sink with one to the default sink, which is the least that a publish costs."""
    heading("a publish in process, a turn for each, 100 octets, no consumer", "to default")
    harness.session.domain.ask_nowait(DeclareQueue("plain", QueueOptions(), harness.session))
    default = best(CALLS, harness.publish, "", ["plain"] * CALLS)
    show("default sink", default)
    for kind in (SinkKind.DIRECT, SinkKind.TOPIC):
        microseconds = best(CALLS, harness.publish, f"{kind.value}{MANY}", keys_among(MANY))
        show(f"{kind.value}, {MANY:,} bindings", microseconds, default)
    harness.empty()


def shares(harness: Harness) -> None:
    """Show what a consistent-hash sink costs, to look in and to change."""
    heading("x-consistent-hash", "to direct")
    direct = best(CALLS, harness.route, f"direct{FEW}", keys_among(FEW), {})
    for count in (FEW, 10 * FEW):
        sink = f"shares{count}"
        harness.sink(sink, SinkKind.CONSISTENT_HASH)
        for number in range(count):
            harness.bind(sink, f"{sink}.{number}", "1")
        show(f"route, {count} bindings", best(CALLS, harness.route, sink, keys_among(FEW), {}), direct)
        show(f"one binding comes to {count}, and goes again", best(1, harness.come_and_go, sink, f"{sink}.0", "2"))


def hashes(harness: Harness) -> None:
    """Show that time grows with words times nodes, where trying one way after the other would explode."""
    heading("one pattern #.a.#.a… and a key a.a…b that does not match, µs by words and #")
    print(f"{'':10}" + "".join(f"{words:4} words" for words in WORDS))
    for count in (1, 2, 4, 8, 16):
        sink = f"hashes{count}"
        harness.sink(sink, SinkKind.TOPIC)
        harness.bind(sink, sink, ".".join(["#", "a"] * count))
        print(f"{count:8} #" + "".join(f"{almost(harness, sink, words):10.1f}" for words in WORDS))


def almost(harness: Harness, sink: str, words: int) -> float:
    """Time a key that almost matches in very many ways."""
    calls = max(1, CALLS // 20)
    return best(calls, harness.route, sink, [".".join(["a"] * (words - 1) + ["b"])] * calls, {})


FILTERS = 200
RUN = 100
"""Messages that come at once."""


def runs_of(*, own: bool) -> list[tuple[Head, list[bytes]]]:
    """Give runs of messages with a customer each, and perhaps with an id of their own."""
    chance = random.Random(1)
    runs = []
    for start in range(0, CALLS, RUN):
        contents = []
        for number in range(start, start + RUN):
            headers: dict[str, object] = {"customer": f"c{chance.randrange(FILTERS):03}", "size": 50}
            if own:
                headers["id"] = f"{number:08}"
            encoded = encode_core(Properties(headers=headers))
            contents.append(encoded + BODY)
        runs.append((Head("s", "t", 0, len(encoded), len(encoded)), contents))
    return runs


def filters(harness: Harness) -> None:
    """Compare filters on one topic with none."""

    def by_customer(number: int) -> Condition:
        return Condition("customer", Comparison.EQUAL, f"c{number:03}")

    def by_size(number: int) -> Condition:
        return Condition("size", Comparison.LESS, -number)

    alike, own = runs_of(own=False), runs_of(own=True)
    heading(f"a publish in runs of {RUN}, one topic, {FILTERS} filters", "to none")
    harness.sink("none", SinkKind.TOPIC)
    harness.bind("none", "none", "t")
    none = best(CALLS, harness.publish_runs, "none", alike)
    show("no filter", none)
    for what, queues, condition in (
        ("by equality, into one queue", 1, by_customer),
        ("by equality, into 200 queues", FILTERS, by_customer),
        ("by comparison, which none passes", 1, by_size),
    ):
        harness.sink(what, SinkKind.TOPIC)
        for number in range(FILTERS):
            harness.bind_filter(what, f"{what}.{number % queues}", condition(number))
        show(what, best(CALLS, harness.publish_runs, what, alike), none)
        harness.empty()
        show("the same, each with an id of its own", best(CALLS, harness.publish_runs, what, own), none)
        harness.empty()


async def main() -> None:
    """Print all tables."""
    print(f"Python {sys.version.split()[0]}, trio {version('trio')}" + (": these mean nothing" if SMOKE else ""))
    directory = Directory("benchmark")
    async with open_system() as system:
        domain = await system.start(lambda: Domain(directory), name="domain")
        session = Session(domain, directory)
        session.attach()
        harness = Harness(directory, session, system.turn)
        for count in COUNTS:
            bind_patterns(harness, f"topic{count}", count)
        check(harness)
        topic(harness)
        for count in (FEW, MANY):
            kinds(harness, count)
        publishes(harness)
        shares(harness)
        hashes(harness)
        filters(harness)


if __name__ == "__main__":
    trio.run(main)
