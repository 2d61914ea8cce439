"""What the broker does for methods of the class basic, but for publishing, as a table (section 1.8)."""

from typing import cast

from triomq.core import (
    EVERYTHING,
    Get,
    InExclusiveUse,
    Outcome,
    Permissions,
    Place,
    QueueState,
)
from triomq.endpoints.amqp.channel import Consumer, Handler, ServerChannel
from triomq.endpoints.amqp.names import named, queue_named
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.amqp.reply_queues import open_reply_queue
from triomq.endpoints.amqp.streams import check_consumer, check_settled, start_of
from triomq.endpoints.content import REPLY_TO
from triomq.endpoints.declaring import consumer_priority, generated_name, plain_arguments
from triomq.endpoints.direct import direct_feed
from triomq.protocols.amqp import (
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
    Method,
)


def _qos(channel: ServerChannel, method: BasicQos) -> None:
    if method.global_:
        channel.window.resize(method.prefetch_count, bytes=method.prefetch_size)
    else:
        # As RabbitMQ has it: for each consumer that starts after this.
        channel.prefetch = method.prefetch_count
        channel.prefetch_size = method.prefetch_size
    channel.reply(BasicQosOk())


def _consume(channel: ServerChannel, method: BasicConsume) -> None:
    connection = channel.connection
    if method.consumer_tag in channel.consumers:
        raise AMQPRefusal(530, f"attempt to reuse consumer tag '{method.consumer_tag}'")
    replies = named(channel, method.queue) == REPLY_TO
    queue = open_reply_queue(channel, method) if replies else queue_named(channel, method.queue)
    arguments = plain_arguments(method.arguments)
    priority, start = 0, None
    if queue.declared.stream is None:
        priority = consumer_priority(queue.name, connection.virtual_host, arguments)
    else:
        start = start_of(queue.name, connection.virtual_host, arguments)
        check_consumer(channel, queue, arguments, no_ack=method.no_ack)
    if method.exclusive and queue.options.single_active:
        raise InExclusiveUse(queue.name)  # one of them is to have all: the queue chooses which
    tag = method.consumer_tag or generated_name("amq.ctag-")
    consumer = open_consumer(
        channel,
        queue,
        tag,
        no_ack=method.no_ack,
        exclusive=method.exclusive and start is None,  # each reader of a stream is as good as alone
        priority=priority,
        no_local=method.no_local and start is None,
        start=start,
        access=EVERYTHING if replies else channel.connection.access,  # those are its own, whatever they are called
    )
    if replies:
        channel.reply_consumer = consumer
    if not method.no_wait:
        channel.reply(BasicConsumeOk(consumer.tag))


MOST_CONSUMERS = 10_000
"""Consumers of a channel: to close it with as many takes 20 ms. More can be had on other channels."""

_COST = 10
"""What a consumer counts against the turn's budget, in queue pushes: it takes some 20 µs."""


def open_consumer(
    channel: ServerChannel,
    queue: QueueState,
    tag: str,
    *,
    access: Permissions,
    no_ack: bool = False,
    exclusive: bool = False,
    priority: int = 0,
    no_local: bool = False,
    start: Place | None = None,
) -> Consumer:
    """Open a consumer of a queue, under a tag that is free; raises what ``Subscription`` does."""
    connection = channel.connection
    if len(channel.consumers) >= MOST_CONSUMERS:
        raise AMQPRefusal(530, f"reached maximum ({MOST_CONSUMERS}) of consumers per channel")
    connection.system.turn.charge(_COST)
    consumer = Consumer(
        channel,
        tag,
        queue,
        access,
        no_ack=no_ack,
        exclusive=exclusive,
        priority=priority,
        no_local=no_local,
        start=start,
    )
    channel.reads_streams |= start is not None
    if (direct := connection.direct_feeds.get(queue)) is not None:
        consumer.move(direct_feed(consumer.home, direct))
    connection.begin(consumer)
    if not no_ack:
        connection.watch_unsettled(queue)
    channel.consumers[tag] = consumer
    return consumer


def close_consumer(channel: ServerChannel, tag: str) -> None:
    """Close the consumer that a channel has under a tag, if it has one."""
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        channel.connection.drop(consumer)
        consumer.close()


def _cancel(channel: ServerChannel, method: BasicCancel) -> None:
    close_consumer(channel, method.consumer_tag)
    if not method.no_wait:
        channel.reply(BasicCancelOk(method.consumer_tag))


def _get(channel: ServerChannel, method: BasicGet) -> None:
    queue = queue_named(channel, method.queue)
    batch = channel.connection.ask_unguarded(queue.ref, Get())
    if batch is None:
        channel.reply(BasicGetEmpty())
    else:
        if not method.no_ack:
            channel.connection.watch_unsettled(queue)
        channel.get_ok(batch, no_ack=method.no_ack, remaining=queue.ready_count())


def _ack(channel: ServerChannel, method: BasicAck) -> None:
    _settle(channel, method.delivery_tag, Outcome.ACCEPT, multiple=method.multiple)


def _nack(channel: ServerChannel, method: BasicNack) -> None:
    outcome = Outcome.REQUEUE if method.requeue else Outcome.REJECT
    _settle(channel, method.delivery_tag, outcome, multiple=method.multiple)


def _reject(channel: ServerChannel, method: BasicReject) -> None:
    _settle(channel, method.delivery_tag, Outcome.REQUEUE if method.requeue else Outcome.REJECT, multiple=False)


def _settle(channel: ServerChannel, tag: int, outcome: Outcome, *, multiple: bool) -> None:
    if channel.reads_streams and outcome is not Outcome.ACCEPT:
        check_settled(channel, tag, "basic.nack and basic.reject", multiple=multiple)
    if multiple:
        channel.unsettled.settle_up_to(tag, outcome)
    else:
        channel.unsettled.settle_each((tag,), outcome)


def _recover(channel: ServerChannel, method: BasicRecover) -> None:
    _recover_async(channel, method)
    channel.reply(BasicRecoverOk())


def _recover_async(channel: ServerChannel, method: BasicRecover | BasicRecoverAsync) -> None:
    if channel.reads_streams:
        check_settled(channel, 0, "basic.recover", multiple=True)
    if method.requeue:
        channel.unsettled.requeue_all()
    else:
        channel.deliver_again()


CONSUMING: dict[type[Method], Handler] = cast(
    "dict[type[Method], Handler]",
    {
        BasicAck: _ack,
        BasicCancel: _cancel,
        BasicConsume: _consume,
        BasicGet: _get,
        BasicNack: _nack,
        BasicQos: _qos,
        BasicRecover: _recover,
        BasicRecoverAsync: _recover_async,
        BasicReject: _reject,
    },
)
"""Method to handler; the rows pair each handler with the one type that it is written for."""
