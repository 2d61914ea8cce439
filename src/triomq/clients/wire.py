"""One blocking socket, and the client's role of the AMQP engine on it: events come out one by one."""

import socket
import time
from collections import deque

from triomq.clients.refusals import error_of
from triomq.clients.url import AMQPUrl
from triomq.errors import ConfigError, Disconnected, RemoteProtocolError
from triomq.protocols.amqp import (
    BROKER_METHODS,
    AMQPEngine,
    ChannelClosed,
    ChannelCloseOk,
    Closed,
    Connected,
    EndOfStream,
    Event,
    Failed,
    HeartbeatLost,
    Settings,
    plain,
)

__all__ = ["BlockingWire"]

RECEIVE_SIZE = 64 * 1024
GOODBYE = 1.0
"""Seconds that a broker gets to answer our close: nobody waits longer for a goodbye."""


class BlockingWire:
    """Made connected by ``BlockingConnection``, which owns it and closes it.

    Args:
        url: Where, and as whom; its ``timeout`` is how long the broker may be silent while something is awaited.

    Raises:
        ConfigError: The URL asks for what only ``open_amqp`` can: TLS, or a log-in by certificate.
        Disconnected: Nobody listens there, or nobody answers in time.
        AccessRefused: The broker does not let this user in, or not there.
    """

    def __init__(self, url: AMQPUrl) -> None:
        """Connect, log in and open the virtual host."""
        if url.tls or url.auth_mechanism != "plain":
            raise ConfigError("amqps:// needs TLS, which this client does not speak; use amqp:// or amqp+unix://")
        self.url = url
        self._events: deque[Event] = deque()
        self._socket = _connect(url)
        self.engine = AMQPEngine("client", now=time.monotonic(), settings=_settings(url), methods=BROKER_METHODS)
        try:
            self.server = self._opened()
        except BaseException:
            self._socket.close()
            raise

    def _opened(self) -> Connected:
        while not isinstance(event := self.next(), Connected):
            pass
        return event

    def next(self) -> Event:
        """Wait for the next event of a channel.

        Raises:
            Disconnected: The connection is lost, or nothing comes for as long as the URL's ``timeout`` says.
            TriomqError: The broker has closed the connection; see ``refusals``.
        """
        while not self._events:
            self._exchange(self.url.timeout)
        event = self._events.popleft()
        match event:
            case Closed(code, text):
                raise error_of(code, text)
            case Failed(code, text):
                raise RemoteProtocolError(f"{self.url.place} does not keep to AMQP 0-9-1: {code} {text}")
            case HeartbeatLost():
                raise Disconnected(f"the broker at {self.url.place} has fallen silent: its heartbeats have stopped")
            case EndOfStream():
                raise Disconnected(f"the broker at {self.url.place} has closed the connection without a word")
            case ChannelClosed(by_peer=True):
                self.engine.send_method(event.channel, ChannelCloseOk())
        return event

    def flush(self) -> None:
        """Send what is waiting to be sent.

        Raises:
            Disconnected: The connection is lost, or the broker does not take it.
        """
        self._socket.settimeout(self.url.timeout)
        try:
            for octets in self.engine.data_to_send():
                self._socket.sendall(octets)
        except TimeoutError:
            raise self._silent("takes nothing") from None
        except OSError as error:
            self._last_words()
            raise self._lost(error) from None

    def _exchange(self, patience: float) -> None:
        """Send, then take in what comes; give up when nothing has come for so many seconds."""
        if self.engine.finished:
            raise Disconnected(f"the connection to {self.url.place} has ended; open a new one")
        self.flush()
        if not self._wait(time.monotonic() + patience):
            raise self._silent("says nothing")
        self._events.extend(self.engine.events())

    def _wait(self, until: float) -> bool:
        """Wait for octets, or for the engine to give up, and send heartbeats meanwhile; tell whether it was in time."""
        while time.monotonic() < until:
            if self._receive(until):
                return True
            self.engine.handle_timer(time.monotonic())
            if self.engine.finished:
                return True
            self.flush()
        return False

    def _receive(self, until: float) -> bool:
        """Take in one chunk, or the end; tell whether anything came until then, or until a timer is due."""
        timer = self.engine.next_timer()
        self._socket.settimeout(max(0.001, min(until, timer or until) - time.monotonic()))
        try:
            octets = self._socket.recv(RECEIVE_SIZE)
        except TimeoutError:
            return False
        except OSError as error:
            raise self._lost(error) from None
        self.engine.receive_data(octets)
        return True

    def _last_words(self) -> None:
        """Hear why the broker takes nothing more, if it has said so before it hung up."""
        try:
            self._socket.settimeout(GOODBYE)
            while octets := self._socket.recv(RECEIVE_SIZE):
                self.engine.receive_data(octets)
        except OSError:
            pass
        for event in self.engine.events():
            if isinstance(event, Closed):
                raise error_of(event.code, event.text)

    def _lost(self, error: OSError) -> Disconnected:
        return Disconnected(f"the connection to {self.url.place} broke: {error.strerror or error}")

    def _silent(self, what: str) -> Disconnected:
        return Disconnected(
            f"the broker at {self.url.place} {what} for {self.url.timeout:g} s; "
            "see whether it is busy, or raise ?timeout= in the URL"
        )

    def close(self) -> None:
        """Say goodbye, and close; without a word if that cannot be heard any more."""
        try:
            self.engine.close(200, "Goodbye")
            while not self.engine.finished:
                self._exchange(GOODBYE)
            self.flush()
        except (Disconnected, OSError):
            pass  # it is over, one way or the other
        self._socket.close()


def _settings(url: AMQPUrl) -> Settings:
    return Settings(
        heartbeat=url.heartbeat or 0,  # a client that blocks cannot keep one between calls
        frame_max=url.frame_max,
        handshake_timeout=2 * url.timeout,  # our own deadline comes first and says more
        login=plain(url.user, url.password),
        virtual_host=url.virtual_host,
    )


def _connect(url: AMQPUrl) -> socket.socket:
    try:
        return _connect_unix(url) if url.path else _connect_tcp(url)
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or error
        raise Disconnected(f"no broker can be reached at {url.place}: {reason}; see whether it runs there") from None


def _connect_tcp(url: AMQPUrl) -> socket.socket:
    connection = socket.create_connection((url.host, url.port), url.timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _connect_unix(url: AMQPUrl) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(url.timeout)
        connection.connect(url.path)
    except OSError:
        connection.close()
        raise
    return connection
