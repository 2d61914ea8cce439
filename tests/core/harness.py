"""The harness of the core's tests: one domain, and consumers that remember what queues tell them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import trio.testing

from triomq.actors import Actor, Backoff, ChildSpec, DynamicSupervisor, InPlaceActor, Ref, System, open_system
from triomq.core import (
    Batch,
    Bind,
    CloseFeed,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    Deliver,
    Directory,
    Domain,
    Feed,
    FeedClosed,
    Head,
    OpenFeed,
    Outcome,
    Publish,
    QueueOptions,
    QueueState,
    Receipt,
    Session,
    Settle,
    SinkKind,
    SinkOptions,
    Target,
    Window,
    make_binding,
)

T = TypeVar("T")
HEAD = Head(routing_key="q")
OTHER_HEAD = Head(routing_key="other")


class Consumer(InPlaceActor):
    """Records deliveries; settles nothing by itself."""

    def __init__(self, deliveries: list[Batch] | None = None) -> None:
        """Write deliveries to a list, which several consumers may share."""
        self.batches: list[Batch] = [] if deliveries is None else deliveries
        self.closed: list[str] = []

    def deliver(self, message: Deliver) -> None:
        assert message.batch.feed is message.feed
        self.batches.append(message.batch)

    def feed_closed(self, message: FeedClosed) -> None:
        self.closed.append(message.reason)

    def take(self) -> list[bytes]:
        """Return the contents that came since the last call."""
        batches, self.batches = self.batches, []
        return [content for batch in batches for content in batch.contents if content is not None]


class Harness:
    """One domain in one system, and what tests do to it."""

    def __init__(self, system: System, domain: Ref, consumers: Ref, directory: Directory) -> None:
        self.system = system
        self.domain = domain
        self.directory = directory
        self.session = self.new_session()
        self._consumers = consumers

    def new_session(self) -> Session:
        session = Session(self.domain, self.directory)
        session.attach()
        return session

    def turn(self, function: Callable[[], T]) -> T:
        return self.system.turn.run(function)

    def queue(self, name: str = "q", options: QueueOptions | None = None, session: Session | None = None) -> QueueState:
        request = DeclareQueue(name, options or QueueOptions(), session or self.session)
        return self.domain.ask_nowait(request)

    def delete(self, name: str, session: Session | None = None) -> None:
        self.domain.ask_nowait(DeleteQueue(name, session or self.session))

    def sink(self, name: str, kind: SinkKind = SinkKind.DIRECT, **options: object) -> None:
        self.domain.ask_nowait(DeclareSink(name, SinkOptions(kind=kind, **options)))  # type: ignore[arg-type]

    def bind(self, source: str, destination: str, key: str = "", arguments: Mapping[str, object] | None = None) -> bool:
        return self.domain.ask_nowait(
            Bind(make_binding(source, Target.QUEUE, destination, key, arguments), self.session)
        )

    def bind_sinks(self, source: str, destination: str, key: str = "") -> bool:
        return self.domain.ask_nowait(Bind(make_binding(source, Target.SINK, destination, key), self.session))

    def start(self, actor: Actor | InPlaceActor) -> Ref:
        supervisor = self._consumers.actor
        assert isinstance(supervisor, DynamicSupervisor)
        return supervisor.start_child_nowait(ChildSpec(lambda: actor, restart="temporary"))

    def consumer(self, deliveries: list[Batch] | None = None) -> Consumer:
        consumer = Consumer(deliveries)
        self.start(consumer)
        return consumer

    def feed(
        self,
        queue: QueueState,
        consumer: Consumer,
        *,
        shared: tuple[Window, ...] = (),
        socket_window: Window | None = None,
        gate: Window | None = None,
        messages: int = 0,
        settles: bool = True,
        exclusive: bool = False,
    ) -> Feed:
        feed = Feed(
            queue.ref,
            consumer.ref,
            window=Window(messages),
            shared=shared,
            socket_window=socket_window,
            gate=gate,
            settles=settles,
            exclusive=exclusive,
        )
        queue.ref.ask_nowait(OpenFeed(feed))
        return feed

    def crash_nowait(self, queue: QueueState) -> None:
        """Crash a queue: this is no feed. Tried again alone, it crashes the next incarnation too."""
        queue.ref.tell_nowait(OpenFeed(cast("Feed", None)))

    async def crash(self, queue: QueueState) -> None:
        """Crash a queue and wait until an incarnation runs again."""
        self.crash_nowait(queue)
        await queue.ref.wait_running()

    def crash_domain_nowait(self) -> None:
        """Crash the domain."""
        request = DeleteQueue([], self.session)  # type: ignore[arg-type]  # a name that cannot be one
        self.turn(lambda: self.domain.tell_nowait(request))

    async def crash_for_good(self, queue: QueueState) -> None:
        """Crash a queue until its supervisor gives it up."""
        self.crash_nowait(queue)
        await trio.testing.wait_all_tasks_blocked()
        assert queue.ref.state == "stopped"


def publish(queue: QueueState, *contents: bytes, head: Head = HEAD, receipt: Receipt | None = None) -> None:
    queue.ref.tell_nowait(Publish(head, list(contents), sum(map(len, contents)), receipt))


def settle(batch: Batch, outcome: Outcome = Outcome.ACCEPT, positions: Sequence[int] | None = None) -> None:
    assert batch.queue is not None
    batch.queue.tell_nowait(Settle(batch, outcome, positions))


def close(feed: Feed) -> None:
    feed.queue.tell_nowait(CloseFeed(feed))


def ready(queue: QueueState) -> list[bytes]:
    """The contents that are ready in a queue, in order."""
    return [entry.message.content for entry in queue.backlog.entries()]


@asynccontextmanager
async def open_harness(
    directory: Directory | None = None, *, max_restarts: int = 10_000, backoff: Backoff | None = None
) -> AsyncIterator[Harness]:
    """Open a system with a domain, whose children are restarted at once, and a place for consumers.

    Args:
        directory: The domain's; without it a new one.
        max_restarts: How often its children may crash.
        backoff: What the domain itself waits for before it is restarted; nothing without it.
    """
    directory = directory or Directory("domain")

    def make_domain() -> Domain:
        domain = Domain(directory)
        domain.max_restarts = max_restarts
        domain.backoff = Backoff(initial=0)
        return domain

    async with open_system(max_restarts=10_000, backoff=backoff or Backoff(initial=0)) as system:
        domain = await system.start(make_domain, name="domain")
        consumers = await system.start(DynamicSupervisor, name="consumers")
        yield Harness(system, domain, consumers, directory)
