"""A DEALER, the client's side of a ROUTER: one connection that was let in, over ZeroMQ's wire.

    send_all ──▶ engine ──▶ transport ──▶ network        what is not sent when a connection is lost is dropped
    receive ◀── _inbox ◀── engine ◀── transport
    dial ──▶ handshake ──▶ connected ──▶ lost, or closed
      ▲─── wait ◀──┘ longer each time

Rules:

- It takes messages only while it is connected and let in. What has not left when the connection is lost is dropped: a
  protocol that numbers its messages knows better what to send again.
- It connects again and again until it is let in. With the loss of that connection it has ended: who receives is told
  so, behind all that had come before. The next connection is another dealer's, which has another identity: a ROUTER may
  have the last one's for long, where the network has broken for us alone.
- A password that is refused may be mended on the broker's side, so it is tried again, with the longest pause.
- It runs until it is closed, also when the tasks around it are cancelled: last words are still to be written then. So
  the code that makes it must close it.
"""

import random
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import trio

from triomq.clients.amqp.connecting import dial
from triomq.clients.transport_link import BUFFERED_MOST, UNTAKEN_MOST, TransportLink
from triomq.clients.url_options import place_of
from triomq.errors import ConfigError, Disconnected
from triomq.protocols.zmtp import (
    EndOfStream,
    ErrorReceived,
    Event,
    Failed,
    MessagesReceived,
    Opened,
    Settings,
    ZMTPClientEngine,
    decode_key,
    require_curve,
)
from triomq.shown import shown
from triomq.transports import Poller, Transport, read_curve_keys, read_curve_pair

Frames: TypeAlias = Sequence[bytes]

_FIRST_PAUSE: Final = 0.1
"""Seconds until the next try to connect; each further one waits twice as long."""

_LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries at most."""


_LINGER: Final = 1.0
"""Seconds for which the broker may take what was sent before a dealer was closed."""


class Place(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a ROUTER listens.

    Args:
        host: Name or address.
        port: TCP port.
        path: Of a Unix socket, in place of both.
        tls: Whether to speak TLS.
        ca: A file with the certificates of whom to trust then; empty trusts whom the system trusts.
    """

    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False
    ca: str = ""
    websocket: ClassVar[str] = ""

    @property
    def place(self) -> str:
        """The same in words."""
        return place_of(self.host, self.port, self.path)

    def trusted(self) -> ssl.SSLContext | None:
        """Return whom to trust with TLS; None where that is whom the system trusts, or nobody speaks TLS.

        Raises:
            ConfigError: The file cannot be read.
        """
        if not self.tls or not self.ca:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise ConfigError(f"cannot read the certificates in {self.ca}: {error.strerror or error}") from None

    @classmethod
    def at(cls, address: str, *, tls: bool = False, ca: str = "") -> "Place":
        """Read an address as ZeroMQ has it: ``tcp://host:port`` or ``ipc://path``.

        Raises:
            ConfigError: It is none.
        """
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if address.startswith("ipc://") and address != "ipc://":
            return cls(path=address.removeprefix("ipc://"), tls=tls, ca=ca)
        if host and port and parts.scheme == "tcp" and not parts.path:
            return cls(host=host, port=port, tls=tls, ca=ca)
        raise ConfigError(f"{shown(address)} is no address; write tcp://host:port or ipc://path")


def dealer_settings(
    keys: str, server_key: str, *, identity: bytes = b"", user: str = "", password: str = "", heartbeat: float = 0.0
) -> Settings:
    """Return the settings of a dealer that logs in by keys (CURVE) if it has some, else by a password, else not at all.

    Args:
        keys: A file with our keys, or empty.
        server_key: A file with the broker's public key, with these.
        identity: By which the ROUTER is to know it; empty lets that one choose.
        user: Who logs in by a password.
        password: With what.
        heartbeat: Seconds of silence after which the broker is asked for a sign of life; twice as many are the end. 0
            is never to ask.

    Raises:
        ConfigError: A file of keys cannot be read or has no secret key, or PyNaCl is not there.
    """
    if keys:
        require_curve()
        return Settings(
            socket_type="DEALER",
            mechanism="CURVE",
            identity=identity,
            secret_key=decode_key(read_curve_pair(Path(keys)).secret),
            server_key=decode_key(read_curve_keys(Path(server_key)).public),
            heartbeat=heartbeat,
        )
    return Settings(
        socket_type="DEALER",
        mechanism="PLAIN" if user else "NULL",
        identity=identity,
        user=user,
        password=password,
        heartbeat=heartbeat,
    )


