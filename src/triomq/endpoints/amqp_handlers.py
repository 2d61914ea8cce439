"""What the broker does for each method that a client may send on a channel, as a table.

A handler gets the channel and the method, asks the core in place, and replies. It raises a refusal of the core's, or
``AnswerError``, for what AMQP closes channels for; it never waits.
"""

import base64
import os
from collections.abc import Callable
from typing import cast

from triomq.core import (
    Bind,
    Confirms,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Enlist,
    Feed,
    Get,
    Outcome,
    Purge,
    QueueStore,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    Window,
    make_binding,
)
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_arguments import check_consume, plain_arguments, queue_options, sink_options
from triomq.endpoints.amqp_channel import Channel, Consumer
from triomq.endpoints.amqp_control import control_request
from triomq.errors import AccessRefused, NotFound
from triomq.protocols.amqp import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ControlRequest,
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
    TxCommit,
    TxRollback,
    TxSelect,
)

__all__ = ["HANDLERS", "generated_name"]

_RESERVED = "amq."


def generated_name(prefix: str) -> str:
    """Make a name that nobody has: 128 random bits (section 1.7.2.1, server-named queues)."""
    return f"{prefix}{base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip('=')}"


# Exchanges (section 1.6)


def _exchange_declare(channel: Channel, method: ExchangeDeclare) -> None:
    name = method.exchange
    if not name:
        raise AnswerError(403, "operation not permitted on the default exchange")
    if method.passive:
        channel.connection.directory.sink(name)
    else:
        options = _exchange_options(channel, method)
        if name.startswith(_RESERVED) and name not in channel.connection.directory.sinks:
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        channel.connection.ask(channel.connection.domain.ref, DeclareSink(name, options))
    if not method.no_wait:
        channel.reply(ExchangeDeclareOk())


def _exchange_options(channel: Channel, method: ExchangeDeclare) -> SinkOptions:
    try:
        kind = SinkKind(method.type)
    except ValueError:
        raise AnswerError(503, f"unknown exchange type '{method.type}'") from None
    options = SinkOptions(kind=kind, durable=method.durable, auto_delete=method.auto_delete, internal=method.internal)
    arguments = plain_arguments(method.arguments)
    return sink_options(method.exchange, channel.connection.virtual_host, arguments, options)


def _exchange_delete(channel: Channel, method: ExchangeDelete) -> None:
    name = method.exchange
    if not name:
        raise AnswerError(403, "operation not permitted on the default exchange")
    if name.startswith(_RESERVED):
        where = f"'{name}' in vhost '{channel.connection.virtual_host}'"
        raise AnswerError(403, f"deletion of system exchange {where} not allowed")
    channel.connection.ask(channel.connection.domain.ref, DeleteSink(name, method.if_unused))
    if not method.no_wait:
        channel.reply(ExchangeDeleteOk())


def _exchange_bind(channel: Channel, method: ExchangeBind) -> None:
    _bind(channel, method.source, Target.SINK, method.destination, method)
    if not method.no_wait:
        channel.reply(ExchangeBindOk())


def _exchange_unbind(channel: Channel, method: ExchangeUnbind) -> None:
    _unbind(channel, method.source, Target.SINK, method.destination, method)
    if not method.no_wait:
        channel.reply(ExchangeUnbindOk())


def _bind(channel: Channel, source: str, target: Target, destination: str, method: ExchangeBind | QueueBind) -> None:
    if not source or (target is Target.SINK and not destination):
        raise AnswerError(403, "operation not permitted on the default exchange")
    connection = channel.connection
    binding = make_binding(source, target, destination, method.routing_key, plain_arguments(method.arguments))
    connection.ask(connection.domain.ref, Bind(binding, connection.session))


def _unbind(
    channel: Channel, source: str, target: Target, destination: str, method: ExchangeUnbind | QueueUnbind
) -> None:
    if not source or (target is Target.SINK and not destination):
        raise AnswerError(403, "operation not permitted on the default exchange")
    connection = channel.connection
    binding = make_binding(source, target, destination, method.routing_key, plain_arguments(method.arguments))
    connection.ask(connection.domain.ref, Unbind(binding, connection.session))


