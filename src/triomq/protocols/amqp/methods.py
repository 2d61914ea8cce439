"""Every method of AMQP 0-9-1 and of RabbitMQ's additions to it, as types and as one table.

The types carry the fields in the order of the wire. What a field is annotated with is its domain there; a field that is
a ``ClassVar`` is reserved by the specification: written as zero, not looked at when read. ``METHODS`` has the rest:
numbers, who may send it, what may answer it, whether content follows. The codec, the checks of the engine and the
reference page all come from here; an extension class is a few more types and a few more rows.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from triomq.protocols.fields import FieldValue

# Domains (section 4.2.5): how a field stands on the wire.
Bit: TypeAlias = Annotated[bool, "bit"]
Octet: TypeAlias = Annotated[int, "octet"]
Short: TypeAlias = Annotated[int, "short"]
Long: TypeAlias = Annotated[int, "long"]
LongLong: TypeAlias = Annotated[int, "longlong"]
ShortString: TypeAlias = Annotated[str, "shortstr"]
LongString: TypeAlias = Annotated[bytes, "longstr"]
FieldTable: TypeAlias = Annotated[dict[str, FieldValue], "table"]


class Method(msgspec.Struct, frozen=True, gc=False):
    """The base of all methods; those that hold a table are tracked by the garbage collector, the others are not."""


# connection, class 10


class ConnectionStart(Method, frozen=True, gc=True):
    """The server opens the negotiation: versions, what it is, which security mechanisms and locales it offers."""

    version_major: Octet
    version_minor: Octet
    server_properties: FieldTable
    mechanisms: LongString
    locales: LongString


class ConnectionStartOk(Method, frozen=True, gc=True):
    """The client chooses a mechanism and a locale and describes itself."""

    client_properties: FieldTable
    mechanism: ShortString
    response: LongString
    locale: ShortString


class ConnectionSecure(Method, frozen=True, gc=False):
    """The server challenges the client: the mechanism needs one more step."""

    challenge: LongString


class ConnectionSecureOk(Method, frozen=True, gc=False):
    """The client answers the challenge."""

    response: LongString


class ConnectionTune(Method, frozen=True, gc=False):
    """The server offers limits; zero is no limit, no heartbeat."""

    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionTuneOk(Method, frozen=True, gc=False):
    """The client states the limits that hold."""

    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionOpen(Method, frozen=True, gc=False):
    """The client asks for a virtual host."""

    virtual_host: ShortString = "/"
    reserved_1: ClassVar[ShortString] = ""
    reserved_2: ClassVar[Bit] = False


class ConnectionOpenOk(Method, frozen=True, gc=False):
    """The connection is ready for use."""

    reserved_1: ClassVar[ShortString] = ""


class ConnectionClose(Method, frozen=True, gc=False):
    """The sender ends the connection and gives the reason; the last two name the method that was to blame."""

    reply_code: Short
    reply_text: ShortString
    class_id: Short = 0
    method_id: Short = 0


class ConnectionCloseOk(Method, frozen=True, gc=False):
    """The close was seen; the connection can be shut."""


class ConnectionBlocked(Method, frozen=True, gc=False):
    """RabbitMQ's: the server will not take publishes for now."""

    reason: ShortString


class ConnectionUnblocked(Method, frozen=True, gc=False):
    """RabbitMQ's: the server takes publishes again."""


class ConnectionUpdateSecret(Method, frozen=True, gc=False):
    """RabbitMQ's: the client renews a secret that will expire."""

    new_secret: LongString
    reason: ShortString


class ConnectionUpdateSecretOk(Method, frozen=True, gc=False):
    """RabbitMQ's: the new secret holds."""


# channel, class 20


class ChannelOpen(Method, frozen=True, gc=False):
    """Open the channel whose number the frame carries."""

    reserved_1: ClassVar[ShortString] = ""


class ChannelOpenOk(Method, frozen=True, gc=False):
    """The channel is ready for use."""

    reserved_1: ClassVar[LongString] = b""


class ChannelFlow(Method, frozen=True, gc=False):
    """Ask the peer to pause or restart the flow of contents."""

    active: Bit


