"""Subscriptions to topics, and how they outlive the connection that has made them.

    SUBSCRIBE topic/NAME, id ──> a queue of the client's own for the topic, and a binding for each id, with its filter
    the connection ends      ──> the queue stays, and so does each binding, for ``kept_seconds``
    the client comes back    ──> its next SUBSCRIBE of an id goes on with what has waited
    it does not              ──> the binding goes, and the queue with the last of them

Rules:

- A client is a user under an identity. The identity alone proves nothing, so a user that has not logged in is never the
  same client again: its queues end with its connection.
- All ids of one topic share a queue. So a message that several filters let through comes once.
- An id has one filter: to subscribe again is to replace it.
- Of several connections of one client the last one that subscribes to a topic gets its messages; the one before is
  ended, for mostly it is the same program, whose connection was lost without a word.
- Queues are exclusive, in a session of the core that lives as long as any of these connections, or anything that is
  kept. All of it ends with the endpoint: what is kept is in memory alone.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from triomq.core import Binding, DeleteQueue, Restarting, Session, Unbind
from triomq.errors import ActorError, Refused

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

_AGAIN = 1.0
"""Seconds until something is deleted that could not be, since the domain was being restarted."""


class ClientKey(NamedTuple):
    """Who is the same client again.

    Args:
        user: As whom it has logged in.
        identity: What it calls itself.
    """

    user: str
    identity: str


class KeptTimers(Protocol):
    """What wakes when something is kept no longer."""

    def set(self, key: object, when: float, call: Callable[[float], object], /) -> None: ...
    def discard(self, key: object, /) -> None: ...


class TopicFilter:
    """The subscription of one id; made by SUBSCRIBE.

    Args:
        topic: What it belongs to.
        subscription_id: The id.
        binding: Leads from the topic to the queue.
    """

    __slots__ = ("binding", "is_waiting", "subscription_id", "topic")

    def __init__(self, topic: "TopicQueue", subscription_id: str, binding: Binding) -> None:
        self.topic = topic
        self.subscription_id = subscription_id
        self.binding = binding
        self.is_waiting = False  # for its client to come back


class TopicQueue:
    """The queue of one client for one topic; made by its first SUBSCRIBE, ends with its last filter.

    Args:
        client: Whose it is.
        name: The topic's name.
        queue: The queue's name.
    """

    __slots__ = ("client", "filters", "name", "queue", "reader")

    def __init__(self, client: "TopicClient", name: str, queue: str) -> None:
        self.client = client
        self.name = name
        self.queue = queue
        self.filters: dict[str, TopicFilter] = {}
        """By id."""
        self.reader: MicroMsgServerConnection | None = None
        """The connection that gets its messages."""

    def uses(self, binding: Binding) -> bool:
        """Return whether a filter has this binding."""
        return any(each.binding == binding for each in self.filters.values())


class TopicClient:
    """A client, and what it has subscribed to; made when its first connection is let in, ends with the last and least.

    Args:
        session: In which its queues are.
        key: By which it is known again; None if it is not.
    """

    __slots__ = ("connections", "holds", "key", "made", "session", "topics")

    def __init__(self, session: Session, key: ClientKey | None) -> None:
        self.session = session
        self.key = key
        self.topics: dict[str, TopicQueue] = {}
        """By name."""
        self.connections = 0
        self.made = 0
        """How many queues were made for it."""
        self.holds = False  # the session, since something is kept

    def next_name(self) -> str:
        """Return the name of its next queue."""
        self.made += 1
        return f"micromsg.subscription-{self.session.number}-{self.made}"


class KeptSubscriptions:
    """The clients of an endpoint; made by it, ends with it.

    Args:
        timers: Of the endpoint.
        seconds: How long something is kept.
        most: What is kept for one user.
    """

    def __init__(self, timers: KeptTimers, seconds: float, most: int) -> None:
        self._timers = timers
        self._seconds = seconds
        self._most = most
        self._clients: dict[ClientKey, TopicClient] = {}
        self._waiting: Counter[str] = Counter()  # filters, by user

    def __len__(self) -> int:
        """Return how many filters are kept."""
        return self._waiting.total()

    def find(self, key: ClientKey | None) -> TopicClient | None:
        """Return a client that is known."""
        return None if key is None else self._clients.get(key)

    def come(self, session: Session, key: ClientKey | None) -> TopicClient:
        """Count a connection of a client, which has entered its domain in this session."""
        client = self.find(key)
        if client is None:
            client = TopicClient(session, key)
            if key is not None:
                self._clients[key] = client
        client.connections += 1
        return client

    def go(self, client: TopicClient, connection: "MicroMsgServerConnection") -> None:
        """Count a connection less, whose subscriptions are closed; keep what may be kept of what it has read."""
        client.connections -= 1
        its = [topic for topic in client.topics.values() if topic.reader is connection]
        for topic in its:
            topic.reader = None
        ending = [each for topic in its for each in topic.filters.values() if not self._keep(each)]
        self._look(client)
        if client.connections or client.holds:
            for each in ending:
                self._expire(each, trio.current_time())
        else:
            client.topics.clear()  # its queues end with its session

    def _keep(self, each: TopicFilter) -> bool:
        client = each.topic.client
        if client.key is None or not self._seconds or self._waiting[client.key.user] >= self._most:
            return False
        self._waiting[client.key.user] += 1
        each.is_waiting = True
        self._timers.set(each, trio.current_time() + self._seconds, lambda now: self._expire(each, now))
        return True

    def resume(self, each: TopicFilter) -> None:
        """Keep a filter as long as its connection lasts, for its client has come back."""
        if each.is_waiting:
            key = each.topic.client.key
            assert key is not None
            each.is_waiting = False
            self._waiting[key.user] -= 1
            if not self._waiting[key.user]:
                del self._waiting[key.user]
            self._timers.discard(each)
            self._look(each.topic.client)

    def _expire(self, each: TopicFilter, now: float) -> None:
        try:
            self.end(each)
        except Restarting:
            self._timers.set(each, now + _AGAIN, lambda later: self._expire(each, later))

    def end(self, each: TopicFilter) -> None:
        """Unsubscribe an id; delete the queue with the last one.

        Raises:
            Restarting: The domain is; nothing was changed.
        """
        topic = each.topic
        client, session = topic.client, topic.client.session
        del topic.filters[each.subscription_id]
        request: DeleteQueue | Unbind | None = None
        if not topic.filters:
            request = DeleteQueue(topic.queue, session)
        elif not topic.uses(each.binding):
            request = Unbind(each.binding, session)
        try:
            if request is not None and not session.ended:
                session.domain.ask_nowait(request)
        except trio.WouldBlock:
            topic.filters[each.subscription_id] = each
            raise Restarting(session.domain) from None
        except (Refused, ActorError):
            pass  # the topic or the queue has gone before
        if not topic.filters and client.topics.get(topic.name) is topic:
            del client.topics[topic.name]
        self.resume(each)

    def forget(self, topic: TopicQueue) -> None:
        """Drop a topic whose queue has gone, and its bindings with it."""
        filters = list(topic.filters.values())
        topic.filters.clear()
        if topic.client.topics.get(topic.name) is topic:
            del topic.client.topics[topic.name]
        for each in filters:
            self.resume(each)

    def _look(self, client: TopicClient) -> None:
        """Hold a client's session as long as something of it is kept; forget it when nothing is left."""
        waits = any(each.is_waiting for topic in client.topics.values() for each in topic.filters.values())
        if waits and not client.holds:
            client.holds = True
            client.session.attach()
        elif client.holds and not waits:
            client.holds = False
            client.session.detach()
        if not client.connections and not client.holds and client.key is not None:
            self._clients.pop(client.key, None)

    def close(self) -> None:
        """Keep nothing any more."""
        self._seconds = 0.0
        for client in list(self._clients.values()):
            for topic in client.topics.values():
                for each in topic.filters.values():
                    self._timers.discard(each)
            if client.holds:
                client.holds = False
                client.session.detach()
        self._clients.clear()
        self._waiting.clear()
