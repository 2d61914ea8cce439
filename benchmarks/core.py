"""What one message costs in the core, and how it grows: bindings, queues, feeds, backlog, priorities, time.

``python benchmarks/core.py [--quick]``. In process, no wire and no socket: somebody publishes, a turn for each message,
and consumers in place settle what they get at once. Microseconds of this process for each message, the best of several
runs, and below them the ratio to the first column; read the figures as ratios. A row grows by factors of ten; what does
not depend on it stays at 1.
"""

import gc
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Ref, open_system
from triomq.core import (
    Batch,
    Bind,
    Comparison,
    Condition,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Deliver,
    Directory,
    Domain,
    Feed,
    FeedClosed,
    Get,
    Head,
    Outcome,
    Properties,
    Publish,
    QueueOptions,
    QueueState,
    Session,
    SinkKind,
    SinkOptions,
    Target,
    Window,
    encode_core,
    make_binding,
    make_predicate,
    settle,
    traits_of,
)

QUICK = "--quick" in sys.argv
RUNS = 1 if QUICK else 5
CALLS = 20 if QUICK else 2_000
BODY = b"x" * 100

Work = Callable[[], None]
"""Takes ``CALLS`` messages all their way."""


def tens(first: int, last: int) -> list[int]:
    """Give a row's columns, by factors of ten; the first two alone in a short turn."""
    columns = [first]
    while columns[-1] < last:
        columns.append(max(1, columns[-1] * 10))
    return columns[:2] if QUICK else columns


class Consumer(InPlaceActor):
    """Settles what it gets at once, or keeps it."""

    def __init__(self, *, keeps: bool) -> None:
        """Start with nothing."""
        self.keeps = keeps
        self.kept: deque[Batch] = deque()

    def deliver(self, message: Deliver) -> None:
        """Take a batch."""
        if self.keeps:
            self.kept.append(message.batch)
        else:
            settle(message.batch, Outcome.ACCEPT)

    def feed_closed(self, message: FeedClosed) -> None:
        """Hear that the queue is deleted."""


class Harness:
    """One domain, and a place for consumers."""

    def __init__(self, directory: Directory, session: Session, consumers: Ref) -> None:
        """Take over a domain that runs."""
        self.directory = directory
        self.session = session
        self._consumers = consumers

    @contextmanager
    def queues(self, names: Sequence[str], options: QueueOptions | None = None) -> Iterator[list[QueueState]]:
        """Declare queues, and delete them afterwards."""
        domain, options = self.session.domain, options or QueueOptions()
        yield [domain.ask_nowait(DeclareQueue(name, options, self.session)) for name in names]
        for name in names:
            domain.ask_nowait(DeleteQueue(name, self.session))

    @contextmanager
    def sink(
        self, kind: SinkKind, keys: Sequence[str], destinations: Sequence[str], guard: Comparison | None = None
    ) -> Iterator[None]:
        """Declare a sink that is called like its kind, bind queues to it, and delete it afterwards."""
        domain, name = self.session.domain, kind.value
        domain.ask_nowait(DeclareSink(name, SinkOptions(kind=kind)))
        for key, destination in zip(keys, destinations, strict=True):
            predicate = None if guard is None else make_predicate([Condition("key", guard, key)])
            binding = make_binding(name, Target.QUEUE, destination, key, {"key": key}, predicate=predicate)
            domain.ask_nowait(Bind(binding, self.session))
        yield
        domain.ask_nowait(DeleteSink(name))

    def feed(
        self,
        queue: QueueState,
        messages: int = 0,
        *,
        keeps: bool = False,
        priority: int = 0,
        shared: tuple[Window, ...] = (),
    ) -> Consumer:
        """Let a new consumer read a queue."""
        consumer = Consumer(keeps=keeps)
        supervisor = self._consumers.actor
        assert isinstance(supervisor, DynamicSupervisor)
        ref = supervisor.start_child_nowait(ChildSpec(lambda: consumer, restart="temporary"))
        self.session.open_feed(Feed(queue.ref, ref, window=Window(messages), shared=shared, priority=priority))
        return consumer

    def publisher(self, sink: str, keys: Sequence[str]) -> Work:
        """Publish messages one by one, as somebody in this process does, a turn for each."""
        route = self.directory.route

        def publish() -> None:
            for key in keys:
                head = Head(exchange=sink, routing_key=key)
                headers = {"key": key}
                for queue in route(sink, key, lambda headers=headers: headers).queues:  # type: ignore[misc]
                    queue.tell_nowait(Publish(head, [BODY], len(BODY)))

        return publish


