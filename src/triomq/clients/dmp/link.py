"""One direct connection to one broker: engine, transport and small tasks; forked off an AMQP connection."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from triomq.clients.amqp.pending_reply import PendingReply, fresh
from triomq.clients.transport_link import UNTAKEN_MOST, WRITE_AT, TransportLink
from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    NotFound,
    Refused,
    RemoteProtocolError,
    TriomqError,
)
from triomq.protocols.amqp import DIRECT_PROPERTY
from triomq.protocols.dmp import (
    LATE,
    DMPEngine,
    EndOfStream,
    Event,
    Failed,
    MessageRun,
    Ready,
    RefusalReceived,
    Settings,
    Silent,
    Target,
)
from triomq.transports import Poller, RawSocket, StreamTransport, Transport

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel

_ERRORS: dict[int, type[TriomqError]] = {
    402: AccessRefused,
    403: AccessRefused,
    404: NotFound,
    502: RemoteProtocolError,
    503: RemoteProtocolError,
    530: LimitExceeded,
}


class DirectLink(TransportLink):
    """Made by ``open_link``, ends with its block, or earlier with ``error``.

    Args:
        transport: Connected, and ours from now on.
        poller: Who watches it, where it is a plain socket.
        engine: The protocol, in the client's role.
        place: Where the broker is, for texts.
        take: Called with each run of messages.
    """

    def __init__(
        self, transport: Transport, poller: Poller, engine: DMPEngine, place: str, take: Callable[[MessageRun], None]
    ) -> None:
        super().__init__(transport, poller, engine)
        self.engine = engine
        self.opened: PendingReply[Ready] = PendingReply()
        self.full = False
        """Whether publishing must wait: the broker takes no bytes."""
        self.may_publish = trio.lowlevel.ParkingLot()
        self.on_end: Callable[[], None] | None = None
        self._place = place
        self._take = take
        self._untaken = 0
        self._finishing = False
        self.finished_well = False
        """Whether it has ended as this program wanted it to, and the broker has read everything."""
        self._drained = trio.Event()

    def _begin(self) -> None:
        self._transport.start(self)

    def _close(self) -> None:
        self.end(Disconnected(f"the direct connection to {self._place} was closed by this program"))

    # Sending

    def _write_all(self) -> None:
        self.flush()

    def write(self) -> None:
        """Write what waits: now if it is much, else with what other tasks add."""
        if self.engine.outbox.unsent >= WRITE_AT:
            self.flush()
        else:
            self.write_later()

    @trio.lowlevel.enable_ki_protection
    def flush(self) -> None:
        """Hand all bytes to the transport, which never waits; publishing does, while it has not taken them."""
        unsent = self.engine.outbox.unsent
        pieces = self.engine.data_to_send()
        if pieces and not self._transport.send_nowait(pieces):
            self._untaken += unsent
            self.full = self._untaken > UNTAKEN_MOST

    def drained(self) -> None:
        """Publish again; called by the transport."""
        self._untaken = 0
        self._drained.set()
        if self.full:
            self.full = False
            self.may_publish.unpark_all()

    def check(self) -> None:
        """Raise what the connection has ended with, if it has."""
        if self.error is not None:
            raise fresh(self.error)

    async def finish(self) -> None:
        """Send everything, end the stream, and wait until the broker has read all of it."""
        if self.error is not None:
            return
        self.flush()
        self._finishing = True
        if isinstance(self._transport, StreamTransport):
            # TLS has no half-closed streams. What has left arrives, unless something breaks on the way.
            self._drained = trio.Event()
            self._transport.notify_drained()
            await self._drained.wait()
            self.end(self._error_of(EndOfStream()))
        else:
            self._transport.end_sending()
            await self.ended.wait()

    # Reading

    @trio.lowlevel.enable_ki_protection
    def received(self, data: bytes) -> None:
        """Read bytes; called by the transport."""
        self.engine.receive_data(data)
        self._handle_events()

    def _handle_events(self) -> None:
        for event in self.engine.events():
            if isinstance(event, MessageRun):
                self._take(event)
            elif isinstance(event, Ready):
                self.opened.resolve(event)
                self._timer.set()  # null messages are due from now on
            else:
                self.end(self._error_of(event))
        self.flush()

    def _error_of(self, event: Event) -> TriomqError:
        place = self._place
        match event:
            case RefusalReceived(402, text) | Failed(402, text) if LATE in text:
                return Disconnected(f"no direct connection to {place}: {text}; see whether the network is slow")
            case RefusalReceived(code, text):
                return _ERRORS.get(code, Refused)(text)
            case Failed(code, text):
                return RemoteProtocolError(f"{place} does not keep to DMP: {code} {text}")
            case Silent():
                return Disconnected(f"the broker at {place} has fallen silent: its null messages have stopped")
            case EndOfStream() if self._finishing and not self._has_broken:
                self.finished_well = True
                return Disconnected(f"the direct connection to {place} was closed by this program")
            case _:
                return Disconnected(
                    f"the broker at {place} has closed the direct connection; see whether it was stopped or the queue "
                    "deleted"
                )

    @property
    def _has_broken(self) -> bool:
        bottom = self._transport.bottom
        return isinstance(bottom, RawSocket) and bottom.has_broken

    def end(self, error: TriomqError) -> None:
        """End, and fail everything that waits; only the first call counts."""
        if self.error is not None:
            return
        self.error = error
        self.ended.set()
        if not self.opened.done:
            self.opened.fail(error)
        # The transport is closed and calls ``drained`` no more, so that tasks which wait for it are woken here.
        self.full = False
        self._drained.set()
        self.may_publish.unpark_all()
        if self.on_end is not None:
            self.on_end()


@asynccontextmanager
async def open_link(
    channel: "AMQPChannel", lease: str, target: Target, take: Callable[[MessageRun], None], settings: Settings
) -> AsyncIterator[tuple[DirectLink, trio.Nursery]]:
    """Open a direct connection with a lease; it lives until the block is left, and so does all in its nursery.

    Raises:
        Disconnected: The broker cannot be reached a second time.
        Refused: It does not accept the lease.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        poller = Poller()
        try:
            transport, place = await channel.connection.fork(poller)
        except BaseException as error:
            poller.close()
            failure = error
            if isinstance(error, trio.Cancelled):
                raise
        else:
            engine = DMPEngine("client", now=trio.current_time(), settings=settings, lease=lease, target=target)
            link = DirectLink(transport, poller, engine, place, take)
            channel.connection.direct.add(link)
            nursery.start_soon(link.run)
            try:
                await link.opened.wait()
                yield link, nursery
            except trio.Cancelled:
                raise
            except BaseException as error:
                failure = error
            finally:
                link.end(Disconnected(f"the direct connection to {place} was closed when its block was left"))
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def check_announced(channel: "AMQPChannel") -> None:
    """Check that the broker has direct connections: one that has none closes the whole AMQP connection when asked.

    Raises:
        Refused: It has none.
    """
    if DIRECT_PROPERTY not in channel.connection.server_properties:
        raise Refused(
            f"{channel.connection!r} has no direct connections: its server-properties have no field "
            f"{DIRECT_PROPERTY!r}; use publish and consume"
        )
