"""Direct reply-to: answers that go straight back to the channel that has asked (RabbitMQ's ``amq.rabbitmq.reply-to``).

A client consumes from a queue of that name, which is none, and publishes requests that name it in their property
``reply-to``. The broker writes a name there that it has made for this channel and that cannot be guessed, and whatever
is published to that name, by way of the default exchange, reaches the consumer.

Behind the name is a queue after all: in memory, its session's own, and gone with its one consumer. So replies are
routed, held back while the client does not read, and counted like all messages; to clients it looks as it does with
RabbitMQ.
"""

from typing import TYPE_CHECKING

from triomq.core import DeclareQueue, NoSuchQueue, QueueOptions, QueueState
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.content import REPLY_TO, is_reply_queue
from triomq.endpoints.declaring import generated_name
from triomq.protocols.amqp import BasicConsume, QueueDeclareOk

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel


_OPTIONS = QueueOptions(durable=False, exclusive=True, auto_delete=True)


def open_reply_queue(channel: "ServerChannel", method: BasicConsume) -> QueueState:
    """Declare the queue of a consumer of direct replies; it goes when the consumer does.

    Raises:
        AMQPRefusal: The channel has such a consumer already, or this one wants to acknowledge.
    """
    if channel.reply_consumer is not None and channel.reply_consumer.open:
        raise AMQPRefusal(406, "reply consumer already set")
    if not method.no_ack:
        raise AMQPRefusal(406, "reply consumer cannot acknowledge")
    connection = channel.connection
    name = generated_name(f"{REPLY_TO}.")
    return connection.ask_unguarded(connection.domain, DeclareQueue(name, _OPTIONS, connection.session))


def declared_reply_queue(channel: "ServerChannel", name: str) -> QueueDeclareOk | None:
    """ReplyCode a declare, passive or not, of a name for direct replies; None if the name is none.

    A server of requests may so ask whether its client still waits for an answer.

    Raises:
        NoSuchQueue: No client waits for replies under this name, or has ever done.
    """
    if not is_reply_queue(name):
        return None
    if name != REPLY_TO and name not in channel.connection.directory.queues:
        raise NoSuchQueue(name)
    return QueueDeclareOk(name, 0, 1)