# Queues (section 1.7)


def _queue_declare(channel: Channel, method: QueueDeclare) -> None:
    connection = channel.connection
    store = _passive(channel, method) if method.passive else _declared(channel, method)
    statistics = connection.ask(store.ref, Enlist())
    channel.last_queue = store.name
    if not method.no_wait:
        channel.reply(QueueDeclareOk(store.name, statistics.ready, statistics.feeds))


def _passive(channel: Channel, method: QueueDeclare) -> QueueStore:
    connection = channel.connection
    return connection.directory.queue(method.queue or channel.last_queue, connection.session)


def _declared(channel: Channel, method: QueueDeclare) -> QueueStore:
    connection = channel.connection
    name = method.queue or generated_name("amq.gen-")
    if method.queue.startswith(_RESERVED) and method.queue not in connection.directory.queues:
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    options = queue_options(
        name,
        connection.virtual_host,
        plain_arguments(method.arguments),
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
    )
    return connection.ask(connection.domain.ref, DeclareQueue(name, options, connection.session))


def _named(channel: Channel, name: str) -> str:
    """Let the empty name mean the queue declared last on this channel (section 1.7.2.3.2)."""
    if name:
        return name
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def _store(channel: Channel, name: str) -> QueueStore:
    return channel.connection.directory.queue(_named(channel, name), channel.connection.session)


def _queue_bind(channel: Channel, method: QueueBind) -> None:
    _bind(channel, method.exchange, Target.QUEUE, _named(channel, method.queue), method)
    if not method.no_wait:
        channel.reply(QueueBindOk())


def _queue_unbind(channel: Channel, method: QueueUnbind) -> None:
    _unbind(channel, method.exchange, Target.QUEUE, _named(channel, method.queue), method)
    channel.reply(QueueUnbindOk())


def _queue_purge(channel: Channel, method: QueuePurge) -> None:
    count = channel.connection.ask(_store(channel, method.queue).ref, Purge())
    if not method.no_wait:
        channel.reply(QueuePurgeOk(count))


def _queue_delete(channel: Channel, method: QueueDelete) -> None:
    connection = channel.connection
    request = DeleteQueue(
        _named(channel, method.queue), connection.session, if_unused=method.if_unused, if_empty=method.if_empty
    )
    statistics = connection.ask(connection.domain.ref, request)
    if not method.no_wait:
        channel.reply(QueueDeleteOk(statistics.ready if statistics is not None else 0))


# Basic (section 1.8)


def _qos(channel: Channel, method: BasicQos) -> None:
    if method.global_:
        channel.window.resize(method.prefetch_count, bytes=method.prefetch_size)
    else:
        # As RabbitMQ has it: for each consumer that starts after this.
        channel.prefetch = method.prefetch_count
        channel.prefetch_size = method.prefetch_size
    channel.reply(BasicQosOk())


def _consume(channel: Channel, method: BasicConsume) -> None:
    connection = channel.connection
    store = _store(channel, method.queue)
    arguments = plain_arguments(method.arguments)
    check_consume(store.name, connection.virtual_host, arguments)
    if method.consumer_tag in channel.consumers:
        raise AnswerError(530, f"attempt to reuse consumer tag '{method.consumer_tag}'")
    consumer = Consumer(channel, method.consumer_tag or generated_name("amq.ctag-"), no_ack=method.no_ack)
    consumer.feed = Feed(
        store.ref,
        connection.ref,
        key=consumer,
        window=Window(channel.prefetch, bytes=channel.prefetch_size),
        shared=(channel.window,),
        outlet=connection.outlet.window,
        gate=channel.gate,
        settles=not method.no_ack,
        exclusive=method.exclusive,
    )
    connection.open_feed(consumer.feed)
    channel.consumers[consumer.tag] = consumer
    if not method.no_wait:
        channel.reply(BasicConsumeOk(consumer.tag))