def best(work: Work, messages: int = CALLS) -> float:
    """Give the microseconds for each of so many messages that the work takes, in the best run."""
    fastest = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
    return fastest / messages * 1e6


def table(what: str, columns: Sequence[int], rows: dict[str, Callable[[int], float | None]]) -> None:
    """Measure and print a table."""
    print(f"\n{what:34}" + "".join(f"{column:>11,}" for column in columns), flush=True)
    for name, measure in rows.items():
        found = [measured(measure, column) for column in columns]
        first = next(figure for figure in found if figure is not None)
        print(f"{name:34}" + "".join(f"{'':11}" if one is None else f"{one:9.2f}µs" for one in found))
        print(f"{'':34}" + "".join(f"{'':11}" if one is None else f"{one / first:11.2f}" for one in found), flush=True)


def measured(measure: Callable[[int], float | None], column: int) -> float | None:
    """Measure with what is there already out of the collector's way, as a broker does it after its start."""
    gc.collect()
    return measure(column)


def some(names: Sequence[str], count: int = CALLS) -> list[str]:
    """Choose names in an order that nothing can guess."""
    chance = random.Random(1)
    return [chance.choice(names) for _ in range(count)]


def key_of(number: int) -> str:
    """Give one of the keys: five words, as in ``shop.eu3.orders.17.created``."""
    return f"shop.eu{number % 10}.orders.{number}.created"


def pattern_of(number: int) -> str:
    """Give a pattern that matches the key of this number alone; half of them have wildcards."""
    return (key_of(number), f"shop.*.orders.{number}.created", key_of(number), f"shop.#.{number}.#")[number % 4]


