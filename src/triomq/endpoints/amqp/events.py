"""What a connection does for each event of its engine, as a table: log-in, channels, methods, and the end."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from triomq.core import Outcome, Restarting, UnknownDelivery
from triomq.endpoints.amqp.answers import HARD_CODES, Answer, AnswerError, answer_to
from triomq.endpoints.amqp.channel import Channel
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.endpoints.amqp.login import challenge_answered, login_requested, open_requested, secret_updated
from triomq.endpoints.amqp.permissions import require_write
from triomq.errors import Refused
from triomq.protocols.amqp import (
    BROKER_METHODS,
    AckRun,
    BasicPublish,
    ChallengeAnswered,
    ChannelClosed,
    ChannelCloseOk,
    ChannelFailed,
    ChannelOpened,
    ChannelOpenOk,
    Closed,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    EndOfStream,
    Event,
    Failed,
    HeartbeatLost,
    LoginRequested,
    Method,
    OpenRequested,
    PublishRun,
    Received,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPConnection

_OPEN_COST = 20
"""What opening a channel counts against the turn's budget, in queue pushes: it takes some 40 µs."""


# Channels


def _channel_opened(connection: "AMQPConnection", event: ChannelOpened) -> None:
    quotas = connection.broker.quotas
    if not quotas.has_room(connection.user, "channels"):
        allowed = f"maximum allowed user limit of ({quotas.limit(connection.user, 'channels')})"
        text = f"number of channels opened for user '{connection.user}' has reached the {allowed}"
        fail(connection, 530, text)
        connection.engine.close(530, text, 20, 10)
        return
    quotas.take(connection.user, "channels")
    connection.spend(_OPEN_COST)
    connection.channels[event.channel] = Channel(connection, event.channel)
    connection.engine.send_method(event.channel, ChannelOpenOk())


def _channel_closed(connection: "AMQPConnection", event: ChannelClosed) -> None:
    channel = connection.channels.get(event.channel)
    if channel is not None:
        channel.publisher.confirm()  # what waits for the disk yet is not waited for
    connection.end_channel(event.channel)
    if event.by_peer:
        connection.engine.send_method(event.channel, ChannelCloseOk())


def _channel_failed(connection: "AMQPConnection", event: ChannelFailed) -> None:
    connection.note(logging.INFO, "channel failed", channel=event.channel, code=event.code, reason=event.text)
    connection.end_channel(event.channel)


def _publish_run(connection: "AMQPConnection", event: PublishRun) -> None:
    channel = connection.channels.get(event.channel)
    if channel is None:
        return
    try:
        channel.publisher.publish(event)
    except Restarting:
        raise
    except AnswerError as error:
        _refuse(channel, error.answer, event.method)
    except Refused as refused:
        _refuse(channel, answer_to(refused, connection.virtual_host, "exchange"), event.method)


def begin_publish(connection: "AMQPConnection", number: int, method: BasicPublish) -> None:
    """Refuse a publish whose content is still to come, if the user may not publish there."""
    channel = connection.channels.get(number)
    if channel is not None:
        try:
            require_write(channel, "exchange", method.exchange)
        except AnswerError as error:
            _refuse(channel, error.answer, method)


def _ack_run(connection: "AMQPConnection", event: AckRun) -> None:
    channel = connection.channels.get(event.channel)
    if channel is None:
        return
    try:
        channel.unsettled.settle_each(event.tags, Outcome.ACCEPT)
    except UnknownDelivery as refused:
        _refuse_numbered(channel, answer_to(refused, connection.virtual_host, "queue"), (60, 80))


