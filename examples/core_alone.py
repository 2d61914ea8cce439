"""The core without a protocol: declare, bind, look up, publish, browse, consume, settle, observe."""

import trio

from triomq.actors import InPlaceActor, Ref, open_system
from triomq.core import (
    EVERYTHING,
    Bind,
    Browse,
    CachedRoute,
    DeclareQueue,
    DeclareSink,
    Deliver,
    Directory,
    Domain,
    FeedClosed,
    HandedOut,
    Head,
    Outcome,
    Published,
    Publisher,
    QueueOptions,
    Session,
    Settled,
    SinkKind,
    SinkOptions,
    Subscription,
    Target,
    Window,
    make_binding,
    settle,
)


class Worker(InPlaceActor):
    """A consumer: it gets batches, and settles them."""

    def deliver(self, message: Deliver) -> None:
        for content in message.batch.contents:
            print("worker:", content)
        settle(message.batch, Outcome.ACCEPT)

    def feed_closed(self, message: FeedClosed) -> None:
        print("worker: the queue has closed the feed:", message.reason)


class Trace(InPlaceActor):
    """An observer of messages; told of runs and batches, not of single messages."""

    def published(self, message: Published) -> None:
        print("trace: published to", [Directory.name_of(queue) for queue in message.queues])

    def handed_out(self, message: HandedOut) -> None:
        print("trace: handed out", list(message.ids), "of", message.queue)

    def settled(self, message: Settled) -> None:
        print("trace: settled", message.ids, "of", message.queue, "as", message.outcome.value)


async def main() -> None:
    directory = Directory("example")  # what is in the domain; outlives the actor that changes it
    async with open_system() as system:
        domain: Ref = await system.start(lambda: Domain(directory), name="domain")
        session = Session(domain, directory)
        session.attach()

        # Declare and bind: requests to the domain, answered in place.
        domain.ask_nowait(DeclareSink("news", SinkOptions(kind=SinkKind.TOPIC)))
        queue = domain.ask_nowait(DeclareQueue("sports", QueueOptions(), session))
        domain.ask_nowait(Bind(make_binding("news", Target.QUEUE, "sports", "sports.#"), session))

        # Look up: reads of the directory, at any time.
        assert directory.queue("sports", session) is queue
        assert directory.route("news", "sports.ball", dict).queues == (queue.ref,)

        directory.observe_messages(await system.start(Trace, name="trace"))

        # Publish: a run of messages, guarded, in a turn.
        publisher = Publisher(directory, EVERYTHING, system.turn)
        run = [b"1:0", b"2:0"]
        head = Head(exchange="news", routing_key="sports.ball")
        system.turn.run(lambda: publisher.publish(CachedRoute("news", "sports.ball"), head, run, sum(map(len, run))))

        # Browse: messages stay where they are.
        print("ready:", [(entry.id, entry.message.body) for entry in queue.ref.ask_nowait(Browse())])

        # Consume and settle.
        worker = await system.start(Worker, name="worker")
        subscription = Subscription(session, EVERYTHING, queue, worker, window=Window(10))
        system.turn.run(subscription.begin)
        print("left:", queue.statistics().ready)
        session.detach()


trio.run(main)