class ChannelFlowOk(Method, frozen=True, gc=False):
    """Confirm a channel.flow."""

    active: Bit


class ChannelClose(Method, frozen=True, gc=False):
    """The sender ends the channel and gives the reason; the last two name the method that was to blame."""

    reply_code: Short
    reply_text: ShortString
    class_id: Short = 0
    method_id: Short = 0


class ChannelCloseOk(Method, frozen=True, gc=False):
    """The close was seen; the number is free."""


# access, class 30, of 0-8: old clients still ask


class AccessRequest(Method, frozen=True, gc=False):
    """Ask for a ticket to a realm; tickets mean nothing since 0-9-1."""

    realm: ShortString = "/data"
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method, frozen=True, gc=False):
    """Grant a ticket."""

    ticket: Short = 0


# exchange, class 40


class ExchangeDeclare(Method, frozen=True, gc=True):
    """Create an exchange, or check that it exists."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortString
    type: ShortString = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeDeclareOk(Method, frozen=True, gc=False):
    """The exchange exists."""


class ExchangeDelete(Method, frozen=True, gc=False):
    """Delete an exchange with its bindings."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortString
    if_unused: Bit = False
    no_wait: Bit = False


class ExchangeDeleteOk(Method, frozen=True, gc=False):
    """The exchange is gone."""


class ExchangeBind(Method, frozen=True, gc=True):
    """RabbitMQ's: bind an exchange to an exchange."""

    reserved_1: ClassVar[Short] = 0
    destination: ShortString
    source: ShortString
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeBindOk(Method, frozen=True, gc=False):
    """RabbitMQ's: the binding exists."""


class ExchangeUnbind(Method, frozen=True, gc=True):
    """RabbitMQ's: undo an exchange.bind."""

    reserved_1: ClassVar[Short] = 0
    destination: ShortString
    source: ShortString
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeUnbindOk(Method, frozen=True, gc=False):
    """RabbitMQ's: the binding is gone."""


# queue, class 50


class QueueDeclare(Method, frozen=True, gc=True):
    """Create a queue, or check that it exists; an empty name asks the server for one."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class QueueDeclareOk(Method, frozen=True, gc=False):
    """The queue exists; counts of ready messages and of consumers."""

    queue: ShortString
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, frozen=True, gc=True):
    """Bind a queue to an exchange."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class QueueBindOk(Method, frozen=True, gc=False):
    """The binding exists."""


class QueuePurge(Method, frozen=True, gc=False):
    """Drop all ready messages of a queue."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    no_wait: Bit = False


class QueuePurgeOk(Method, frozen=True, gc=False):
    """So many messages were dropped."""

    message_count: Long = 0


class QueueDelete(Method, frozen=True, gc=False):
    """Delete a queue with its messages and bindings."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


class QueueDeleteOk(Method, frozen=True, gc=False):
    """The queue is gone, and so many messages with it."""

    message_count: Long = 0


class QueueUnbind(Method, frozen=True, gc=True):
    """Undo a queue.bind."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString = ""
    arguments: FieldTable = {}


class QueueUnbindOk(Method, frozen=True, gc=False):
    """The binding is gone."""


# basic, class 60


class BasicQos(Method, frozen=True, gc=False):
    """Limit what may be outstanding; with ``global_`` that of all consumers of the channel together."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


class BasicQosOk(Method, frozen=True, gc=False):
    """The limits hold."""