class _Link(TransportLink):
    """One connection of a dealer."""

    def __init__(self, transport: Transport, poller: Poller, engine: ZMTPClientEngine, dealer: "Dealer") -> None:
        super().__init__(transport, poller, engine)
        self.engine = engine
        self.is_open = False
        self.untaken = 0
        self.refused = False
        self._dealer = dealer
        self._is_ending = False

    @property
    def has_room(self) -> bool:
        """Whether messages may be sent."""
        return self.is_open and self.error is None and self.untaken <= UNTAKEN_MOST

    def _begin(self) -> None:
        self._transport.start(self)
        self.flush()

    def _close(self) -> None:
        self.end("it was closed by this program")

    def _write_all(self) -> None:
        self.flush()

    @trio.lowlevel.enable_ki_protection
    def flush(self) -> None:
        """Hand all octets to the transport, which never waits."""
        unsent = self.engine.outbox.unsent
        pieces = self.engine.data_to_send()
        if pieces and not self._transport.send_nowait(pieces):
            self.untaken += unsent
        self._keep_due()

    def drained(self) -> None:
        """Send again; called by the transport."""
        self.untaken = 0
        if self._is_ending:
            self._close()
        self._dealer.changed()

    @trio.lowlevel.enable_ki_protection
    def received(self, data: bytes) -> None:
        """Read octets; called by the transport."""
        self.buffered += len(data)
        self.engine.receive_data(data)
        self._handle_events()

    def _handle_events(self) -> None:
        while True:
            for event in self.engine.events():
                self._handle(event)
            if not self.engine.has_more:
                break
        if self.error is None:
            self.flush()
            if not self._dealer.has_messages:
                self.buffered = 0
            elif self.buffered > BUFFERED_MOST and not self._paused:
                self.pause(paused=True)

    def _handle(self, event: Event) -> None:
        match event:
            case MessagesReceived():
                self._dealer.took(event.messages)
            case Opened():
                self.is_open = True
                self._dealer.changed()
            case ErrorReceived():
                self.refused = not self.is_open
                self.end(f"the broker says {event.reason!r}")
            case Failed():
                self.end(f"{event.code}: {event.text}")
            case EndOfStream():
                self.end("the broker has closed it")
            case _:
                pass

    def read_on(self) -> None:
        """Read again, where that was paused: what had come was taken."""
        self.buffered = 0
        if self._paused:
            self.pause(paused=False)

    def finish(self) -> None:
        """Write what is left, and end the stream; the broker's end follows, where a stream can be ended by half."""
        self.flush()
        self._transport.end_sending()
        self.read_on()  # what has come and is not read would make the system drop what we sent last
        if self._dealer.place.tls:
            self._is_ending = True
            self._transport.notify_drained()

    def end(self, reason: str) -> None:
        """End, once."""
        if self.error is None:
            self.error = Disconnected(f"the connection to {self._dealer.place.place} was lost: {reason}")
            self.ended.set()
            self._dealer.changed()