def bindings(harness: Harness) -> None:
    """Bind one queue very often; each message matches one binding, with fanout all of them."""

    def through(kind: SinkKind, most: int = 100_000, guard: Comparison | None = None) -> Callable[[int], float | None]:
        def measure(count: int) -> float | None:
            if count > most:
                return None
            keys = [key_of(number) for number in range(count)]
            bound = [pattern_of(number) for number in range(count)] if kind is SinkKind.TOPIC else keys
            calls = CALLS if most > 10_000 else min(CALLS, 100_000 // count)
            with harness.queues(["q"]) as [queue], harness.sink(kind, bound, ["q"] * count, guard):
                harness.feed(queue)
                return best(harness.publisher(kind.value, some(keys, calls)), calls)

        return measure

    table(
        "bindings of a sink",
        tens(1, 100_000),
        {
            "direct": through(SinkKind.DIRECT),
            "topic, half with * or #": through(SinkKind.TOPIC),
            "fanout, all to one queue": through(SinkKind.FANOUT),
            "direct, all guarded": through(SinkKind.DIRECT, guard=Comparison.EQUAL),
            "fanout, guarded by equality": through(SinkKind.FANOUT, guard=Comparison.EQUAL),
            "fanout, guarded by comparison": through(SinkKind.FANOUT, 10_000, Comparison.CONTAINS),
            "headers, all looked at": through(SinkKind.HEADERS, 10_000),
        },
    )


def queues(harness: Harness) -> None:
    """Publish into one of many queues, and into all of them."""

    def one_of(count: int) -> float:
        names = [f"q{number}" for number in range(count)]
        with harness.queues(names) as queues:
            for queue in queues:
                harness.feed(queue)
            return best(harness.publisher("", some(names)))

    def all_of(count: int) -> float:
        names = [f"q{number}" for number in range(count)]
        messages = max(1, CALLS // count)
        with harness.queues(names) as queues, harness.sink(SinkKind.FANOUT, names, names):
            for queue in queues:
                harness.feed(queue)
            return best(harness.publisher("fanout", [""] * messages), messages * count)

    table("queues", tens(1, 10_000), {"one of them gets it": one_of, "all get it; for each copy": all_of})


def feeds(harness: Harness) -> None:
    """Let many feeds read one queue."""

    def with_feeds(messages: int = 0, *, ranked: bool = False, single_active: bool = False) -> Callable[[int], float]:
        def measure(count: int) -> float:
            with harness.queues(["q"], QueueOptions(single_active=single_active)) as [queue]:
                for number in range(count):
                    harness.feed(queue, messages, priority=number + 1 if ranked else 0)
                return best(harness.publisher("", ["q"] * CALLS))

        return measure

    def blocked(count: int) -> float:
        with harness.queues(["q"]) as [queue]:
            for _ in range(count - 1):
                harness.feed(queue, 1, keeps=True)
            harness.feed(queue)
            harness.publisher("", ["q"] * 2 * count)()
            return best(harness.publisher("", ["q"] * CALLS))

    def in_line(count: int) -> float:
        channel, kept = Window(1), deque[Batch]()
        with harness.queues([f"q{number}" for number in range(count)]) as queues:
            for queue in queues:
                run = [BODY] * (RUNS * CALLS // count + 2)
                queue.ref.tell_nowait(Publish(Head(), run, len(run) * len(BODY)))
                consumer = harness.feed(queue, shared=(channel,), keeps=True)
                kept += consumer.kept
                consumer.kept = kept

            def work() -> None:
                for _ in range(CALLS):
                    settle(kept.pop(), Outcome.ACCEPT)

            return best(work)

    def in_runs(count: int) -> float:
        head, run = Head(routing_key="q"), [BODY] * 100
        with harness.queues(["q"]) as [queue]:
            for _ in range(count):
                harness.feed(queue)

            def publish() -> None:
                for _ in range(CALLS // 20):
                    queue.ref.tell_nowait(Publish(head, run, 100 * len(BODY)))

            return best(publish, CALLS // 20 * 100)

    rows: dict[str, Callable[[int], float | None]] = {
        "no window": with_feeds(),
        "a window of one message each": with_feeds(1),
        "the same, each of another priority": with_feeds(1, ranked=True),
        "the same, one active at a time": with_feeds(1, single_active=True),
        "all but one blocked": blocked,
        "a window for all, a queue for each": in_line,
        "in runs of 100 messages": in_runs,
    }
    table("feeds of a queue", tens(1, 1_000), rows)


def fill(queue: QueueState, make: Callable[[], Publish], count: int) -> None:
    """Publish messages that nobody takes yet."""
    for _ in range(count):
        queue.ref.tell_nowait(make())


def flow(harness: Harness, queue: QueueState, make: Callable[[], Publish], backlog: int) -> float:
    """Publish one and settle one, with so many messages ready between them."""
    fill(queue, make, backlog + 1)
    consumer = harness.feed(queue, 1, keeps=True)

    def work() -> None:
        kept = consumer.kept
        for _ in range(CALLS):
            queue.ref.tell_nowait(make())
            settle(kept.pop(), Outcome.ACCEPT)

    return best(work)


def message(head: Head, content: bytes = BODY, *, delay: float = 0.0) -> Publish:
    """Make a run of one message."""
    return Publish(head, [content], len(content), delay=delay)


def with_properties(properties: Properties) -> tuple[Head, bytes]:
    """Give head and content of a message that says how urgent it is or how long it is worth something."""
    encoded = encode_core(properties)
    timed, ranked = properties.expiration is not None, properties.priority is not None
    size = len(encoded)
    head = Head(
        properties_stop=size,
        body_start=size,
        routing_key="q",
        traits=traits_of(has_expiration=timed, has_priority=ranked),
    )
    return head, encoded + BODY


def backlog(harness: Harness) -> None:
    """Publish behind very many messages, with a consumer that takes one after the other."""
    head = Head(routing_key="q")

    def flowing(count: int) -> float:
        with harness.queues(["q"]) as [queue]:
            return flow(harness, queue, lambda: message(head), count)

    def requeued(count: int) -> float:
        with harness.queues(["q"]) as [queue]:
            fill(queue, lambda: message(head), max(count, 1))
            consumer = harness.feed(queue, 1, keeps=True)

            def work() -> None:
                kept = consumer.kept
                for _ in range(CALLS):
                    settle(kept.pop(), Outcome.REQUEUE)

            return best(work)

    columns = [0, *tens(100, 1_000_000)]
    table("backlog", columns, {"publish one, settle one": flowing, "put one back": requeued})


def priorities(harness: Harness) -> None:
    """Publish messages of all levels behind a thousand others."""
    chance = random.Random(1)
    ranked = [with_properties(Properties(priority=level)) for level in range(256)]

    def flowing(levels: int) -> float:
        with harness.queues(["q"], QueueOptions(max_priority=levels)) as [queue]:
            return flow(harness, queue, lambda: message(*ranked[chance.randrange(levels + 1)]), 1_000)

    def draining(levels: int) -> float:
        with harness.queues(["q"], QueueOptions(max_priority=levels)) as [queue]:
            fill(queue, lambda: message(*ranked[chance.randrange(levels + 1)]), CALLS)
            start = time.process_time()
            harness.feed(queue)
            return (time.process_time() - start) / CALLS * 1e6

    rows: dict[str, Callable[[int], float | None]] = {
        "publish one, settle one": flowing,
        "take what is there": draining,
    }
    table("highest priority", [0, 1] if QUICK else [0, 1, 10, 100, 255], rows)


def expiry(harness: Harness) -> None:
    """Let messages have a time to live."""
    chance = random.Random(1)
    plain, hour = Head(routing_key="q"), 3_600.0
    timed = [with_properties(Properties(expiration=hour + chance.random() * hour)) for _ in range(1_000)]

    def flowing(make: Callable[[], Publish], options: QueueOptions) -> Callable[[int], float]:
        def measure(count: int) -> float:
            with harness.queues(["q"], options) as [queue]:
                return flow(harness, queue, make, count)

        return measure

    def one_of(count: int) -> float:
        names = [f"q{number}" for number in range(count)]
        with harness.queues(names, QueueOptions(message_ttl=hour)) as queues:
            for queue in queues:
                queue.ref.tell_nowait(message(plain))
            chosen = [chance.choice(queues).ref for _ in range(CALLS)]

            def work() -> None:
                for queue in chosen:
                    queue.tell_nowait(message(plain))
                    batch = queue.ask_nowait(Get())
                    assert batch is not None
                    settle(batch, Outcome.ACCEPT)

            return best(work)

    table(
        "time to live, backlog",
        [0, *tens(100, 100_000)],
        {
            "none": flowing(lambda: message(plain), QueueOptions()),
            "the queue's": flowing(lambda: message(plain), QueueOptions(message_ttl=hour)),
            "each message another": flowing(lambda: message(*chance.choice(timed)), QueueOptions()),
        },
    )
    table("queues with a time to live", tens(1, 10_000), {"one of them: put one, get one": one_of})


def delays(harness: Harness) -> None:
    """Put messages off, in a time that we make ourselves."""
    head, clock = Head(routing_key="q"), harness.directory.clock
    real_time = clock.now

    def passing(count: int) -> float:
        with harness.queues(["q"]) as [queue]:
            fill(queue, lambda: message(head, delay=3_600.0), count)
            harness.feed(queue)
            return best(harness.publisher("", ["q"] * CALLS))

    def ripening(count: int) -> float:
        seconds = real_time()

        def now() -> float:
            return seconds

        clock.now = now
        with harness.queues(["q"]) as [queue]:
            for number in range(count):
                queue.ref.tell_nowait(message(head, delay=number + 1.0))
            harness.feed(queue)

            def work() -> None:
                nonlocal seconds
                for _ in range(CALLS):
                    seconds += 1
                    queue.ref.tell_nowait(message(head, delay=float(count)))

            figure = best(work)
            assert queue.delivered >= CALLS
        clock.now = real_time
        return figure

    rows: dict[str, Callable[[int], float | None]] = {
        "others pass them by": passing,
        "put one off, one becomes ready": ripening,
    }
    table("delayed messages", tens(1, 100_000), rows)


def unsettled(harness: Harness) -> None:
    """Settle one message while very many are out with the same consumer."""

    def settling(*, newest: bool) -> Callable[[int], float]:
        def measure(count: int) -> float:
            with harness.queues(["q"]) as [queue]:
                consumer = harness.feed(queue, keeps=True)
                harness.publisher("", ["q"] * count)()
                publish = harness.publisher("", ["q"])
                choose = consumer.kept.pop if newest else consumer.kept.popleft

                def work() -> None:
                    for _ in range(CALLS):
                        publish()
                        settle(choose(), Outcome.ACCEPT)

                return best(work)

        return measure

    table(
        "messages out",
        tens(1, 100_000),
        {"settle the newest": settling(newest=True), "settle the oldest": settling(newest=False)},
    )


async def main() -> None:
    """Print all tables."""
    print(f"Python {sys.version.split()[0]}, trio {version('trio')}" + (": these mean nothing" if QUICK else ""))
    directory = Directory("benchmark")
    async with open_system() as system:
        domain = await system.start(lambda: Domain(directory), name="domain")
        consumers = await system.start(DynamicSupervisor, name="consumers")
        session = Session(domain, directory)
        session.attach()
        harness = Harness(directory, session, consumers)
        for measure in (bindings, queues, feeds, backlog, unsettled, priorities, expiry, delays):
            measure(harness)
            await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    trio.run(main)
