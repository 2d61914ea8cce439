"""What is published to topics, for plain ZeroMQ SUB sockets: two frames, topic and message, and no eMQP around them.

    PUBLISH, or any client that publishes into emqp.topic ──> sink ──> the broker's own queue ──> SUBs

A SUB subscribes to beginnings of topics, as ZeroMQ has it, and needs the right to read the sink. One that is slow
misses messages without being told; a client with extensions that subscribes by SUBSCRIBE has a queue of its own.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import trio

from triomq.core import (
    EVERYTHING,
    Batch,
    Bind,
    DeclareQueue,
    Outcome,
    Overflow,
    QueueOptions,
    Session,
    Subscription,
    Target,
    Window,
    body_of,
    make_binding,
    settle,
)
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.emqp.content import TOPICS
from triomq.endpoints.zmtp import Admission, PublishListener
from triomq.protocols.emqp import is_text
from triomq.transports import TLS, Address

_WAITING: Final = 10_000
"""Messages that wait to be sent: the task that sends them waits for nobody, so that they are those of a few turns."""

_PAUSE: Final = 1.0
"""Seconds until the queue is opened anew, if it was lost."""

_OPTIONS: Final = QueueOptions(
    durable=False, exclusive=True, auto_delete=True, max_length=_WAITING, overflow=Overflow.DROP_HEAD
)


class TopicFeed(Client):
    """Takes what is published and sends it on; a child of the endpoint, with nobody behind it.

    Args:
        context: What the broker lends.
        domain: Where the topics are.
        listener: Who knows the subscribers.
    """

    kind = "topics"
    tag = "emqp"
    noun = "feed of topics"

    def __init__(self, context: BrokerContext, domain: str, listener: "TopicListener") -> None:
        super().__init__(context)
        self._domain = domain
        self._listener = listener
        self._session: Session | None = None
        self._subscription: Subscription | None = None
        self.gone = trio.Event()
        """Set when it has ended, in order or not."""

    def started(self) -> None:
        """Open a queue, and have all that is published come into it."""
        domain = self.context.domains[self._domain]
        self._session = session = Session(domain.ref, domain.directory)
        session.attach()
        name = f"emqp.topics-{session.number}"
        self.ask_unguarded(domain.ref, DeclareQueue(name, _OPTIONS, session))
        self.ask_unguarded(domain.ref, Bind(make_binding(TOPICS, Target.QUEUE, name, "#"), session))
        queue = domain.directory.queue(name, session)
        self._subscription = Subscription(session, EVERYTHING, queue, self.ref, window=Window(), settles=False)
        self.begin(self._subscription)

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        """Send messages; what is not UTF-8 would end released subscribers."""
        self._listener.publish(_texts(batch))
        settle(batch, Outcome.ACCEPT)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """End, and be followed by another one."""
        self.note(logging.WARNING, "topics lost", reason=reason)
        self.leave()

    def released(self) -> None:
        """Close the queue."""
        subscription, self._subscription = self._subscription, None
        session, self._session = self._session, None
        if subscription is not None and subscription.open:
            subscription.close()
        if session is not None:
            session.detach()
        self.gone.set()


def _texts(batch: Batch) -> Iterator[tuple[bytes, bytes]]:
    """Yield the topic and the text of each message of a batch that is text."""
    head, topic = None, b""
    for position, content in enumerate(batch.contents):
        if content is not None:
            if head is not (here := batch.head_at(position)):
                head, topic = here, here.routing_key.encode("utf-8", "replace")
            body = body_of(here, content)
            if is_text(body):
                yield topic, body


class TopicListener(PublishListener):
    """Accepts subscribers, and has a ``TopicFeed`` served as long as it is open.

    Args:
        context: What the broker lends.
        host: An address, or several.
        port: A port, or 0 for one that is free.
        domain: Where the topics are.
        admission: How peers say who they are.
        tls: How to speak TLS; None is not at all.
    """

    def __init__(
        self,
        context: BrokerContext,
        host: str | Sequence[str],
        port: int,
        domain: str,
        admission: Admission,
        *,
        tls: TLS | None = None,
    ) -> None:
        super().__init__(context, host, port, self._may_read, admission, tls=tls)
        self._context = context
        self._domain = domain

    @property
    def others(self) -> Mapping[str, Address]:
        """Where SUBs connect to."""
        bound = super().addresses
        return {"topics": bound[0]} if bound else {}

    @property
    def addresses(self) -> list[Address]:
        """None that a client of eMQP could connect to."""
        return []

    def _may_read(self, user: str) -> bool:
        return self._context.users.access(user, self._domain).may_read(TOPICS)

    async def start(self, endpoint: Endpoint) -> None:
        """Listen, and send from now on."""
        await super().start(endpoint)
        endpoint.start_task(self._feed, endpoint)

    async def _feed(self, endpoint: Endpoint) -> None:
        """Have a feed served; one that is lost is followed by another one."""
        while not endpoint.is_stopping:
            feed = TopicFeed(self._context, self._domain, self)
            endpoint.serve(feed)
            await feed.gone.wait()
            await trio.sleep(_PAUSE)