class Dealer:
    """A DEALER that connects; the code that creates it closes it.

    Args:
        place: Where the ROUTER is.
        settings: As what, and as whom; ``identity`` is what the ROUTER is to know it by.
        nursery: Where it runs until it is closed, or lost.

    Raises:
        ConfigError: A file that the place names cannot be read.
    """

    def __init__(self, place: Place, settings: Settings, nursery: trio.Nursery) -> None:
        self.place = place
        self.closed = False
        """Whether it is closed."""
        self._settings = settings
        self._trusted = place.trusted()
        self._link: _Link | None = None
        self._inbox: list[list[bytes]] = []
        self._has_ended = False
        self._parked = trio.lowlevel.ParkingLot()
        self._over = trio.Event()
        self._linger = trio.CancelScope(shield=True)
        nursery.start_soon(self._run)

    # Life

    async def _run(self) -> None:
        try:
            with self._linger:
                await self._serve()
        finally:
            self._has_ended = True
            self._over.set()
            self.changed()
        await trio.lowlevel.checkpoint_if_cancelled()  # the shield is off: who has cancelled us is to know

    async def _serve(self) -> None:
        """Connect, until it was let in, and serve that connection."""
        pause = _FIRST_PAUSE
        while not self.closed:
            link = await self._connect()
            if link is not None and link.is_open:
                return
            if link is not None and link.refused:
                pause = _LONGEST_PAUSE
            await trio.sleep(pause * random.uniform(0.5, 1.0))  # clients of a broker come back one by one
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(self) -> _Link | None:
        """Serve one connection until its end; None if there was none."""
        poller = Poller()
        try:
            transport = await dial(self.place, self._trusted, poller)
        except BaseException as error:
            poller.close()
            if isinstance(error, Disconnected):
                return None
            raise
        engine = ZMTPClientEngine(now=trio.current_time(), settings=self._settings)
        self._link = link = _Link(transport, poller, engine, self)
        try:
            await link.run()
        finally:
            self._link = None
        return link

    def close(self) -> None:
        """Close: tasks that wait get ``ClosedResourceError``; what was sent goes out for a moment yet."""
        if self.closed:
            return
        self.closed = True
        if self._link is not None and self._link.is_open:
            self._linger.deadline = trio.current_time() + _LINGER
            self._link.finish()
        else:
            self._linger.cancel()
        self.changed()

    async def aclose(self) -> None:
        """Close, and wait until what was sent is out."""
        self.close()
        with trio.CancelScope(shield=True):
            await self._over.wait()

    # For the link

    def took(self, messages: list[list[bytes]]) -> None:
        """Keep messages for the code that receives."""
        self._inbox += messages
        self.changed()

    @property
    def has_messages(self) -> bool:
        """Whether something has come that was not taken."""
        return bool(self._inbox)

    def changed(self) -> None:
        """Wake the tasks that wait: something has come, or there is room, or this is over."""
        self._parked.unpark_all()

    # For its user

    @property
    def is_lost(self) -> bool:
        """Whether there was a connection, and it was lost."""
        return self._has_ended and not self.closed

    def send_nowait(self, frames: Frames) -> bool:
        """Send a message if there is a connection, and room; return whether there was.

        Raises:
            trio.ClosedResourceError: It is closed.
        """
        return self.send_all((frames,)) == 1

    def send_all(self, messages: Sequence[Frames]) -> int:
        """Send messages as far as there is room; return how many were sent.

        Raises:
            trio.ClosedResourceError: It is closed.
        """
        self._check()
        link = self._link
        if link is None or not link.has_room:
            return 0
        link.engine.send_all(messages)
        link.flush()
        return len(messages)

    async def send(self, frames: Frames) -> None:
        """Send a message, when there is room; raises as ``wait_connected``."""
        while not self.send_nowait(frames):
            await self.wait_connected()

    async def receive(self) -> list[list[bytes]]:
        """Wait for messages, and return those that are here: at least one.

        Raises:
            trio.BrokenResourceError: The connection was lost.
            trio.ClosedResourceError: It is closed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._inbox:
            await trio.lowlevel.cancel_shielded_checkpoint()
        while not self._inbox:
            self._check()
            if self.is_lost:
                raise trio.BrokenResourceError(f"the connection to {self.place.place} was lost")
            await self._parked.park()
        self._check()
        messages, self._inbox = self._inbox, []
        if self._link is not None:
            self._link.read_on()
        return messages

    async def wait_connected(self) -> None:
        """Wait until the other side has let us in, and has room for a message.

        Raises:
            trio.BrokenResourceError: The connection was lost.
            trio.ClosedResourceError: It is closed.
        """
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            if self.is_lost:
                raise trio.BrokenResourceError(f"the connection to {self.place.place} is lost")
            if self._link is not None and self._link.has_room:
                return
            await self._parked.park()

    def _check(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this socket is closed")
