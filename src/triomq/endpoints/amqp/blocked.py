"""What a pressure means for one AMQP connection (RabbitMQ's connection.blocked).

Memory is made free by consuming alone. So a connection with something to consume or to settle should go on, and can if
it has asked for confirms: then what it publishes is answered by basic.nack. All others are not read from their first
publish on, and sent a notice, for nothing may overtake that publish: an ack that was read past it would settle an input
whose output might still be lost. A client that waits like this with unsettled messages holds up its own queue. After a
while it is closed, and what it had goes to others.

A disk that cannot be written is no reason to wait, since it may last for days: durable messages are refused.
"""

import logging
from math import inf
from typing import TYPE_CHECKING

import trio

from triomq.core import Pressure
from triomq.protocols.amqp import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPServerConnection

_REASON = Pressure.MEMORY.value  # RabbitMQ's word
_UNWRITABLE = Pressure.DISK.value

_PATIENCE = 30.0
"""Seconds that a connection with messages in its hands may wait for memory: a short alarm is over by then, and a queue
whose only consumer waits stands still no longer than that."""

GAVE_UP = (
    "low on memory: a publish has waited for 30 s, and with it what this connection has consumed; consume and publish "
    "on connections of their own, or use confirms"
)
"""The text for a client that has waited for so long."""


class Blocked:
    """Pauses and refuses publishers over a memory alarm; made by the connection, ends with it.

    Args:
        connection: The connection.
    """

    __slots__ = ("_connection", "_unwritable_sent", "due")

    def __init__(self, connection: "AMQPServerConnection") -> None:
        self._connection = connection
        self.due = inf
        """When a client that waits has waited so long that what it holds is to go to others."""
        self._unwritable_sent = False  # that the store cannot be written

    @property
    def can_make_room(self) -> bool:
        """Whether the client may take messages off a queue without asking for more."""
        return any(channel.can_make_room for channel in self._connection.open_channels.values())

    @property
    def is_to_wait(self) -> bool:
        """Whether the connection is to wait rather than publish: memory is short, and it can only add to it."""
        return self._connection.directory.memory.on and not self.can_make_room

    def begin(self, pressure: Pressure) -> None:
        """Tell the client that nothing is read, unless that takes moments alone."""
        connection = self._connection
        if pressure is Pressure.MEMORY:
            if self.can_make_room:
                self.due = trio.current_time() + _PATIENCE
                connection.reschedule()
            if connection.login.client_can("connection.blocked"):
                connection.engine.send_method(0, ConnectionBlocked(_REASON))
            connection.note(logging.WARNING, "connection blocked", reason=_REASON)

    def end(self, pressure: Pressure) -> None:
        """Tell the client that it is read again."""
        connection = self._connection
        self.due = inf
        if pressure is Pressure.MEMORY:
            if connection.login.client_can("connection.blocked"):
                connection.engine.send_method(0, ConnectionUnblocked())
            connection.note(logging.INFO, "connection unblocked")

    def take_due(self, now: float) -> bool:
        """Return whether the client's patience is over by now and it still holds something; only once."""
        if now < self.due:
            return False
        self.due = inf
        return self.can_make_room

    def forget(self) -> None:
        """Wait for nothing any longer."""
        self.due = inf
        self._connection.publisher.forget(self._writable)

    def send_unwritable(self) -> None:
        """Tell the client, once, that durable messages are refused, since the store cannot be written.

        It is read on: its acks make room.
        """
        connection = self._connection
        persistence = connection.directory.persistence
        assert persistence is not None
        if self._unwritable_sent:
            return
        self._unwritable_sent = True
        connection.note(logging.WARNING, "durable messages are refused", reason=str(persistence.journal.fault))
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionBlocked(_UNWRITABLE))
        persistence.when_writable(self._writable)

    def _writable(self) -> None:
        self._connection.ref.run_in_turn(self._send_writable)

    def _send_writable(self) -> None:
        connection = self._connection
        self._unwritable_sent = False
        if connection.has_left:
            return
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionUnblocked())
        connection.note(logging.INFO, "durable messages are taken again")
        connection.ref.touch()
