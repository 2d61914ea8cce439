"""A connection on a wire: its transport, as whom it works in a domain, what is logged of it, and how it ends."""

import logging
from math import inf
from time import time
from typing import ClassVar, Protocol

import trio

from triomq.actors import Supervisor, Turn
from triomq.core import Directory, Publisher, Session
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Connection
from triomq.endpoints.base.read_gates import ReadGates
from triomq.security import Access
from triomq.transports import LARGE_RECEIVE_SIZE, RECEIVE_SIZE, Transport

PATIENCE = 120.0
"""Seconds that a client may leave unread what it is sent, unless it has agreed to heartbeats: it may hold what others
want."""

_GOODBYE = 1.0
"""Seconds that a client gets to read our last words before the socket is shut."""


_LARGE_BODY = 512
"""Octets per message from which messages count as large."""

_SMALL_RECEIVE_SIZE = 16 * 1024
"""Octets that are read at once from a client that sends methods of a few octets each: to parse 64 KiB of the smallest
takes 50 ms."""

_TELLING = _SMALL_RECEIVE_SIZE // 2
"""Octets above which a chunk tells how much to read at once: it is half of the least that is asked for."""

_DENSE = 1_000
"""What a chunk of 64 KiB may be charged with before it counts as full of such methods."""

_BUDGET, _ROOM = "budget", "unfinished messages"
"""Gates that are the same for all."""


class StreamEngine(Protocol):
    """What all engines are."""

    reading_paused: bool

    @property
    def unfinished(self) -> int:
        """How many octets have come of messages that are not whole."""

    def receive_data(self, data: bytes) -> None:
        """Take octets from the peer."""


