"""What the broker does for methods of the classes exchange and queue, as a table (sections 1.6 and 1.7)."""

import logging
from typing import TypeVar, cast

from msgspec.structs import replace

from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Enlist,
    ForeignName,
    NoSuchQueue,
    Purge,
    QueueState,
    Target,
    Unbind,
    make_binding,
)
from triomq.endpoints.amqp.channel import Handler, ServerChannel
from triomq.endpoints.amqp.names import named, queue_named
from triomq.endpoints.amqp.permissions import require_queue
from triomq.endpoints.amqp.reply_queues import declared_reply_queue
from triomq.endpoints.content import is_reply_queue
from triomq.endpoints.declaring import (
    declared_exchange,
    declared_queue,
    name_for_queue,
    plain_arguments,
    require_deletable,
    require_exchange,
)
from triomq.protocols.amqp import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

M = TypeVar("M", QueueBind, QueueUnbind)


# Exchanges (section 1.6)


def _exchange_declare(channel: ServerChannel, method: ExchangeDeclare) -> None:
    name = method.exchange
    require_exchange(name)
    connection = channel.connection
    if method.passive:
        connection.directory.sink(name)
    else:
        options = declared_exchange(
            connection.directory,
            connection.virtual_host,
            name,
            method.type,
            plain_arguments(method.arguments),
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
        )
        connection.ask_unguarded(connection.domain, DeclareSink(name, options, connection.session))
    if not method.no_wait:
        channel.reply(ExchangeDeclareOk())


def _exchange_delete(channel: ServerChannel, method: ExchangeDelete) -> None:
    name = method.exchange
    require_deletable(name, channel.connection.virtual_host)
    connection = channel.connection
    connection.ask_unguarded(connection.domain, DeleteSink(name, method.if_unused, connection.session))
    if not method.no_wait:
        channel.reply(ExchangeDeleteOk())


def _exchange_bind(channel: ServerChannel, method: ExchangeBind) -> None:
    _change_binding(channel, Bind, method.source, Target.SINK, method.destination, method)
    if not method.no_wait:
        channel.reply(ExchangeBindOk())


def _exchange_unbind(channel: ServerChannel, method: ExchangeUnbind) -> None:
    _change_binding(channel, Unbind, method.source, Target.SINK, method.destination, method)
    if not method.no_wait:
        channel.reply(ExchangeUnbindOk())


def _change_binding(
    channel: ServerChannel,
    change: type[Bind | Unbind],
    source: str,
    target: Target,
    destination: str,
    method: ExchangeBind | ExchangeUnbind | QueueBind | QueueUnbind,
) -> None:
    require_exchange(source)
    if target is Target.SINK:
        require_exchange(destination)
    connection = channel.connection
    binding = make_binding(source, target, destination, method.routing_key, plain_arguments(method.arguments))
    connection.ask_unguarded(connection.domain, change(binding, connection.session))


# Queues (section 1.7)


def _queue_declare(channel: ServerChannel, method: QueueDeclare) -> None:
    connection = channel.connection
    if (answer := declared_reply_queue(channel, method.queue)) is not None:
        channel.last_queue = answer.queue
        if not method.no_wait:
            channel.reply(answer)
        return
    queue = _used(channel, method) if method.passive else _declared(channel, method)
    statistics = connection.ask_unguarded(queue.ref, Enlist())
    channel.last_queue = queue.name
    if not method.no_wait:
        channel.reply(QueueDeclareOk(queue.name, statistics.ready, statistics.feeds))


def _used(channel: ServerChannel, method: QueueDeclare) -> QueueState:
    connection = channel.connection
    queue = connection.directory.queue(method.queue, connection.session)
    queue.use()
    return queue


def _declared(channel: ServerChannel, method: QueueDeclare) -> QueueState:
    connection = channel.connection
    name = name_for_queue(connection.directory, method.queue)
    require_queue(channel, name, method)
    options = declared_queue(
        connection.directory,
        connection.virtual_host,
        name,
        plain_arguments(method.arguments),
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        is_named_here=not method.queue,
    )
    try:
        return connection.ask_unguarded(connection.domain, DeclareQueue(name, options, connection.session))
    except ForeignName as refused:
        connection.note(logging.WARNING, "resource refused", method="QueueDeclare", reason=str(refused))
        raise


def _keyed(name: str, method: M) -> M:
    """Return a method with the last declared queue's name for the key as well, where neither is given.

    Section 1.7.2.3: "If the queue name is empty, the server uses the last queue declared on the channel. If the routing
    key is also empty, the server uses this queue name for the routing key as well."
    """
    return method if method.queue or method.routing_key else replace(method, routing_key=name)


def _queue_bind(channel: ServerChannel, method: QueueBind) -> None:
    name = named(channel, method.queue)
    if is_reply_queue(name):
        raise NoSuchQueue(name)
    _change_binding(channel, Bind, method.exchange, Target.QUEUE, name, _keyed(name, method))
    if not method.no_wait:
        channel.reply(QueueBindOk())


def _queue_unbind(channel: ServerChannel, method: QueueUnbind) -> None:
    name = named(channel, method.queue)
    if not is_reply_queue(name):
        _change_binding(channel, Unbind, method.exchange, Target.QUEUE, name, _keyed(name, method))
    channel.reply(QueueUnbindOk())


def _queue_purge(channel: ServerChannel, method: QueuePurge) -> None:
    count = channel.connection.ask_unguarded(queue_named(channel, method.queue).ref, Purge())
    if not method.no_wait:
        channel.reply(QueuePurgeOk(count))


def _queue_delete(channel: ServerChannel, method: QueueDelete) -> None:
    connection, name = channel.connection, named(channel, method.queue)
    request = DeleteQueue(name, connection.session, if_unused=method.if_unused, if_empty=method.if_empty)
    with channel.cancels_behind():
        statistics = None if is_reply_queue(name) else connection.ask_unguarded(connection.domain, request)
        if not method.no_wait:
            channel.reply(QueueDeleteOk(statistics.ready if statistics is not None else 0))


TOPOLOGY: dict[type[Method], Handler] = cast(
    "dict[type[Method], Handler]",
    {
        ExchangeBind: _exchange_bind,
        ExchangeDeclare: _exchange_declare,
        ExchangeDelete: _exchange_delete,
        ExchangeUnbind: _exchange_unbind,
        QueueBind: _queue_bind,
        QueueDeclare: _queue_declare,
        QueueDelete: _queue_delete,
        QueuePurge: _queue_purge,
        QueueUnbind: _queue_unbind,
    },
)
"""Method to handler; the rows pair each handler with the one type that it is written for."""