class BasicConsume(Method, frozen=True, gc=True):
    """Start a consumer."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class BasicConsumeOk(Method, frozen=True, gc=False):
    """The consumer runs under this tag."""

    consumer_tag: ShortString


class BasicCancel(Method, frozen=True, gc=False):
    """End a consumer; from the server (RabbitMQ's) a notice that it has ended."""

    consumer_tag: ShortString
    no_wait: Bit = False


class BasicCancelOk(Method, frozen=True, gc=False):
    """The consumer has ended."""

    consumer_tag: ShortString


class BasicPublish(Method, frozen=True, gc=False):
    """Publish one message to an exchange; content follows."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, frozen=True, gc=False):
    """Return an undeliverable message to its publisher; content follows."""

    reply_code: Short
    reply_text: ShortString
    exchange: ShortString
    routing_key: ShortString


class BasicDeliver(Method, frozen=True, gc=False):
    """Deliver one message to a consumer; content follows."""

    consumer_tag: ShortString
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString


class BasicGet(Method, frozen=True, gc=False):
    """Ask a queue for one message."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortString
    no_ack: Bit = False


class BasicGetOk(Method, frozen=True, gc=False):
    """Here is one message, and so many remain; content follows."""

    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString
    message_count: Long = 0


class BasicGetEmpty(Method, frozen=True, gc=False):
    """The queue has no message."""

    reserved_1: ClassVar[ShortString] = ""


class BasicAck(Method, frozen=True, gc=False):
    """Accept one delivery, or all up to it; from the server (RabbitMQ's) a publish is confirmed."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, frozen=True, gc=False):
    """Reject one delivery."""

    delivery_tag: LongLong
    requeue: Bit = True


class BasicRecoverAsync(Method, frozen=True, gc=False):
    """Deliver again what is not acknowledged, without an answer; deprecated by the specification."""

    requeue: Bit = False


class BasicRecover(Method, frozen=True, gc=False):
    """Deliver again what is not acknowledged."""

    requeue: Bit = False


class BasicRecoverOk(Method, frozen=True, gc=False):
    """The recovery has begun."""


class BasicNack(Method, frozen=True, gc=False):
    """RabbitMQ's: reject one delivery, or all up to it; from the server a publish was refused."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


# confirm, class 85


class ConfirmSelect(Method, frozen=True, gc=False):
    """RabbitMQ's: have every publish on this channel confirmed."""

    no_wait: Bit = False


class ConfirmSelectOk(Method, frozen=True, gc=False):
    """RabbitMQ's: publishes are confirmed from here on."""


# tx, class 90


class TxSelect(Method, frozen=True, gc=False):
    """Make the channel transactional."""


class TxSelectOk(Method, frozen=True, gc=False):
    """The channel is transactional."""


class TxCommit(Method, frozen=True, gc=False):
    """Apply what was published and settled since the last commit."""


class TxCommitOk(Method, frozen=True, gc=False):
    """It is done."""


class TxRollback(Method, frozen=True, gc=False):
    """Drop what was published and settled since the last commit."""


class TxRollbackOk(Method, frozen=True, gc=False):
    """It is forgotten."""


Sender: TypeAlias = Literal["client", "server", "both"]


class Row(msgspec.Struct, frozen=True):
    """One method in the table: its numbers, and which side sends it."""

    method: type[Method]
    class_id: int
    method_id: int
    sender: Sender
    name: str
    replies: tuple[str, ...] = ()
    content: bool = False


def _ask(method: type[Method], class_id: int, method_id: int, sender: Sender, name: str, *replies: str) -> Row:
    return Row(method, class_id, method_id, sender, name, replies or (f"{name}-ok",))


METHODS: tuple[Row, ...] = (
    _ask(ConnectionStart, 10, 10, "server", "connection.start"),
    Row(ConnectionStartOk, 10, 11, "client", "connection.start-ok"),
    _ask(ConnectionSecure, 10, 20, "server", "connection.secure"),
    Row(ConnectionSecureOk, 10, 21, "client", "connection.secure-ok"),
    _ask(ConnectionTune, 10, 30, "server", "connection.tune"),
    Row(ConnectionTuneOk, 10, 31, "client", "connection.tune-ok"),
    _ask(ConnectionOpen, 10, 40, "client", "connection.open"),
    Row(ConnectionOpenOk, 10, 41, "server", "connection.open-ok"),
    _ask(ConnectionClose, 10, 50, "both", "connection.close"),
    Row(ConnectionCloseOk, 10, 51, "both", "connection.close-ok"),
    Row(ConnectionBlocked, 10, 60, "server", "connection.blocked"),
    Row(ConnectionUnblocked, 10, 61, "server", "connection.unblocked"),
    _ask(ConnectionUpdateSecret, 10, 70, "client", "connection.update-secret"),
    Row(ConnectionUpdateSecretOk, 10, 71, "server", "connection.update-secret-ok"),
    _ask(ChannelOpen, 20, 10, "client", "channel.open"),
    Row(ChannelOpenOk, 20, 11, "server", "channel.open-ok"),
    _ask(ChannelFlow, 20, 20, "both", "channel.flow"),
    Row(ChannelFlowOk, 20, 21, "both", "channel.flow-ok"),
    _ask(ChannelClose, 20, 40, "both", "channel.close"),
    Row(ChannelCloseOk, 20, 41, "both", "channel.close-ok"),
    _ask(AccessRequest, 30, 10, "client", "access.request"),
    Row(AccessRequestOk, 30, 11, "server", "access.request-ok"),
    _ask(ExchangeDeclare, 40, 10, "client", "exchange.declare"),
    Row(ExchangeDeclareOk, 40, 11, "server", "exchange.declare-ok"),
    _ask(ExchangeDelete, 40, 20, "client", "exchange.delete"),
    Row(ExchangeDeleteOk, 40, 21, "server", "exchange.delete-ok"),
    _ask(ExchangeBind, 40, 30, "client", "exchange.bind"),
    Row(ExchangeBindOk, 40, 31, "server", "exchange.bind-ok"),
    _ask(ExchangeUnbind, 40, 40, "client", "exchange.unbind"),
    Row(ExchangeUnbindOk, 40, 51, "server", "exchange.unbind-ok"),
    _ask(QueueDeclare, 50, 10, "client", "queue.declare"),
    Row(QueueDeclareOk, 50, 11, "server", "queue.declare-ok"),
    _ask(QueueBind, 50, 20, "client", "queue.bind"),
    Row(QueueBindOk, 50, 21, "server", "queue.bind-ok"),
    _ask(QueuePurge, 50, 30, "client", "queue.purge"),
    Row(QueuePurgeOk, 50, 31, "server", "queue.purge-ok"),
    _ask(QueueDelete, 50, 40, "client", "queue.delete"),
    Row(QueueDeleteOk, 50, 41, "server", "queue.delete-ok"),
    _ask(QueueUnbind, 50, 50, "client", "queue.unbind"),
    Row(QueueUnbindOk, 50, 51, "server", "queue.unbind-ok"),
    _ask(BasicQos, 60, 10, "client", "basic.qos"),
    Row(BasicQosOk, 60, 11, "server", "basic.qos-ok"),
    _ask(BasicConsume, 60, 20, "client", "basic.consume"),
    Row(BasicConsumeOk, 60, 21, "server", "basic.consume-ok"),
    _ask(BasicCancel, 60, 30, "both", "basic.cancel"),
    Row(BasicCancelOk, 60, 31, "both", "basic.cancel-ok"),
    Row(BasicPublish, 60, 40, "client", "basic.publish", content=True),
    Row(BasicReturn, 60, 50, "server", "basic.return", content=True),
    Row(BasicDeliver, 60, 60, "server", "basic.deliver", content=True),
    _ask(BasicGet, 60, 70, "client", "basic.get", "basic.get-ok", "basic.get-empty"),
    Row(BasicGetOk, 60, 71, "server", "basic.get-ok", content=True),
    Row(BasicGetEmpty, 60, 72, "server", "basic.get-empty"),
    Row(BasicAck, 60, 80, "both", "basic.ack"),
    Row(BasicReject, 60, 90, "client", "basic.reject"),
    Row(BasicRecoverAsync, 60, 100, "client", "basic.recover-async"),
    _ask(BasicRecover, 60, 110, "client", "basic.recover"),
    Row(BasicRecoverOk, 60, 111, "server", "basic.recover-ok"),
    Row(BasicNack, 60, 120, "both", "basic.nack"),
    _ask(ConfirmSelect, 85, 10, "client", "confirm.select"),
    Row(ConfirmSelectOk, 85, 11, "server", "confirm.select-ok"),
    _ask(TxSelect, 90, 10, "client", "tx.select"),
    Row(TxSelectOk, 90, 11, "server", "tx.select-ok"),
    _ask(TxCommit, 90, 20, "client", "tx.commit"),
    Row(TxCommitOk, 90, 21, "server", "tx.commit-ok"),
    _ask(TxRollback, 90, 30, "client", "tx.rollback"),
    Row(TxRollbackOk, 90, 31, "server", "tx.rollback-ok"),
)
