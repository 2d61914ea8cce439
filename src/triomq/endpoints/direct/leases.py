"""Leases: what is remembered of one, its lessee, and what the direct connection tells that lessee."""

from enum import Enum
from typing import Protocol

import msgspec

from triomq.actors import Message, Ref
from triomq.core import Directory, Feed, QueueState, Session, SinkInternal, Subscription, Window


class DirectFeed(Protocol):
    """A direct connection that takes the messages of a queue."""

    @property
    def ref(self) -> Ref:
        """Its actor, which gets ``Deliver``."""

    @property
    def window(self) -> Window:
        """How many bytes may be on their way to its client."""


class DirectFeeds(Protocol):
    """The queues whose messages direct connections take, in place of the consumers of one principal connection."""

    def __contains__(self, queue: object, /) -> bool:
        """Return whether a direct connection takes the messages of a queue."""

    def attach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Move all consumers of a queue, and those to come, to a direct connection."""

    def detach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Leave consumers to come with the principal connection again, if this direct one is attached."""


class ReplyWriter(Protocol):
    """The writing half of a principal connection."""

    @property
    def is_choked(self) -> bool:
        """Whether its client leaves so much unread that nothing more may be returned."""


class PrincipalConnection(Protocol):
    """The connection that a lessee belongs to."""

    session: Session
    directory: Directory
    direct: tuple[Ref, ...]
    """The direct connections of its leases."""

    @property
    def ref(self) -> Ref:
        """Its actor, which is told ``ReturnMessage``, ``MessagesLost`` and ``DirectFeedClosed``."""

    @property
    def writer(self) -> ReplyWriter:
        """Its writing half."""

    @property
    def direct_feeds(self) -> DirectFeeds:
        """What direct connections take from it."""


class Lessee(Protocol):
    """Who has asked for a lease, such as a channel of AMQP: returns go there, and word of what is lost."""

    open: bool

    @property
    def connection(self) -> PrincipalConnection:
        """The connection that it belongs to."""

    @property
    def reply_name(self) -> str:
        """The name of the queue in which its client takes direct replies; empty if it takes none."""


class DirectSubscription(Subscription):
    """A consumer of a lessee, whose messages a direct connection may take."""

    __slots__ = ()

    @property
    def lessee(self) -> Lessee:
        """Whose it is."""
        raise NotImplementedError


class Grant(msgspec.Struct, frozen=True, eq=False):
    """What a listener remembers of a lease.

    Args:
        lessee: Who has asked for it, and so where returns go.
        virtual_host: What the client calls the domain.
        queue: The queue behind a feed.
    """

    lessee: Lessee
    virtual_host: str
    queue: QueueState | None = None


class Undelivered(Enum):
    """Why a message comes back."""

    NO_ROUTE = "no route"
    NO_CONSUMERS = "no consumers"


class ReturnMessage(Message, frozen=True):
    """To a principal connection: this message came over a direct one and was placed nowhere."""

    lessee: Lessee
    reason: Undelivered
    sink: str
    key: str
    properties: bytes
    body: bytes


class MessagesLost(Message, frozen=True):
    """To a principal connection: so many messages for a feed that was leased were lost."""

    lessee: Lessee
    feed: str
    messages: int


class DirectFeedClosed(Message, frozen=True):
    """To a principal connection: nothing more comes for a consumer whose messages go to a direct connection.

    Args:
        subscription: The consumer.
        reason: Why.
    """

    subscription: DirectSubscription
    reason: str


def add_direct(grant: Grant, direct: Ref) -> None:
    """Have the principal connection know a direct one of its leases."""
    grant.lessee.connection.direct += (direct,)


def remove_direct(grant: Grant, direct: Ref) -> None:
    """Have it forget one that ends."""
    connection = grant.lessee.connection
    connection.direct = tuple(other for other in connection.direct if other is not direct)


def check_sink(directory: Directory, name: str) -> None:
    """Check that clients may publish into a sink; the empty name is the default one.

    Raises:
        NoSuchSink: There is none of that name.
        SinkInternal: Only other sinks may publish into it.
    """
    if name and directory.sink(name).options.internal:
        raise SinkInternal(name)


def attach_direct(grant: Grant, direct: DirectFeed) -> None:
    """Move all consumers of a leased queue to a direct connection."""
    assert grant.queue is not None
    grant.lessee.connection.direct_feeds.attach(grant.queue, direct)


def detach_direct(grant: Grant, direct: DirectFeed) -> None:
    """Move consumers back to their principal connection; those whose lessee has ended with its connection end now."""
    assert grant.queue is not None
    connection = grant.lessee.connection
    connection.direct_feeds.detach(grant.queue, direct)
    for feed in connection.session.feeds_to(direct.ref):
        subscription = feed.key
        assert isinstance(subscription, DirectSubscription)
        if subscription.lessee.open:
            subscription.move(subscription.home)
        else:
            subscription.close()


def direct_feed(home: Feed, direct: DirectFeed) -> Feed:
    """Make the feed that takes a consumer's messages to a direct connection, in place of its own."""
    return Feed(
        home.queue,
        direct.ref,
        key=home.key,
        socket_window=direct.window,
        gate=home.gate,
        settles=False,
        exclusive=home.exclusive,
        priority=home.priority,
        no_local=home.no_local,
    )
