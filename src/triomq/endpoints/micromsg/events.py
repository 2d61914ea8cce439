"""What a connection does for each event of its engine, as a table."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from triomq.endpoints.micromsg.login import handshake_completed, sasl_responded, sasl_started
from triomq.protocols.micromsg import (
    EndOfStream,
    ErrorReceived,
    Event,
    ExtensionReceived,
    Failed,
    HandshakeCompleted,
    MessagesAcked,
    MicroMessageRun,
    SASLResponded,
    SASLStarted,
    Silent,
    SubscribeAsked,
    UnsubscribeAsked,
)

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection


def _message_run(connection: "MicroMsgServerConnection", event: MicroMessageRun) -> None:
    connection.intake.take(event)


def _messages_acked(connection: "MicroMsgServerConnection", event: MessagesAcked) -> None:
    connection.sender.acked(event.up_to)
    connection.end_when_done()


def _subscribe_asked(connection: "MicroMsgServerConnection", event: SubscribeAsked) -> None:
    connection.subscriber.subscribe(event)
    connection.answer(event.number, 200)


def _unsubscribe_asked(connection: "MicroMsgServerConnection", event: UnsubscribeAsked) -> None:
    connection.subscriber.unsubscribe(event)
    connection.answer(event.number, 200)


def _extension_received(connection: "MicroMsgServerConnection", event: ExtensionReceived) -> None:
    """Pass over what the broker has not agreed to mean anything by."""


def _error_received(connection: "MicroMsgServerConnection", event: ErrorReceived) -> None:
    connection.note(logging.WARNING, "the client reports an error", code=event.code, reason=event.text)
    connection.ending = f"the client reports: {event.text}"


def _failed(connection: "MicroMsgServerConnection", event: Failed) -> None:
    connection.note(logging.WARNING, "connection failed", code=event.code, reason=event.text)
    connection.ending = event.text


def _silent(connection: "MicroMsgServerConnection", event: Silent) -> None:
    connection.mark_lost("the client is silent")


def _end_of_stream(connection: "MicroMsgServerConnection", event: EndOfStream) -> None:
    if event.unfinished:
        connection.note(logging.WARNING, "a frame was not finished", bytes=event.unfinished)
    connection.ending = connection.ending or "closed by the client"


EVENTS: dict[type, Callable[["MicroMsgServerConnection", Event], None]] = cast(
    "dict[type, Callable[[MicroMsgServerConnection, Event], None]]",
    {
        EndOfStream: _end_of_stream,
        ErrorReceived: _error_received,
        ExtensionReceived: _extension_received,
        Failed: _failed,
        HandshakeCompleted: handshake_completed,
        MessagesAcked: _messages_acked,
        MicroMessageRun: _message_run,
        SASLResponded: sasl_responded,
        SASLStarted: sasl_started,
        Silent: _silent,
        SubscribeAsked: _subscribe_asked,
        UnsubscribeAsked: _unsubscribe_asked,
    },
)
"""Event to function; the rows pair each function with the type that it is written for."""
