"""What each method needs, as a table: RabbitMQ's rules, in RabbitMQ's order, with RabbitMQ's texts.

A row is looked at before its method's handler runs, and refuses with 403. Methods that need nothing have a row that
tells why. Two rights are asked for where their names become known: a queue without a name gets one from the broker, and
what is published is checked where its route is looked up, once for a route and never for a message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from triomq.core import SinkKind
from triomq.endpoints.amqp.names import named
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.content import is_reply_queue
from triomq.endpoints.declaring import RESERVED
from triomq.protocols.amqp import (
    AccessRequest,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ControlRequest,
    DirectGet,
    DirectPut,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import Handler, ServerChannel

_KINDS = frozenset(kind.value for kind in SinkKind)

_DEFAULT = "amq.default"
"""What the default exchange is called in permissions, and in the texts about them."""


# Rights


def require_configure(channel: "ServerChannel", kind: str, name: str) -> None:
    """Require that the user may declare and delete an exchange or a queue.

    Args:
        channel: Where it is asked for.
        kind: ``"exchange"`` or ``"queue"``.
        name: Its name.

    Raises:
        AMQPRefusal: It may not (403).
    """
    if not channel.connection.access.may_configure(name):
        raise access_refused(channel, kind, name)


def require_write(channel: "ServerChannel", kind: str, name: str) -> None:
    """Require that the user may publish to an exchange, or bind an exchange or a queue; as ``require_configure``."""
    if not channel.connection.access.may_write(name):
        raise access_refused(channel, kind, name)


def require_read(channel: "ServerChannel", kind: str, name: str) -> None:
    """Require that the user may take from a queue, or bind something to an exchange; as ``require_configure``."""
    if not channel.connection.access.may_read(name):
        raise access_refused(channel, kind, name)


def access_refused(channel: "ServerChannel", kind: str, name: str) -> AMQPRefusal:
    """Word what a user may not, as RabbitMQ does."""
    connection = channel.connection
    where = f"{kind} '{name or _DEFAULT}' in vhost '{connection.virtual_host}'"
    return AMQPRefusal(403, f"access to {where} refused for user '{connection.user}'")


# Exchanges


def _exchange_declare(channel: "ServerChannel", method: ExchangeDeclare) -> None:
    if method.passive or not method.exchange or method.type not in _KINDS:
        return  # tells nothing that a publish would not; the others are refused for what they are
    require_configure(channel, "exchange", method.exchange)
    alternate = (method.arguments or {}).get("alternate-exchange")
    if isinstance(alternate, str) and method.exchange not in channel.connection.directory.sinks:
        require_read(channel, "exchange", method.exchange)
        require_write(channel, "exchange", alternate)


def _exchange_delete(channel: "ServerChannel", method: ExchangeDelete) -> None:
    if method.exchange and not method.exchange.startswith(RESERVED):  # those are refused to everybody
        require_configure(channel, "exchange", method.exchange)


def _exchange_bind(channel: "ServerChannel", method: ExchangeBind | ExchangeUnbind) -> None:
    require_write(channel, "exchange", method.destination)
    if method.source and method.destination:  # the default exchange is refused to everybody
        require_read(channel, "exchange", method.source)


# Queues


def require_queue(channel: "ServerChannel", name: str, method: QueueDeclare) -> None:
    """Require that the user may declare a queue of this name, and let it dead-letter if it is to.

    Raises:
        AMQPRefusal: It may not (403).
    """
    connection = channel.connection
    require_configure(channel, "queue", name)
    if name in connection.directory.queues:
        return
    dead_letters = (method.arguments or {}).get("x-dead-letter-exchange")
    if isinstance(dead_letters, str):
        require_read(channel, "queue", name)
        require_write(channel, "exchange", dead_letters)


def _queue_bind(channel: "ServerChannel", method: QueueBind | QueueUnbind) -> None:
    require_write(channel, "queue", named(channel, method.queue))
    if method.exchange:  # the default exchange is refused to everybody
        require_read(channel, "exchange", method.exchange)


def _queue_delete(channel: "ServerChannel", method: QueueDelete) -> None:
    require_configure(channel, "queue", named(channel, method.queue))


def _takes(channel: "ServerChannel", method: QueuePurge | BasicGet) -> None:
    require_read(channel, "queue", named(channel, method.queue))


def _consume(channel: "ServerChannel", method: BasicConsume) -> None:
    name = named(channel, method.queue)
    if not is_reply_queue(name):  # those are their own client's alone
        require_read(channel, "queue", name)


# Direct connections


def _direct_put(channel: "ServerChannel", method: DirectPut) -> None:
    require_write(channel, "exchange", method.sink)


def _direct_get(channel: "ServerChannel", method: DirectGet) -> None:
    require_read(channel, "queue", method.feed)


# Looking into the broker


def _control(channel: "ServerChannel", method: ControlRequest) -> None:
    connection = channel.connection
    user = connection.context.users.get(connection.user)
    if user is None or not user.may_monitor:
        what = f"operation '{method.operation}' refused for user '{connection.user}'"
        raise AMQPRefusal(403, f"{what}, who has neither the tag administrator nor monitoring")


# The table


Need: TypeAlias = "Callable[[ServerChannel, Method], None] | str"
"""What refuses, or why nothing needs to."""

_QUIETLY = "asks where refusals are logged and not sent"
_ITS_OWN = "is about the client's own channel"
_DELIVERED = "is about what was delivered to this channel, which needed the right to read"

NEEDS: Final[dict[type[Method], Need]] = cast(
    "dict[type[Method], Need]",
    {
        AccessRequest: "grants nothing: what it asks for is asked for again by each method",
        BasicAck: _DELIVERED,
        BasicCancel: _ITS_OWN,
        BasicCancelOk: _ITS_OWN,
        BasicConsume: _consume,
        BasicGet: _takes,
        BasicNack: _DELIVERED,
        BasicPublish: "asks where its route is looked up",
        BasicQos: _ITS_OWN,
        BasicRecover: _DELIVERED,
        BasicRecoverAsync: _DELIVERED,
        BasicReject: _DELIVERED,
        ChannelFlow: _ITS_OWN,
        ChannelFlowOk: _ITS_OWN,
        ConfirmSelect: _ITS_OWN,
        ControlRequest: _control,
        DirectGet: _direct_get,
        DirectPut: _direct_put,
        ExchangeBind: _exchange_bind,
        ExchangeDeclare: _exchange_declare,
        ExchangeDelete: _exchange_delete,
        ExchangeUnbind: _exchange_bind,
        QueueBind: _queue_bind,
        QueueDeclare: "asks where its name is known",
        QueueDelete: _queue_delete,
        QueuePurge: _takes,
        QueueUnbind: _queue_bind,
        RestMSFeedCreate: _QUIETLY,
        RestMSFeedDelete: _QUIETLY,
        RestMSJoinCreate: _QUIETLY,
        RestMSJoinDelete: _QUIETLY,
        RestMSPipeCreate: _QUIETLY,
        RestMSPipeDelete: _QUIETLY,
        TxCommit: "does what was asked for when it was published and settled",
        TxRollback: _ITS_OWN,
        TxSelect: _ITS_OWN,
    },
)
"""Each method that a client may send on a channel, and what it needs."""


def guarded(handlers: "dict[type[Method], Handler]") -> "dict[type[Method], Handler]":
    """Return handlers that check first what their methods need; methods that need nothing stay as they are.

    Raises:
        KeyError: A method has no row.
    """
    return {kind: _guarded(NEEDS[kind], handler) for kind, handler in handlers.items()}


def _guarded(need: Need, handler: "Handler") -> "Handler":
    if isinstance(need, str):
        return handler

    def guarded_handler(channel: "ServerChannel", method: Method) -> None:
        need(channel, method)
        handler(channel, method)

    return guarded_handler