class StreamConnection(Connection):
    """Base of the actors of connections that a transport drives, in turns; what is said there is up to the protocols.

    Args:
        transport: The octets; owned from now on.
        engine: The protocol, in the server's role.
        broker: Domains and users.
    """

    log: ClassVar[logging.Logger]
    """Where its events go."""

    closed_event: ClassVar[str]
    """What its end is called there."""

    def __init__(self, transport: Transport, engine: StreamEngine, broker: BrokerContext) -> None:
        self.broker = broker
        self.gates = ReadGates(transport, engine)
        self.user = ""
        self.virtual_host = ""
        self.session: Session
        self.directory: Directory
        self.publisher: Publisher
        self.gone = False  # the client will send nothing more
        self.ending = ""  # why the connection is ending, once it is
        self._transport = transport
        self._wire = engine
        self._receive = engine.receive_data
        self._unfinished = 0  # octets, as the account of all connections has it
        self._turn: Turn
        self._since = trio.current_time()
        self._left = False  # everything is put back; only the transport's end is awaited
        self._linger_until = 0.0

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._transport.peer

    # What the transport calls

    def received(self, data: bytes) -> None:
        """Work off one chunk from the client, in a turn."""
        self.ref.run_in_turn(self._take, data)

    def drained(self) -> None:
        """Go on writing, in a turn."""
        self.ref.run_in_turn(self._write_more)

    def _take(self, data: bytes) -> None:
        if self._left:
            if not data:
                self._stop()
            return
        self._receive(data)
        self._work()
        if self._wire.unfinished or self._unfinished:
            self._note_unfinished()
        if len(data) > _TELLING:
            self._choose_appetite(len(data))

    def _choose_appetite(self, octets: int) -> None:
        """Choose how much is read at once from now on, by what a chunk has cost."""
        turn = self._turn
        if octets > RECEIVE_SIZE // 2:
            # Few messages in many octets are large ones: larger chunks then cost less, and hold nobody up.
            if (turn.spent + turn.charged) * _LARGE_BODY < octets:
                self._transport.receive_size = LARGE_RECEIVE_SIZE
            else:
                self._transport.receive_size = RECEIVE_SIZE if turn.charged < _DENSE else _SMALL_RECEIVE_SIZE
        elif turn.charged < _DENSE // 8:
            self._transport.receive_size = RECEIVE_SIZE

    def _work(self) -> None:
        """Work off what the engine has found, until the turn's budget is used up."""
        raise NotImplementedError

    def _write_more(self) -> None:
        """Go on where the transport had taken no more."""
        raise NotImplementedError

    # Messages that are not whole

    def _note_unfinished(self) -> None:
        """Tell the broker's account how much is here of messages that are not whole; see whether they may come."""
        self.judge_unfinished()
        octets = self._wire.unfinished
        if octets != self._unfinished:
            self._unfinished = octets
            self.broker.unfinished.note(self, octets)

    def judge_unfinished(self) -> None:
        """Refuse what has begun and may not come; let the client wait with what may come later."""

    @property
    def is_held_otherwise(self) -> bool:
        """Whether nothing is read for another reason than that unfinished messages take too much."""
        return self.gates.is_closed_beside(_ROOM)

    def wait_for_room(self) -> None:
        """Read nothing as long as unfinished messages take too much."""
        self.gates.close(_ROOM)

    def go_on_with_room(self) -> None:
        """Read again."""
        self.go_on_apart(_ROOM)

    def give_up_message(self, reason: str) -> None:
        """End the connection, since the rest of its message does not come."""
        trio.lowlevel.current_trio_token().run_sync_soon(self.ref.run_in_turn, self._give_up, reason)

    def _give_up(self, reason: str) -> None:
        if not self._left:
            self.refuse_unfinished(reason)
            self._note_unfinished()

    def refuse_unfinished(self, reason: str) -> None:
        """Say that too much is unfinished, and end."""
        raise NotImplementedError

    # When nothing is read

    def spend(self, pushes: int) -> None:
        """Count work against the turn's budget, by what it would be in queue pushes."""
        self._turn.charge(pushes)

    def go_on_later(self) -> None:
        """Let others have the loop, then go on with what is left; read nothing until then."""
        self.gates.close(_BUDGET)
        self.go_on_apart(_BUDGET)

    def go_on_apart(self, gate: str) -> None:
        """Open a gate in a turn of its own, since whoever calls this is in the middle of another."""
        trio.lowlevel.current_trio_token().run_sync_soon(self.ref.run_in_turn, self.go_on, gate)

    def go_on(self, gate: str) -> None:
        """Open a gate, and work off what was left when it was closed."""
        self.gates.open(gate)
        if not self._left:
            self._work()
            if self._unfinished:
                self._note_unfinished()

    # Whose it is

    def note_user(self) -> None:
        """Look at the user's record, now and when it has changed: until when the connection may last."""
        user = self.broker.users.get(self.user)
        if user is not None:
            self.last_until(inf if user.expires is None else trio.current_time() + user.expires - time())

    def join(self, session: Session, directory: Directory, virtual_host: str, access: Access) -> None:
        """Work in a domain from now on, as one more connection of a session, with the rights of its user."""
        self.session, self.directory, self.virtual_host = session, directory, virtual_host
        self.publisher = Publisher(directory, access, self._turn)
        self.broker.quotas.take(self.user, "connections")
        session.attach()

    def note(self, level: int, event: str, **fields: object) -> None:
        """Log an event with all that tells whose connection this is."""
        who = {
            "peer": self.peer,
            "user": self.user,
            "vhost": self.virtual_host,
            "connection": self.ref.name.removeprefix("connection-"),
        }
        known = {key: value for key, value in who.items() if value}
        self.log.log(level, event, extra={"fields": known | fields})

    # Ending

    @property
    def has_left(self) -> bool:
        """Whether everything is put back, and only the transport's end is awaited."""
        return self._left

    @property
    def is_written(self) -> bool:
        """Whether a client that has gone is owed nothing that waits for the transport."""
        return True

    def put_back(self) -> None:
        """Give back what is out, when the connection leaves its session; called once."""
        raise NotImplementedError

    def leave(self) -> None:
        """Put back what is out, let the session go, and say that nothing more will come.

        The client is given a while to close its side first: closing a socket with unread octets would reset it, and the
        client might never see our last words.
        """
        self.note_closed()
        self._let_go()
        self._transport.resume_reading()
        self._transport.end_sending()
        self._linger_until = trio.current_time() + _GOODBYE
        if self.gone and self.is_written:
            self._stop()
        else:
            self.reschedule()

    def note_closed(self) -> None:
        """Log the end."""
        # Who never came to work is of interest to nobody: something looked whether the port is open.
        level = logging.INFO if self.virtual_host else logging.DEBUG
        seconds = round(trio.current_time() - self._since, 3)
        self.note(level, self.closed_event, reason=self.ending, seconds=seconds)

    def note_cut(self) -> bool:
        """Log that the client was asked to go and has not gone, and tell so; nothing if only the socket is left."""
        if self._left:
            return False
        seconds = round(trio.current_time() - self._since, 3)
        self.note(logging.WARNING, "connection cut", reason="the client did not close in time", seconds=seconds)
        return True

    def _let_go(self) -> None:
        """Put back what is out and let the session go."""
        self._left = True
        self.broker.unfinished.forget(self)
        if self.virtual_host:
            self.put_back()
            self.virtual_host = ""
            self.broker.quotas.give(self.user, "connections")
            self.session.detach()

    def _stop(self) -> None:
        """End this actor; ``on_stop`` follows."""
        assert self.ref.parent is not None
        assert isinstance(self.ref.parent.actor, Supervisor)
        self.ref.parent.actor.stop_child_nowait(self.ref)

    def on_stop(self) -> None:
        """Close the transport, when the client has gone or the broker ends."""
        self.abandon()

    def abandon(self) -> None:
        """Put back what is out, and close the transport; also for the endpoint, after a crash."""
        self._let_go()
        self._transport.close()
