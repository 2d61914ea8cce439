"""The subscriber's side of a peer: the topics that it has asked for by SUBSCRIBE, each with a queue of its own.

SUBSCRIBE ──> a queue, bound to the sink of topics ──> give: PUBLISH
"""

from typing import TYPE_CHECKING, Final

from triomq.core import (
    Batch,
    Bind,
    DeclareQueue,
    Outcome,
    Overflow,
    QueueOptions,
    Subscription,
    Target,
    make_binding,
    settle,
)
from triomq.endpoints.emqp.content import EMQP_CODEC, TOPICS, decode_request
from triomq.protocols.emqp import NO_HEADERS, parse_headers

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_WAITING: Final = 10_000
"""Messages that wait for a subscriber before it loses the oldest."""

_OPTIONS: Final = QueueOptions(
    durable=False, exclusive=True, auto_delete=True, max_length=_WAITING, overflow=Overflow.DROP_HEAD
)


class SubscriberSide:
    """What a peer is as a subscriber; made with its first topic.

    Args:
        peer: The peer.
    """

    def __init__(self, peer: "EMQPPeer") -> None:
        self._peer = peer
        self._topics: dict[str, Subscription] = {}

    def subscribe(self, topic: str) -> None:
        """Let come what is published to a topic; raises as ``Client.ask`` does."""
        if topic in self._topics:
            return
        peer = self._peer
        name = f"emqp.subscription-{peer.session.number}-{topic}"[:255]
        state = peer.ask(peer.domain, DeclareQueue(name, _OPTIONS, peer.session))
        peer.ask(peer.domain, Bind(make_binding(TOPICS, Target.QUEUE, name, topic), peer.session))
        self._topics[topic] = peer.subscribe(state.name, no_ack=True)

    def unsubscribe(self, topic: str) -> None:
        """Let no more come of a topic."""
        subscription = self._topics.pop(topic, None)
        if subscription is not None and subscription.open:
            self._peer.unsubscribe(subscription)

    def stop(self) -> None:
        """Let no more come of any topic."""
        for topic in list(self._topics):
            self.unsubscribe(topic)

    def give(self, batch: Batch) -> None:
        """Send the messages of a batch."""
        for position in batch.unsettled():
            head, message = batch.head_at(position), batch.message(position)
            if not self._peer.engine.carries(message.body):
                self._peer.count("unfit", "a publication is not UTF-8, which this peer cannot read")
                continue
            headers = NO_HEADERS
            if head.traits.codec == EMQP_CODEC:
                headers = parse_headers(decode_request(message.properties).headers)
            self._peer.engine.publish(head.routing_key, message.body, headers)
        settle(batch, Outcome.ACCEPT)
