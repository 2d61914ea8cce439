"""What a connection does for each event of its engine, as a table: log-in, channels, methods, and the end."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from triomq.endpoints.amqp.channel import ServerChannel, settle_run
from triomq.endpoints.amqp.login import challenge_answered, login_requested, open_requested, secret_updated
from triomq.endpoints.amqp.permissions import require_write
from triomq.endpoints.amqp.publishing import publish_mix, publish_run
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.base.client import CloseClient
from triomq.protocols.amqp import (
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
    OpenRequested,
    PublishMix,
    PublishRun,
    Received,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPServerConnection

_OPEN_COST = 20
"""What opening a channel counts against the turn's budget, in queue pushes: it takes some 40 µs."""


# Channels


def _channel_opened(connection: "AMQPServerConnection", event: ChannelOpened) -> None:
    quotas = connection.context.quotas
    if not quotas.has_room(connection.user, "channels"):
        allowed = f"maximum allowed user limit of ({quotas.limit(connection.user, 'channels')})"
        text = f"number of channels opened for user '{connection.user}' has reached the {allowed}"
        connection.fail(530, text, 20, 10)
        return
    quotas.take(connection.user, "channels")
    connection.system.turn.charge(_OPEN_COST)
    connection.open_channels[event.channel] = ServerChannel(connection, event.channel)
    connection.engine.send_method(event.channel, ChannelOpenOk())


def _channel_closed(connection: "AMQPServerConnection", event: ChannelClosed) -> None:
    channel = connection.open_channels.get(event.channel)
    if channel is not None:
        channel.publisher.confirm()  # what waits for the disk yet is not waited for
    connection.end_channel(event.channel)
    if event.by_peer:
        connection.engine.send_method(event.channel, ChannelCloseOk())


def _channel_failed(connection: "AMQPServerConnection", event: ChannelFailed) -> None:
    connection.note(logging.INFO, "channel failed", channel=event.channel, code=event.code, reason=event.text)
    connection.end_channel(event.channel)


def begin_publish(connection: "AMQPServerConnection", number: int, method: BasicPublish) -> None:
    """Refuse a publish whose content is still to come, if the user may not publish there."""
    channel = connection.open_channels.get(number)
    if channel is not None:
        try:
            require_write(channel, "exchange", method.exchange)
        except AMQPRefusal as error:
            connection.refuse_begun(channel, error, method)


def _received(connection: "AMQPServerConnection", event: Received) -> None:
    """Call the method's handler; nothing is written before the store has what that has recorded."""
    channel = connection.open_channels.get(event.channel)
    if channel is None:
        _received_control(connection, event)
        return
    persistence = connection.directory.persistence
    sync_points = 0 if persistence is None else persistence.sync_points
    connection.handlers[type(event.method)](channel, event.method)
    if persistence is not None and persistence.sync_points > sync_points:
        connection.hold_replies(persistence)


def _received_control(connection: "AMQPServerConnection", event: Received) -> None:
    """ReplyCode what comes on channel 0; methods on a channel that is closing are dropped."""
    if isinstance(event.method, ConnectionUpdateSecret):
        secret_updated(connection, event.method)


# The end


def _failed(connection: "AMQPServerConnection", event: Failed) -> None:
    connection.note_failure(event.code, event.text)


def _closed(connection: "AMQPServerConnection", event: Closed) -> None:
    connection.ending = connection.ending or event.text or f"closed by the {'client' if event.by_peer else 'broker'}"
    if event.by_peer:
        for channel in connection.open_channels.values():
            channel.publisher.confirm()
        connection.end_channels()
        connection.closed_by_client = True
        connection.engine.send_method(0, ConnectionCloseOk())


def _heartbeat_lost(connection: "AMQPServerConnection", event: HeartbeatLost) -> None:
    """End with all direct connections: a feed's client says nothing there, so nothing else shows that it is gone."""
    connection.mark_lost("no heartbeat came")
    for direct in connection.direct:
        direct.tell_nowait(CloseClient("no heartbeat came on its principal connection"))


def _end_of_stream(connection: "AMQPServerConnection", event: EndOfStream) -> None:
    reason = "the client went away without closing"
    if not connection.ending and connection.has_outstanding:
        connection.mark_lost(reason)
    connection.ending = connection.ending or reason


EVENTS: dict[type[Event], Callable[["AMQPServerConnection", Event], None]] = cast(
    "dict[type[Event], Callable[[AMQPServerConnection, Event], None]]",
    {
        AckRun: settle_run,
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
        PublishMix: publish_mix,
        PublishRun: publish_run,
        Received: _received,
    },
)
"""Event to function; the rows pair each function with the one type that it is written for."""
