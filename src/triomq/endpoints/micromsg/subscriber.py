"""What one connection is subscribed to: queues that it shares with others, and topics, by queues of its own.

    SUBSCRIBE queue/NAME ──> a consumer of that queue
    SUBSCRIBE topic/NAME ──> a binding with the filter as predicate ──> the client's queue for the topic (``kept``)

A message carries the destination by which it was subscribed, and no id. So a destination that is subscribed to twice
gives each message once.

A queue that crashes is subscribed to again when it runs. One that is deleted is told by an answer 404 with the
number of its SUBSCRIBE; without ``x-reply`` there is no word for it but an ERROR.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.core import (
    EVERYTHING,
    Bind,
    Binding,
    Comparison,
    Condition,
    DeclareQueue,
    DeleteQueue,
    Forbidden,
    Overflow,
    QueueOptions,
    Restarting,
    SinkKind,
    Subscription,
    Target,
    Unbind,
    Window,
    make_binding,
    make_predicate,
)
from triomq.endpoints.micromsg.content import STANDARD
from triomq.endpoints.micromsg.destinations import Destination, parse_destination, require_there
from triomq.endpoints.micromsg.kept import TopicClient, TopicFilter, TopicQueue
from triomq.endpoints.micromsg.refusals import TooMuch
from triomq.errors import ActorError, ActorStopped, NotFound, PreconditionFailed, Refused
from triomq.protocols.micromsg import FilterCondition, SubscribeAsked, UnsubscribeAsked

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

MOST_FILTERS: Final = 100
"""Subscriptions of one connection: each message of a topic is compared with all of its filters."""

_KEY: Final = "key"
"""What else SUBSCRIBE may say of a topic: the routing key, or the pattern, that messages must have."""

_ALL: Final = {SinkKind.TOPIC: "#", SinkKind.CONSISTENT_HASH: "1"}
"""The key that lets all messages through, or as many as one subscriber should have."""


class FilterOnQueue(PreconditionFailed):
    """A queue gives each message to one of its consumers, so a filter would leave messages that nobody gets."""

    def __init__(self, name: str) -> None:
        super().__init__(f"filters are for topics; queue {name!r} has one row of messages for all its consumers")


class NotSubscribed(NotFound):
    """There is no such subscription."""

    def __init__(self) -> None:
        super().__init__("there is no such subscription on this connection")


class Source(msgspec.Struct, eq=False):
    """What a connection gets messages from.

    Args:
        destination: As it was subscribed first.
        number: The number of that command; 0 if it was none.
        ids: The ids of its subscriptions.
        topic: The client's queue, where it is a topic.
        subscription: The consumer; None while its queue is being restarted.
    """

    destination: Destination
    number: int
    ids: set[str]
    topic: TopicQueue | None = None
    subscription: Subscription | None = None

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self.destination.name if self.topic is None else self.topic.queue


class Subscriber:
    """What one connection is subscribed to; made when it has entered a domain, ends with it.

    Args:
        connection: The connection.
        client: Whose connection it is.
    """

    __slots__ = ("_by_subscription", "_client", "_connection", "_options", "_sources", "_window")

    def __init__(self, connection: "MicroMsgServerConnection", client: TopicClient) -> None:
        self._connection = connection
        self._client = client
        self._sources: dict[tuple[bool, str], Source] = {}  # by kind and name
        self._by_subscription: dict[Subscription, Source] = {}
        self._window = Window(connection.engine.window)
        self._options = QueueOptions(
            durable=False,
            exclusive=True,
            max_length=connection.config.most_waiting,
            overflow=Overflow.DROP_HEAD,
        )

    # SUBSCRIBE

    def subscribe(self, event: SubscribeAsked) -> None:
        """Let messages come; trying again after ``Restarting`` goes on where it was.

        Raises:
            TooMuch: The connection has as many subscriptions as it may have.
            NotFound: There is no such destination.
            AccessRefused: The user may not.
            PreconditionFailed: The filter means nothing here.
            Restarting: Try again later.
        """
        destination = parse_destination(event.destination)
        source = self._sources.get((destination.is_topic, destination.name))
        if source is None or event.subscription_id not in source.ids:
            count = sum(len(each.ids) for each in self._sources.values())
            if count >= MOST_FILTERS:
                raise TooMuch(f"this connection has {count} subscriptions, and may have no more; unsubscribe some")
        if destination.is_topic:
            self._subscribe_to_topic(destination, event)
        else:
            if event.conditions:
                raise FilterOnQueue(destination.name)
            self.consume(destination, event.number, event.subscription_id)

    def consume(self, destination: Destination, number: int, subscription_id: str) -> None:
        """Consume from a queue; raises as ``subscribe`` does."""
        require_there(self._connection, destination)
        source = self._sources.get((False, destination.name))
        if source is None:
            source = Source(destination, number, set())
            self._open(source)
            self._sources[False, destination.name] = source
        source.ids.add(subscription_id)

    def _subscribe_to_topic(self, destination: Destination, event: SubscribeAsked) -> None:
        connection, client, name = self._connection, self._client, destination.name
        if not connection.access.may_read(name):
            raise Forbidden("topic", name)
        require_there(connection, destination)
        topic = client.topics.get(name)
        if topic is not None and topic.queue not in connection.directory.queues:
            connection.hub.kept.forget(topic)  # somebody has deleted it
            topic = None
        if topic is None:
            topic = TopicQueue(client, name, client.next_name())
        elif topic.reader is not None and topic.reader is not connection:
            topic.reader.give_way()
        binding = self._binding(topic, event)
        self._declare(topic)
        try:
            self._bind(topic, event.subscription_id, binding)
        except Restarting:
            raise  # it is tried again
        except (Refused, ActorError):
            if not topic.filters:
                connection.ask_unguarded(connection.domain, DeleteQueue(topic.queue, client.session))
                connection.hub.kept.forget(topic)
            raise
        source = self._sources.get((True, name))
        if source is None:
            source = Source(destination, event.number, set(), topic)
            self._open(source)
            self._sources[True, name] = source
            topic.reader = connection
        source.ids.add(event.subscription_id)

    def _binding(self, topic: TopicQueue, event: SubscribeAsked) -> Binding:
        options = self._connection.directory.sinks[topic.name].options
        key = event.options.get(_KEY, _ALL.get(options.kind, ""))
        predicate = make_predicate(map(_condition, event.conditions)) if event.conditions else None
        return make_binding(topic.name, Target.QUEUE, topic.queue, key, predicate=predicate)

    def _declare(self, topic: TopicQueue) -> None:
        if topic.name not in self._client.topics:
            request = DeclareQueue(topic.queue, self._options, self._client.session)
            self._connection.ask_unguarded(self._connection.domain, request)
            self._client.topics[topic.name] = topic

    def _bind(self, topic: TopicQueue, subscription_id: str, binding: Binding) -> None:
        """Bind an id's filter in place of the one that it had."""
        connection, session = self._connection, self._client.session
        # Also where another id has the same filter: the topic may have been deleted since, and its bindings with it.
        connection.ask_unguarded(connection.domain, Bind(binding, session))
        before = topic.filters.get(subscription_id)
        if before is None:
            topic.filters[subscription_id] = TopicFilter(topic, subscription_id, binding)
            return
        replaced, before.binding = before.binding, binding
        if not topic.uses(replaced):
            connection.ask_unguarded(connection.domain, Unbind(replaced, session))
        connection.hub.kept.resume(before)

    def _open(self, source: Source) -> None:
        """Let messages come from a queue."""
        connection = self._connection
        acks = connection.engine.window > 0
        shared = (self._window,) if acks else ()
        if source.topic is None:
            subscription = connection.subscribe(source.queue, no_ack=not acks, shared=shared)
        else:
            subscription = Subscription(
                connection.session,
                EVERYTHING,  # the right to read the topic was asked for
                connection.directory.queue(source.queue, connection.session),
                connection.ref,
                window=Window(),
                socket_window=connection.window,
                settles=acks,
                shared=shared,
            )
            connection.begin(subscription)
            connection.subscriptions[subscription] = None
        source.subscription = subscription
        self._by_subscription[subscription] = source
        connection.sender.sources[subscription] = source.destination.text

    # UNSUBSCRIBE

    def unsubscribe(self, event: UnsubscribeAsked) -> None:
        """Let nothing more come for a destination, for an id, or for an id of a destination.

        Raises:
            NotSubscribed: There is no such subscription.
            BadDestination: The destination is none.
            Restarting: Try again later.
        """
        asked = parse_destination(event.destination) if event.destination else None
        found = [
            (source, each)
            for source in self._sources.values()
            if asked is None or (asked.is_topic, asked.name) == (source.destination.is_topic, source.destination.name)
            for each in source.ids
            if (asked is not None and not event.subscription_id) or each == event.subscription_id
        ]
        if not found:
            raise NotSubscribed
        for source, each in found:
            self._end(source, each)

    def _end(self, source: Source, subscription_id: str) -> None:
        if len(source.ids) == 1:
            self._close(source)
        if source.topic is not None and (its := source.topic.filters.get(subscription_id)) is not None:
            self._connection.hub.kept.end(its)
        source.ids.discard(subscription_id)
        if not source.ids:
            self._forget(source)

    def _forget(self, source: Source) -> None:
        self._sources.pop((source.destination.is_topic, source.destination.name), None)
        if source.topic is not None and source.topic.reader is self._connection:
            source.topic.reader = None

    def _close(self, source: Source) -> None:
        """Let nothing more come, and put back what the client has not acked."""
        subscription, source.subscription = source.subscription, None
        if subscription is None:
            return
        self._by_subscription.pop(subscription, None)
        if subscription.open:
            self._connection.unsubscribe(subscription)
        self._connection.sender.requeue(subscription)
        self._connection.sender.sources.pop(subscription, None)

    # The end of a queue

    def lost(self, subscription: Subscription, reason: str) -> None:
        """Go on with a queue that has crashed, when it runs again; tell the client of one that has gone."""
        source = self._by_subscription.pop(subscription, None)
        self._connection.sender.sources.pop(subscription, None)
        if source is not None:
            source.subscription = None
            self._try_again(source, reason)

    def _try_again(self, source: Source, reason: str) -> None:
        if not source.ids or source.subscription is not None or self._connection.has_left:
            return  # it was unsubscribed meanwhile
        try:
            self._open(source)
        except Restarting as restarting:
            self._connection.when_restarted(restarting, partial(self._try_again, source, reason))
        except (Refused, ActorError) as error:
            if isinstance(error, ActorStopped) and source.queue in self._connection.directory.queues:
                return  # nobody has deleted it: it is the broker that ends
            source.ids.clear()
            self._forget(source)
            if source.topic is not None:
                self._connection.hub.kept.forget(source.topic)
            self._connection.tell_gone(source.number, f"{source.destination.text} has gone: {reason}")

    def stop(self) -> None:
        """Let nothing more come at all; what the client has it may still ack."""
        for source in self._sources.values():
            if source.subscription is not None and source.subscription.open:
                self._connection.unsubscribe(source.subscription)


def _condition(found: FilterCondition) -> Condition:
    return Condition(found.name, Comparison(found.comparison), found.value, STANDARD.get(found.name, ""))