def _cancel(channel: Channel, method: BasicCancel) -> None:
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is not None:
        consumer.open = False
        channel.connection.outlet.drop(consumer)
        channel.connection.session.close_feed(consumer.feed)
    if not method.no_wait:
        channel.reply(BasicCancelOk(method.consumer_tag))


def _get(channel: Channel, method: BasicGet) -> None:
    store = _store(channel, method.queue)
    batch = channel.connection.ask(store.ref, Get())
    if batch is None:
        channel.reply(BasicGetEmpty())
    else:
        channel.get_ok(batch, no_ack=method.no_ack, remaining=store.index.ready)


def _ack(channel: Channel, method: BasicAck) -> None:
    _settle(channel, method.delivery_tag, Outcome.ACCEPT, multiple=method.multiple)


def _nack(channel: Channel, method: BasicNack) -> None:
    outcome = Outcome.REQUEUE if method.requeue else Outcome.REJECT
    _settle(channel, method.delivery_tag, outcome, multiple=method.multiple)


def _reject(channel: Channel, method: BasicReject) -> None:
    _settle(channel, method.delivery_tag, Outcome.REQUEUE if method.requeue else Outcome.REJECT, multiple=False)


def _settle(channel: Channel, tag: int, outcome: Outcome, *, multiple: bool) -> None:
    if multiple:
        channel.settle_up_to(tag, outcome)
    else:
        channel.settle_each((tag,), outcome)


def _recover(channel: Channel, method: BasicRecover) -> None:
    _recover_async(channel, method)
    channel.reply(BasicRecoverOk())


def _recover_async(channel: Channel, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise AnswerError(540, "requeue=false")
    channel.settle_all(Outcome.REQUEUE)


# Channel, confirm, and what is not there yet


def _flow(channel: Channel, method: ChannelFlow) -> None:
    channel.reply(ChannelFlowOk(method.active))
    if method.active:
        channel.gate.release()
    else:
        channel.gate.hold()


def _confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    if channel.confirms is None:
        channel.confirms = Confirms(lambda: channel.connection.confirming(channel))
    if not method.no_wait:
        channel.reply(ConfirmSelectOk())


def _access_request(channel: Channel, method: AccessRequest) -> None:
    channel.reply(AccessRequestOk(1))


def _no_transactions(channel: Channel, method: Method) -> None:
    raise AnswerError(540, "transactions are not supported by this version of triomq; use publisher confirms")


_Handler = Callable[[Channel, Method], None]

def _note(channel: Channel, method: BasicCancelOk | ChannelFlowOk) -> None:
    """Take the answer to a word of ours; nothing waits for it, so one that answers nothing does no harm."""


HANDLERS: dict[type[Method], _Handler] = cast(
    "dict[type[Method], _Handler]",
    {
        AccessRequest: _access_request,
        BasicAck: _ack,
        BasicCancel: _cancel,
        BasicCancelOk: _note,
        BasicConsume: _consume,
        BasicGet: _get,
        BasicNack: _nack,
        BasicQos: _qos,
        BasicRecover: _recover,
        BasicRecoverAsync: _recover_async,
        BasicReject: _reject,
        ChannelFlow: _flow,
        ChannelFlowOk: _note,
        ConfirmSelect: _confirm_select,
        ControlRequest: control_request,
        ExchangeBind: _exchange_bind,
        ExchangeDeclare: _exchange_declare,
        ExchangeDelete: _exchange_delete,
        ExchangeUnbind: _exchange_unbind,
        QueueBind: _queue_bind,
        QueueDeclare: _queue_declare,
        QueueDelete: _queue_delete,
        QueuePurge: _queue_purge,
        QueueUnbind: _queue_unbind,
        TxCommit: _no_transactions,
        TxRollback: _no_transactions,
        TxSelect: _no_transactions,
    },
)
"""Method to handler; the rows pair each handler with the one type that it is written for."""