def _received(connection: "AMQPConnection", event: Received) -> None:
    """Let the method's handler answer; a refusal closes the channel or the connection."""
    channel = connection.channels.get(event.channel)
    if channel is None:
        _received_control(connection, event)
        return
    persistence = connection.directory.persistence
    sync_points = 0 if persistence is None else persistence.sync_points
    try:
        HANDLERS[type(event.method)](channel, event.method)
        if persistence is not None and persistence.sync_points > sync_points:
            connection.hold_replies(persistence)
    except Restarting:
        raise
    except AnswerError as error:
        _refuse(channel, error.answer, event.method)
    except Refused as refused:
        _refuse(channel, answer_to(refused, connection.virtual_host, _resource(event.method)), event.method)


def _received_control(connection: "AMQPConnection", event: Received) -> None:
    """Answer what comes on channel 0; methods on a channel that is closing are dropped."""
    if isinstance(event.method, ConnectionUpdateSecret):
        secret_updated(connection, event.method)


# Refusals


def _refuse(channel: Channel, answer: Answer, method: Method) -> None:
    row = BROKER_METHODS.by_type[type(method)].row
    _refuse_numbered(channel, answer, (row.class_id, row.method_id))


def _refuse_numbered(channel: Channel, answer: Answer, numbers: tuple[int, int]) -> None:
    connection, (class_id, method_id) = channel.connection, numbers
    if answer.code in HARD_CODES:
        fail(connection, answer.code, answer.text)
        connection.engine.close(answer.code, answer.text, class_id, method_id)
    else:
        # What was done on the channel before is said before it is closed.
        channel.publisher.confirm()
        _channel_failed(connection, ChannelFailed(channel.number, answer.code, answer.text, class_id, method_id))
        connection.engine.close_channel(channel.number, answer.code, answer.text, class_id, method_id)


def undeliverable(channel: Channel, answer: Answer) -> None:
    """Refuse what is being delivered to a channel, since it cannot be encoded for it."""
    _refuse_numbered(channel, answer, (60, 60))


def unacknowledged(channel: Channel, answer: Answer) -> None:
    """Refuse a channel whose client has left deliveries unsettled for too long; no method is to blame."""
    _refuse_numbered(channel, answer, (0, 0))


# The end


def _failed(connection: "AMQPConnection", event: Failed) -> None:
    fail(connection, event.code, event.text)


def fail(connection: "AMQPConnection", code: int, text: str) -> None:
    """End all channels of a connection that fails; the engine says why."""
    connection.note(logging.WARNING, "connection failed", code=code, reason=text)
    connection.ending = connection.ending or text
    connection.end_channels()


def _closed(connection: "AMQPConnection", event: Closed) -> None:
    connection.ending = connection.ending or event.text or f"closed by the {'client' if event.by_peer else 'broker'}"
    if event.by_peer:
        for channel in connection.channels.values():
            channel.publisher.confirm()
        connection.end_channels()
        connection.closed_by_client = True
        connection.engine.send_method(0, ConnectionCloseOk())


def _heartbeat_lost(connection: "AMQPConnection", event: HeartbeatLost) -> None:
    connection.ending = connection.ending or "no heartbeat came"


def _end_of_stream(connection: "AMQPConnection", event: EndOfStream) -> None:
    connection.gone = True
    connection.ending = connection.ending or "the client went away without closing"


def _resource(method: Method) -> str:
    return "exchange" if type(method).__name__.startswith("Exchange") else "queue"


EVENTS: dict[type[Event], Callable[["AMQPConnection", Event], None]] = cast(
    "dict[type[Event], Callable[[AMQPConnection, Event], None]]",
    {
        AckRun: _ack_run,
        ChallengeAnswered: challenge_answered,
        ChannelClosed: _channel_closed,
        ChannelFailed: _channel_failed,
        ChannelOpened: _channel_opened,
        Closed: _closed,
        EndOfStream: _end_of_stream,
        Failed: _failed,
        HeartbeatLost: _heartbeat_lost,
        LoginRequested: login_requested,
        OpenRequested: open_requested,
        PublishRun: _publish_run,
        Received: _received,
    },
)
"""Event to function; the rows pair each function with the one type that it is written for."""
