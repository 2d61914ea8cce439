"""The class restms on AMQP: resources of a RestMS server, or of another broker, as sinks, queues and bindings.

A RestMS feed is what one writes to, and a pipe what one reads from: here a sink and a queue. A join is a binding.
Whatever goes wrong is noted in the log and nobody is told, as the class wants it, so nothing here closes a channel.
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
    QueueOptions,
    Restarting,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
)
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_channel import Channel, Handler
from triomq.endpoints.amqp_permissions import require_configure, require_queue, require_read, require_write
from triomq.errors import AccessRefused, NotFound, PreconditionFailed, Refused
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

__all__ = ["RESTMS"]

_PIPE_TYPES = ("pipe", "fifo", "")
"""The specification's, the original implementation's, and none."""

_SINK_TYPES = {kind.value: kind for kind in (SinkKind.FANOUT, SinkKind.DIRECT, SinkKind.TOPIC, SinkKind.HEADERS)}

_QUEUE_TYPES = {"rotator": QueueOptions(), "service": QueueOptions(auto_delete=True)}
"""Feeds whose messages several readers share; the latter goes when nobody reads from it any more."""

_RESERVED = "amq."


def _pipe_create(channel: Channel, method: RestMSPipeCreate) -> None:
    if method.pipe_type not in _PIPE_TYPES:
        raise PreconditionFailed(f"there are no pipes of type '{method.pipe_type}', only pipe")
    _declare_queue(channel, method.pipe_name, QueueOptions())


def _declare_queue(channel: Channel, name: str, options: QueueOptions) -> None:
    """Let there be a queue, unless there is one that this session may use, whatever it was declared with."""
    connection = channel.connection
    _require_free(name)
    if name in connection.directory.queues:
        connection.directory.queue(name, connection.session)
        return
    require_queue(channel, name, QueueDeclare(name))
    store = connection.ask(connection.domain.ref, DeclareQueue(name, options, connection.session))
    connection.count_queue(store)


def _require_free(name: str) -> None:
    if not name or name.startswith(_RESERVED):
        raise AccessRefused(f"the name '{name}' is the broker's own")


def _pipe_delete(channel: Channel, method: RestMSPipeDelete) -> None:
    _require_free(method.pipe_name)
    require_configure(channel, "queue", method.pipe_name)
    channel.connection.ask(channel.connection.domain.ref, DeleteQueue(method.pipe_name, channel.connection.session))


def _feed_create(channel: Channel, method: RestMSFeedCreate) -> None:
    name, kind = method.feed_name, _SINK_TYPES.get(method.feed_type)
    if method.feed_type in _QUEUE_TYPES:
        _declare_queue(channel, name, _QUEUE_TYPES[method.feed_type])
    elif kind is None:
        raise PreconditionFailed(
            f"there are no feeds of type '{method.feed_type}', only {', '.join((*_SINK_TYPES, *_QUEUE_TYPES))}"
        )
    else:
        _declare_sink(channel, name, kind)


def _declare_sink(channel: Channel, name: str, kind: SinkKind) -> None:
    """Let there be a sink, unless there is one of this kind."""
    connection = channel.connection
    existing = connection.directory.sinks.get(name)
    if existing is not None:
        if existing.options.kind is not kind:
            raise PreconditionFailed(f"the feed '{name}' is of type {existing.options.kind.value}, not {kind.value}")
        return
    _require_free(name)
    require_configure(channel, "exchange", name)
    connection.ask(connection.domain.ref, DeclareSink(name, SinkOptions(kind=kind), connection.session))


def _feed_delete(channel: Channel, method: RestMSFeedDelete) -> None:
    connection, name = channel.connection, method.feed_name
    _require_free(name)
    if name in connection.directory.sinks:
        require_configure(channel, "exchange", name)
        connection.ask(connection.domain.ref, DeleteSink(name, session=connection.session))
    elif name in connection.directory.queues:
        require_configure(channel, "queue", name)
        connection.ask(connection.domain.ref, DeleteQueue(name, connection.session))


def _join_create(channel: Channel, method: RestMSJoinCreate) -> None:
    connection = channel.connection
    if method.feed_name in connection.directory.queues and method.feed_name not in connection.directory.sinks:
        raise PreconditionFailed(f"the feed '{method.feed_name}' is a queue: its messages do not go to pipes")
    connection.ask(connection.domain.ref, Bind(_binding(channel, method), connection.session))


def _binding(channel: Channel, method: RestMSJoinCreate | RestMSJoinDelete) -> Binding:
    """Make the binding of a join, if the user may bind these two."""
    if not method.feed_name:
        raise NotFound("a join needs a feed's name")
    require_write(channel, "queue", method.pipe_name)
    require_read(channel, "exchange", method.feed_name)
    return make_binding(method.feed_name, Target.QUEUE, method.pipe_name, method.address)


def _join_delete(channel: Channel, method: RestMSJoinDelete) -> None:
    connection = channel.connection
    connection.ask(connection.domain.ref, Unbind(_binding(channel, method), connection.session))


def _quiet(handler: Handler) -> Handler:
    """Let refusals be noted and nothing else."""

    def quiet_handler(channel: Channel, method: Method) -> None:
        try:
            handler(channel, method)
        except Restarting:
            raise  # it is tried again
        except (Refused, AnswerError) as refused:
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
