"""One connection to one broker, from the protocol header to the last octet: engine, transport and three small tasks.

    transport ──► received ──► engine ──► events ──► Line.handle, by channel number     reads: in the transport's task
    tasks ──► Line.publish, ask ──► engine ──► write ─┬─ at once ──────────► transport  writes
                                                      └─ _run_writer, soon ─► transport
    _run_timers: the engine's next deadline                                             timers

Rules:

- What comes is handled where it comes, in the task that reads, a chunk at a time and without waiting. So it is handled
  in the order of the wire, whatever the tasks do that wait for it.
- What is sent gathers until the tasks that are running have all had their turn, and leaves in one write. That is what
  the writer task is for: once rescheduled, it runs in Trio's next round, behind those that can run already. Only the
  first write since the broker has sent anything waits for no others, so that a single round trip costs no more than it
  must.
- Transports never wait. Publishing does (``held``), while the broker has blocked it or has not taken 256 KiB.
- Reading stops when consumers without a prefetch have not taken 4 MiB, unless a task waits for a reply: that may stand
  behind them on the same socket.
- A link ends once, with ``error``, and everything that waits fails with it. It never reconnects: its connection makes
  another one, and nothing old can be taken for something new.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import trio

from triomq.clients.amqp.acks import Acks
from triomq.clients.amqp.pending_reply import PendingReply
from triomq.clients.refusals import error_of
from triomq.clients.transport_link import BUFFERED_MOST, CLOSE_TIMEOUT, UNTAKEN_MOST, WRITE_AT, TransportLink
from triomq.errors import Disconnected, LimitExceeded, RemoteProtocolError, TriomqError
from triomq.protocols.amqp import (
    BROKER_METHODS,
    AMQPEngine,
    Closed,
    Connected,
    ConnectionBlocked,
    ConnectionUnblocked,
    ConnectionUpdateSecretOk,
    EndOfStream,
    Event,
    Failed,
    HeartbeatLost,
    Method,
    Received,
    Settings,
)
from triomq.transports import Poller, Transport

if TYPE_CHECKING:
    from triomq.clients.amqp.line import Line

AGAIN = frozenset({320, 541})
"""Reply codes of a close after which it makes sense to come back: the broker was asked to, or something broke in it."""

E = TypeVar("E", bound=Event)
_Handler: TypeAlias = "Callable[[Link, Event], None]"


class Link(TransportLink):
    """Made by its connection for one broker; ends once, with ``error``.

    Args:
        transport: Connected, and ours from now on.
        poller: Who watches it, where it is a plain socket.
        settings: For the engine.
        place: Where the broker is, for texts.
    """

    def __init__(self, transport: Transport, poller: Poller, settings: Settings, place: str) -> None:
        self.engine = AMQPEngine("client", now=trio.current_time(), settings=settings, methods=BROKER_METHODS)
        super().__init__(transport, poller, self.engine)
        self.place = place
        self.lines: dict[int, Line] = {}
        self.opened: PendingReply[Connected] = PendingReply()
        self.may_return = True
        """Whether it makes sense to connect again after this end."""
        self.fell_silent = False
        """Whether it has ended since no heartbeat came."""
        self.blocked: str | None = None
        self.held = False
        """Whether publishing must wait: the broker has blocked it, or takes no bytes."""
        self.may_publish = trio.lowlevel.ParkingLot()
        self.secrets: list[PendingReply[None]] = []
        self._untaken = 0
        self._full = False
        self._spoke = False
        self._unsettled: list[Acks] = []

    # Tasks

    def _begin(self) -> None:
        self._transport.start(self)
        self._flush()

    def _close(self) -> None:
        self.end(Disconnected(f"the connection to {self.place} was closed by this program"))

    # Sending

    def send(self, channel: int, method: Method) -> None:
        """Send a method; it leaves when the tasks that run now have had their turn."""
        self.engine.send_method(channel, method)
        self.write_later()

    def write(self, unsent: int = 0) -> None:
        """Write what waits: now if it is much or the first since the broker sent something, else with what follows."""
        if unsent >= WRITE_AT or not self._spoke:
            self._spoke = True
            self._flush()
        else:
            self.write_later()

    def settle_soon(self, acks: Acks) -> None:
        """Send a channel's acks when the tasks that run now have had their turn."""
        self._unsettled.append(acks)
        self.write_later()

    @trio.lowlevel.enable_ki_protection
    def _write_all(self) -> None:
        unsettled, self._unsettled = self._unsettled, []
        for acks in unsettled:
            acks.flush()
        self._flush()

    def _flush(self) -> None:
        """Hand all bytes to the transport, which never waits; publishing does, while it has not taken them."""
        unsent = self.engine.outbox.unsent
        pieces = self.engine.data_to_send()
        if pieces and not self._transport.send_nowait(pieces):
            self._untaken += unsent
            if self._untaken > UNTAKEN_MOST and not self._full:
                self._full = True
                self._hold()

    def drained(self) -> None:
        """Publish again; called by the transport."""
        self._untaken = 0
        if self._full:
            self._full = False
            self._hold()

    def _hold(self) -> None:
        """Hold publishing back, or let it go on."""
        held = self._full or self.blocked is not None
        if held is not self.held:
            self.held = held
            for line in self.lines.values():
                line.update()
            if not held:
                self.may_publish.unpark_all()

    # Reading

    @trio.lowlevel.enable_ki_protection
    def received(self, data: bytes) -> None:
        """Read bytes; called by the transport."""
        self.engine.receive_data(data)
        self._handle_events()
        self._spoke = False

    def _handle_events(self) -> None:
        lines = self.lines
        for event in self.engine.events():
            line = lines.get(getattr(event, "channel", 0))
            if line is not None:
                line.handle(event)
            else:
                handler = _HANDLERS.get(type(event))
                if handler is not None:
                    handler(self, event)
        if self.engine.outbox.unsent:
            self._flush()
        if self.engine.outbox.finished and self.error is None:
            self.end(Disconnected(f"the connection to {self.place} has ended"))
        if self.buffered > BUFFERED_MOST and not self._paused and not self.expects:
            self.pause(paused=True)

    @property
    def expects(self) -> bool:
        """Whether a task waits for a reply: then reading goes on, whatever else may come with it."""
        return bool(self.secrets) or any(line.expects for line in self.lines.values())

    # What concerns the connection as a whole

    def _connected(self, event: Connected) -> None:
        self.opened.resolve(event)
        self._timer.set()  # heartbeats begin

    def _method(self, event: Received) -> None:
        match event.method:
            case ConnectionBlocked(reason):
                self.blocked = reason
                self._hold()
            case ConnectionUnblocked():
                self.blocked = None
                self._hold()
            case ConnectionUpdateSecretOk() if self.secrets:
                self.secrets.pop(0).resolve(None)

    def _closed(self, event: Closed) -> None:
        if event.by_peer:
            self.may_return = event.code in AGAIN
            self.end(error_of(event.code, event.text))
        else:
            self.end(Disconnected(f"the connection to {self.place} was closed by this program"))

    def _failed(self, event: Failed) -> None:
        self.end(RemoteProtocolError(f"{self.place} does not keep to AMQP 0-9-1: {event.code} {event.text}"))

    def _silent(self, event: HeartbeatLost) -> None:
        self.fell_silent = True
        self.end(Disconnected(f"the broker at {self.place} has fallen silent: its heartbeats have stopped"))

    def _hung_up(self, event: EndOfStream) -> None:
        if self.opened.done:
            text = f"the broker at {self.place} has closed the connection without a word"
        else:
            text = (
                f"the broker at {self.place} hung up during the log-in without a word; see its log, the user, the "
                "password and the virtual host"
            )
        self.end(Disconnected(text))

    # The end

    def new_line_number(self) -> int:
        """Return the number of a channel that may be opened.

        Raises:
            LimitExceeded: As many are open as were agreed on.
        """
        for number in range(1, self.engine.channel_max + 1):
            if number not in self.lines:
                return number
        raise LimitExceeded(
            f"{len(self.lines)} channels are open on the connection to {self.place}, as many as it allows; close some, "
            "share them, or open another connection"
        )

    async def close(self) -> None:
        """Close in order; wait for the answer as long as a broker may take for it."""
        if self.error is None:
            self._write_all()
            self.engine.close(200, "Goodbye")
            self._flush()
            self._timer.set()
            with trio.move_on_after(CLOSE_TIMEOUT):
                await self.ended.wait()

    def end(self, error: TriomqError) -> None:
        """End, and fail everything that waits; only the first call counts."""
        if self.error is not None:
            return
        self.error = error
        self.ended.set()
        if not self.opened.done:
            self.opened.fail(error)
        for line in list(self.lines.values()):
            line.lost(error)
        self.lines.clear()
        for secret in self.secrets:
            secret.fail(error)
        self.may_publish.unpark_all()


def _row(kind: type[E], handler: Callable[[Link, E], None]) -> "tuple[type[Event], _Handler]":
    return kind, handler  # type: ignore[return-value]  # the key is the type of what the handler gets


_HANDLERS: "dict[type[Event], _Handler]" = dict(
    (
        _row(Connected, Link._connected),
        _row(Received, Link._method),
        _row(Closed, Link._closed),
        _row(Failed, Link._failed),
        _row(HeartbeatLost, Link._silent),
        _row(EndOfStream, Link._hung_up),
    )
)
