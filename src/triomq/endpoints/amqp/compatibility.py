"""``compatibility = "rabbitmq"``: what the specification offers and RabbitMQ refuses is refused here too.

The specification wants a server that lacks something to say so by 540 or 503. Programs were written against that: Go's
client takes the end of the connection for the answer to ``channel.flow``, others ask for immediate once, to learn that
they cannot have it. With this setting they meet what they know. ``tests/peers/differential`` puts each row of the table
below to both brokers, and the page on conformance says for each difference whether the setting removes it. What is
published with immediate is refused where it is published (``publishing``).
"""

from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from triomq.core import Inequivalent
from triomq.endpoints.amqp.channel import Handler, ServerChannel
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.endpoints.amqp.names import queue_named
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.content import is_reply_queue
from triomq.endpoints.declaring import STANDARD_EXCHANGES, is_quorum
from triomq.protocols.amqp import (
    BasicCancelOk,
    BasicConsume,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelFlow,
    ChannelFlowOk,
    ExchangeDeclare,
    Method,
)

_Change = Callable[[ServerChannel, Method], Method | None]


def _flow(channel: ServerChannel, method: ChannelFlow) -> None:
    if not method.active:
        raise AMQPRefusal(540, "active=false")


def _recover(channel: ServerChannel, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise AMQPRefusal(540, "requeue=false")


def _qos(channel: ServerChannel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise AMQPRefusal(540, f"prefetch_size!=0 ({method.prefetch_size})")


def _consume(channel: ServerChannel, method: BasicConsume) -> Method:
    """Refuse a queue of the type quorum where the channel has a limit of its own, and look away from no-local."""
    if channel.window.limit and not is_reply_queue(method.queue):
        queue = queue_named(channel, method.queue)
        place = f"queue '{queue.name}' in vhost '{channel.connection.virtual_host}'"
        if is_quorum(queue.declared):
            raise AMQPRefusal(540, f"{place} does not support global qos")
    return replace(method, no_local=False)


def _exchange(channel: ServerChannel, method: ExchangeDeclare) -> None:
    """Compare both bits of a standard exchange, one of which the specification reserves."""
    existing = channel.connection.directory.sinks.get(method.exchange)
    if method.passive or existing is None or method.exchange not in STANDARD_EXCHANGES:
        return
    for option in ("durable", "auto_delete"):
        received, current = getattr(method, option), getattr(existing.declared, option)
        if received is not current:
            raise Inequivalent(method.exchange, option, received, current)


def _unasked(channel: ServerChannel, method: BasicCancelOk | ChannelFlowOk) -> None:
    raise AMQPRefusal(503, "unimplemented method")


_CHANGES: dict[type[Method], _Change] = cast(
    "dict[type[Method], _Change]",
    {
        BasicCancelOk: _unasked,
        BasicConsume: _consume,
        BasicQos: _qos,
        BasicRecover: _recover,
        BasicRecoverAsync: _recover,
        ChannelFlow: _flow,
        ChannelFlowOk: _unasked,
        ExchangeDeclare: _exchange,
    },
)


def _behind(change: _Change, handler: Handler) -> Handler:
    def handle(channel: ServerChannel, method: Method) -> None:
        handler(channel, change(channel, method) or method)

    return handle


RABBITMQ_HANDLERS: dict[type[Method], Handler] = {
    **HANDLERS,
    **{kind: _behind(change, HANDLERS[kind]) for kind, change in _CHANGES.items()},
}
"""What the broker does for each method, for an endpoint that answers as RabbitMQ does."""
