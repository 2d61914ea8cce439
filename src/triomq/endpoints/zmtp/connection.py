"""One connection of a ZeroMQ peer: an engine, a transport, and what waits in between; no client, and no user's work.

    transport ── a chunk ──> received ── engine ──> owner.messages_received(…)      a thousand frames at a time
    owner ── send_all ──> engine ──> transport                                     one write for each call

Rules:

- Nothing is read while something has come that was not read: others have their turn in between.
- What the transport does not take waits in the engine, counted by ``unsent``; it is for the owner to send no more then.
- Octets of messages that are not whole stand in the account of all connections of the broker (``Unfinished``), which
  may let this one wait.
- The last words are to be read: ERROR and what clients say as they go are followed by the end of the stream, and for a
  second the peer may close its side first.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from triomq.endpoints.base.read_gates import ReadGates
from triomq.protocols.zmtp import (
    EndOfStream,
    ErrorReceived,
    Failed,
    Frames,
    KeyShown,
    LoginRequested,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
    ZMTPServerEngine,
)
from triomq.transports import Transport

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint

_log = logging.getLogger("triomq.endpoints")

_LINGER: Final = 1.0
"""Seconds that a peer gets to read our last words before the socket is closed."""

_MORE, _ROOM, _WORK = "more", "unfinished messages", "work"
"""Gates."""


class Behind(Protocol):
    """Who may be behind with what has come."""

    @property
    def is_behind(self) -> bool:
        """Whether some of it waits for a turn of its own."""


class ConnectionOwner(Protocol):
    """Who has connections made."""

    def login_requested(self, connection: "ZMTPConnection", event: LoginRequested) -> None:
        """Judge a password; ``connection.engine`` is to be answered, and then ``connection.work_off`` called."""

    def key_shown(self, connection: "ZMTPConnection", event: KeyShown) -> None:
        """Judge a key, and answer ``connection.engine``."""

    def opened(self, connection: "ZMTPConnection", event: Opened) -> None:
        """Take a connection, which may send from now on, or ``end`` it."""

    def messages_received(self, connection: "ZMTPConnection", messages: list[Frames]) -> None:
        """Do what messages want."""

    def topic_subscribed(self, connection: "ZMTPConnection", topic: bytes) -> None:
        """Keep a subscription, if that may be."""

    def topic_cancelled(self, connection: "ZMTPConnection", topic: bytes) -> None:
        """Forget one."""

    def blocked(self, connection: "ZMTPConnection") -> None:
        """Know that the peer has not taken everything."""

    def drained(self, connection: "ZMTPConnection") -> None:
        """Know that it has now."""

    def gone(self, connection: "ZMTPConnection") -> None:
        """Forget a connection: nothing comes from it any more, and nothing can be sent."""

    def closed(self, connection: "ZMTPConnection") -> None:
        """Know that also its socket is closed."""


class ZMTPConnection:
    """Made by its acceptor, the driver of its transport, and gone with that.

    Args:
        transport: The octets; owned from now on.
        engine: The protocol, in the server's role.
        endpoint: Whose timers and whose account are used.
        owner: Who does what the peer wants.
    """

    __slots__ = (
        "_endpoint",
        "_gates",
        "_in_transport",
        "_is_over",
        "_may_write",
        "_owner",
        "_peer_has_ended",
        "_progress",
        "_rings_at",
        "_stuck_since",
        "_transport",
        "_unfinished",
        "engine",
        "identity",
        "is_stranger",
        "login",
        "user",
    )

    def __init__(
        self, transport: Transport, engine: ZMTPServerEngine, endpoint: "Endpoint", owner: ConnectionOwner
    ) -> None:
        self.engine = engine
        self.identity = b""
        """By which it is found; empty before it is open."""
        self.user = ""
        """As whom it was let in by the mechanism; empty with NULL."""
        self.login = ""
        """What clients on it are told of that."""
        self.is_stranger = True
        """Whether it counts among those that are not open yet."""
        self._transport = transport
        self._endpoint = endpoint
        self._owner = owner
        self._gates: ReadGates | None = None
        self._unfinished = 0  # octets, as the account of all connections has it
        self._may_write = True  # whether the transport has taken everything so far
        self._in_transport = 0  # octets that it was given the last time, if it has not
        self._progress = 0  # the transport's, when that was looked at
        self._stuck_since = 0.0
        self._rings_at: float | None = None
        self._is_over = False
        self._peer_has_ended = False

    @property
    def peer(self) -> str:
        """Where it comes from: an address with a port, or a word for peers without one."""
        return self._transport.peer

    @property
    def address(self) -> str:
        """The same without the port."""
        return address_of(self._transport.peer)

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_over

    def start(self) -> None:
        """Greet, and read."""
        self._transport.start(self)
        self._flush()
        self._reschedule()

    # What the transport calls

    def received(self, data: bytes) -> None:
        """Work off one chunk."""
        if not data:
            self._peer_has_ended = True
        if self._is_over:
            if not data:
                self._close()
            return
        self.engine.receive_data(data)
        self.work_off()

    def drained(self) -> None:
        """Go on writing."""
        self._may_write, self._in_transport = True, 0
        self._flush()
        if self._may_write:
            if self._is_over and self._peer_has_ended:
                self._close()
            elif not self._is_over:
                self._owner.drained(self)

    def work_off(self) -> None:
        """Do what has come, as far as one turn goes."""
        if self._is_over:
            return
        for event in self.engine.events():
            _HANDLERS[type(event)](self, event)
        self._flush()
        if self._is_over:
            return
        if self.engine.outbox.finished:
            self._end()
            return
        self._note_unfinished()
        self._reschedule()
        if self.engine.has_more:
            self._close_gate(_MORE)
            self._endpoint.start_task(self._go_on_later)

    async def _go_on_later(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_over:
            self.work_off()
            if not self.engine.has_more and not self._is_over:
                self._open_gate(_MORE)

    def wait_for(self, client: Behind) -> None:
        """Read nothing as long as a client is behind with what has come."""
        self._close_gate(_WORK)
        self._endpoint.start_task(self._wait_for, client)

    async def _wait_for(self, client: Behind) -> None:
        while client.is_behind and not self._is_over:
            await trio.lowlevel.checkpoint()  # it has its next turn meanwhile
        if not self._is_over:
            self._open_gate(_WORK)

    # Events

    def _ask_login(self, event: LoginRequested) -> None:
        self._owner.login_requested(self, event)

    def _ask_key(self, event: KeyShown) -> None:
        self._owner.key_shown(self, event)

    def _open(self, event: Opened) -> None:
        self._owner.opened(self, event)

    def _hand_on(self, event: MessagesReceived) -> None:
        if not self._is_over:  # else another connection has taken its place
            self._owner.messages_received(self, event.messages)

    def _subscribe(self, event: TopicSubscribed) -> None:
        self._owner.topic_subscribed(self, event.topic)

    def _cancel(self, event: TopicCancelled) -> None:
        self._owner.topic_cancelled(self, event.topic)

    def _hear_error(self, event: ErrorReceived) -> None:
        self.note(logging.INFO, "connection ended", reason=f"the peer says: {event.reason}")

    def _fail(self, event: Failed) -> None:
        level = logging.INFO if event.code in ("UNFIT", "SILENT") else logging.WARNING
        self.note(level, "connection ended", reason=event.text)

    def _see_end(self, event: EndOfStream) -> None:
        self.note(logging.DEBUG, "connection ended", reason="the peer has closed it")

    def note(self, level: int, event: str, **fields: object) -> None:
        """Log an event with all that tells whose it is."""
        known = {"endpoint": self._endpoint.ref.name, "peer": self.peer} | ({"user": self.user} if self.user else {})
        _log.log(level, event, extra={"fields": known | fields})

    # When nothing is read

    def _close_gate(self, gate: str) -> None:
        if self._gates is None:
            self._gates = ReadGates(self._transport, self.engine)
        self._gates.close(gate)

    def _open_gate(self, gate: str) -> None:
        if self._gates is not None:
            self._gates.open(gate)
            self._reschedule()

    # Messages that are not whole

    def _note_unfinished(self) -> None:
        size = self.engine.unfinished
        if size != self._unfinished:
            self._unfinished = size
            self._endpoint.context.unfinished.note(self, size)

    @property
    def is_held_otherwise(self) -> bool:
        """Whether nothing is read for another reason than that unfinished messages take too much."""
        return self._gates is not None and self._gates.is_closed_beside(_ROOM)

    def wait_for_room(self) -> None:
        """Read nothing as long as unfinished messages take too much."""
        self._close_gate(_ROOM)

    def go_on_with_room(self) -> None:
        """Read again."""
        self._open_gate(_ROOM)

    def give_up_message(self, reason: str) -> None:
        """End the connection, since the rest of its message does not come."""
        if not self._is_over:
            self.note(logging.WARNING, "connection ended", reason=reason)
            self.end()

    # Writing

    def send_all(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Send messages, or let them wait for the peer."""
        self.engine.send_all(messages)
        self._flush()

    def _flush(self) -> None:
        if not self._may_write or not self.engine.outbox.unsent:
            return
        size = self.engine.outbox.unsent
        if not self._transport.send_nowait(self.engine.data_to_send()):
            self._may_write, self._in_transport = False, size
            self._progress = self._transport.progress
            self._stuck_since = trio.current_time()
            if not self._is_over:
                self._owner.blocked(self)

    @property
    def unsent(self) -> int:
        """How many octets wait for the peer."""
        if self._may_write:
            return 0
        return self.engine.outbox.unsent + max(self._in_transport - (self._transport.progress - self._progress), 1)

    def stuck_for(self, now: float) -> float:
        """Return for how many seconds the peer has taken nothing of what waits; to be asked now and then."""
        if self._may_write:
            return 0.0
        if (progress := self._transport.progress) != self._progress:
            self._in_transport = max(self._in_transport - (progress - self._progress), 1)
            self._progress, self._stuck_since = progress, now
        return now - self._stuck_since

    # Time

    def _reschedule(self) -> None:
        if self._is_over:
            return
        when = self.engine.next_timer()
        if when != self._rings_at:
            self._rings_at = when
            self._endpoint.timers.set(self, inf if when is None else when, self._ring)

    def _ring(self, now: float) -> None:
        self._rings_at = None
        if self._is_over:
            self._close()
        else:
            self.engine.handle_timer(now)
            self.work_off()

    # The end

    def end(self) -> None:
        """End the connection, when the peer has had a while to read what it was sent."""
        if not self._is_over:
            self.engine.close()
            self._end()

    def _end(self) -> None:
        self._is_over = True
        self._owner.gone(self)
        self._endpoint.context.unfinished.forget(self)
        if self._peer_has_ended:
            self._close()
            return
        self._flush()
        self._transport.resume_reading()
        self._transport.end_sending()
        self._endpoint.timers.set(self, trio.current_time() + _LINGER, self._ring)

    def cut(self) -> None:
        """Close the socket at once."""
        if not self._is_over:
            self._is_over = True
            self._owner.gone(self)
            self._endpoint.context.unfinished.forget(self)
        self._close()

    def _close(self) -> None:
        self._endpoint.timers.discard(self)
        self._transport.end_sending()
        self._transport.close()
        self._owner.closed(self)


_HANDLERS: Final[dict[type, Callable[[ZMTPConnection, Any], None]]] = {
    LoginRequested: ZMTPConnection._ask_login,
    KeyShown: ZMTPConnection._ask_key,
    Opened: ZMTPConnection._open,
    MessagesReceived: ZMTPConnection._hand_on,
    TopicSubscribed: ZMTPConnection._subscribe,
    TopicCancelled: ZMTPConnection._cancel,
    ErrorReceived: ZMTPConnection._hear_error,
    Failed: ZMTPConnection._fail,
    EndOfStream: ZMTPConnection._see_end,
}
"""What each event does."""


def address_of(peer: str) -> str:
    """Return the address in a transport's ``peer``; empty if it has none."""
    return peer.rpartition(":")[0].strip("[]")
