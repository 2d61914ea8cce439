"""The class restms on AMQP: resources of a RestMS server, or of another broker, as sinks, queues and bindings.

A RestMS feed is what one writes to, and a pipe what one reads from: here a sink and a queue. A join is a binding. What
a peer has made is its own: no other client may delete it, and it stays when the peer goes. Messages in its pipes go to
the peer, on the channel where it has named them.

Whatever goes wrong is logged and not sent, as the class wants it, so nothing here closes a channel.
"""

import logging
from typing import cast

from triomq.core import (
    Bind,
    Binding,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForeignName,
    QueueOptions,
    QueueState,
    Restarting,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
)
from triomq.endpoints.amqp.channel import Handler, ServerChannel
from triomq.endpoints.amqp.consuming import close_consumer, open_consumer
from triomq.endpoints.amqp.direct import PRIVATE_BYTES
from triomq.endpoints.amqp.permissions import require_configure, require_queue, require_read, require_write
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.feeds import PIPE_MARK, PIPE_PREFIX, QUEUE_TYPES, SINK_TYPES, require_client_name
from triomq.errors import NotForStreams, NotFound, PreconditionFailed, Refused
from triomq.protocols.amqp import (
    Method,
    QueueDeclare,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)

_PIPE_TYPES = ("pipe", "fifo", "")
"""The specification's, the original implementation's, and none."""

_LONGEST_TAG = 255  # octets of a short string (section 4.2.5.3)

_COST = 10
"""What a method counts against the turn's budget, in queue pushes: a peer tells thousands in one chunk, and each takes
some 20 µs."""


# Pipes


def _pipe_create(channel: ServerChannel, method: RestMSPipeCreate) -> None:
    if method.pipe_type not in _PIPE_TYPES:
        raise PreconditionFailed(f"there are no pipes of type '{method.pipe_type}', only pipe")
    # Brokers of ours announce shared queues as pipes too, for what comes into a pipe is theirs. Of a RestMS server each
    # pipe is somebody's own.
    is_shared = channel.connection.login.instance and not method.pipe_name.startswith(PIPE_PREFIX)
    options = QueueOptions() if is_shared else QueueOptions(remarks=PIPE_MARK, private=True)
    queue = _declare_queue(channel, method.pipe_name, options)
    queue.set_ceiling(PRIVATE_BYTES)  # its peer may be gone for long
    _deliver(channel, f"x:{queue.name}", queue)


def _declare_queue(channel: ServerChannel, name: str, options: QueueOptions) -> QueueState:
    """Declare a queue, unless the peer has it made already, whatever it was declared with.

    Raises:
        ForeignName: Another client has a queue of that name.
    """
    connection = channel.connection
    require_client_name(name)
    if name in connection.directory.queues:
        return _their_queue(channel, name)
    require_queue(channel, name, QueueDeclare(name))
    session = connection.session
    return connection.ask_unguarded(connection.domain, DeclareQueue(name, options, session, session.origin))


def _their_queue(channel: ServerChannel, name: str) -> QueueState:
    """Return a queue that was made for this peer: it gets no other client's messages, and binds no other's queue.

    Raises:
        ForeignName: Another client has made it.
    """
    connection = channel.connection
    queue = connection.directory.queue(name, connection.session)
    if queue.origin != connection.session.origin:
        raise ForeignName(name, queue.origin, connection.session.origin)
    return queue


def _deliver(channel: ServerChannel, tag: str, queue: QueueState) -> None:
    """Deliver what comes into a queue to the peer.

    Raises:
        PreconditionFailed: The tag serves another queue already, or is too long for one.
    """
    if len(tag.encode("utf-8", "surrogateescape")) > _LONGEST_TAG:
        raise PreconditionFailed(f"'{tag}' takes more than {_LONGEST_TAG} octets, so nothing can be delivered under it")
    consumer = channel.consumers.get(tag)
    if consumer is None:
        require_read(channel, "queue", queue.name)
        open_consumer(channel, queue, tag, access=channel.connection.access)
    elif consumer.home.queue is not queue.ref:
        raise PreconditionFailed(f"'{tag}' takes from another feed already, and a pipe can take from one alone")


def _pipe_delete(channel: ServerChannel, method: RestMSPipeDelete) -> None:
    require_client_name(method.pipe_name)
    require_configure(channel, "queue", method.pipe_name)
    for prefix in "xq":  # before the queue goes, so that the peer gets no cancel for what it wants
        close_consumer(channel, f"{prefix}:{method.pipe_name}")
    _delete_queue(channel, method.pipe_name)


def _delete_queue(channel: ServerChannel, name: str) -> None:
    connection, session = channel.connection, channel.connection.session
    connection.ask_unguarded(connection.domain, DeleteQueue(name, session, origin=session.origin))


# Feeds


def _feed_create(channel: ServerChannel, method: RestMSFeedCreate) -> None:
    name, kind = method.feed_name, SINK_TYPES.get(method.feed_type)
    if method.feed_type in QUEUE_TYPES:
        _declare_queue(channel, name, QueueOptions())
    elif kind is None:
        raise PreconditionFailed(
            f"there are no feeds of type '{method.feed_type}', only {', '.join((*SINK_TYPES, *QUEUE_TYPES))}"
        )
    else:
        _declare_sink(channel, name, kind)


def _declare_sink(channel: ServerChannel, name: str, kind: SinkKind) -> None:
    """Declare a sink, unless there is one of this kind."""
    connection, session = channel.connection, channel.connection.session
    existing = connection.directory.sinks.get(name)
    if existing is not None:
        if existing.options.kind is not kind:
            raise PreconditionFailed(f"the feed '{name}' is of type {existing.options.kind.value}, not {kind.value}")
        return
    require_client_name(name)
    require_configure(channel, "exchange", name)
    connection.ask_unguarded(connection.domain, DeclareSink(name, SinkOptions(kind=kind), session, session.origin))


def _feed_delete(channel: ServerChannel, method: RestMSFeedDelete) -> None:
    connection, session, name = channel.connection, channel.connection.session, method.feed_name
    require_client_name(name)
    if name in connection.directory.sinks:
        require_configure(channel, "exchange", name)
        connection.ask_unguarded(connection.domain, DeleteSink(name, session=session, origin=session.origin))
    elif name in connection.directory.queues:
        require_configure(channel, "queue", name)
        _delete_queue(channel, name)


# Joins


def _join_create(channel: ServerChannel, method: RestMSJoinCreate) -> None:
    connection, session = channel.connection, channel.connection.session
    feed = _queue_feed(channel, method)
    if feed is None:
        binding = _binding(channel, method)
        if method.pipe_name in connection.directory.queues:
            _their_queue(channel, method.pipe_name)
        connection.ask_unguarded(connection.domain, Bind(binding, session, session.origin))
        return
    if feed.declared.stream is not None:  # a peer that comes again could not say where it was
        raise NotForStreams(feed.name, "a join of a pipe")
    pipe = _their_queue(channel, method.pipe_name)
    _deliver(channel, f"q:{pipe.name}", feed)


def _queue_feed(channel: ServerChannel, method: RestMSJoinCreate | RestMSJoinDelete) -> QueueState | None:
    """Return the feed of a join if it is a queue; its messages then go to the peer by way of no other."""
    connection, name = channel.connection, method.feed_name
    if name in connection.directory.sinks or name not in connection.directory.queues:
        return None
    return connection.directory.queue(name, connection.session)


def _binding(channel: ServerChannel, method: RestMSJoinCreate | RestMSJoinDelete) -> Binding:
    """Return the binding of a join, if the user may bind these two."""
    if not method.feed_name:
        raise NotFound("a join needs a feed's name")
    require_write(channel, "queue", method.pipe_name)
    require_read(channel, "exchange", method.feed_name)
    return make_binding(method.feed_name, Target.QUEUE, method.pipe_name, method.address)


def _join_delete(channel: ServerChannel, method: RestMSJoinDelete) -> None:
    connection, session = channel.connection, channel.connection.session
    feed, tag = _queue_feed(channel, method), f"q:{method.pipe_name}"
    if feed is None:
        connection.ask_unguarded(connection.domain, Unbind(_binding(channel, method), session, session.origin))
    elif (consumer := channel.consumers.get(tag)) is not None and consumer.home.queue is feed.ref:
        close_consumer(channel, tag)


# All of them


def _quiet(handler: Handler) -> Handler:
    """Log refusals, and do nothing else."""

    def quiet_handler(channel: ServerChannel, method: Method) -> None:
        channel.connection.system.turn.charge(_COST)
        try:
            handler(channel, method)
        except Restarting:
            raise  # it is tried again
        except (Refused, AMQPRefusal) as refused:
            what = type(method).__name__
            channel.connection.note(logging.WARNING, "resource refused", method=what, reason=str(refused))

    return quiet_handler


_HANDLERS: dict[type[Method], Handler] = cast(
    "dict[type[Method], Handler]",
    {
        RestMSFeedCreate: _feed_create,
        RestMSFeedDelete: _feed_delete,
        RestMSJoinCreate: _join_create,
        RestMSJoinDelete: _join_delete,
        RestMSPipeCreate: _pipe_create,
        RestMSPipeDelete: _pipe_delete,
    },
)

RESTMS: dict[type[Method], Handler] = {kind: _quiet(handler) for kind, handler in _HANDLERS.items()}
"""Method to handler; the rows pair each handler with the one type that it is written for."""
