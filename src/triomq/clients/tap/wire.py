"""The blocking socket of a tap connection: connecting, logging in, what the broker says next, and how it ends."""

import os
import socket
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from triomq.clients.tap.url import TapUrl
from triomq.errors import AccessRefused, Disconnected, RemoteProtocolError
from triomq.keepalive import keep_alive
from triomq.process import close_in_forks, fork_error, notice_fork
from triomq.protocols.tap import (
    LARGEST_FRAME,
    ClientEvent,
    EndOfStream,
    Failed,
    LoginChallenged,
    ServerClosing,
    ServerGreeting,
    Settings,
    TapClientEngine,
    Welcomed,
)

if TYPE_CHECKING:
    import ssl

_RECEIVE: Final = 256 * 1024
_SMALL: Final = 8 * 1024
"""Bytes that find room in a socket's buffer even if the broker does not read."""


class TapSocket:
    """A socket on which a client is logged in, and the engine that speaks on it; made by a connection, ends with it.

    Args:
        url: Where, and as whom.
        ssl_context: Whom to trust over TLS.
    """

    def __init__(self, url: TapUrl, ssl_context: "ssl.SSLContext | None" = None) -> None:
        self.url = url
        self._ended = ""  # why, once it has
        self._process = os.getpid()
        # What is asked for is bounded by ``most_bytes``, but for one chunk; so there is nothing else to protect from.
        self.engine = TapClientEngine(now=0.0, settings=Settings(max_frame=LARGEST_FRAME, product=url.name))
        self._events: list[ClientEvent] = []
        try:
            self._socket = close_in_forks(_connect(url, ssl_context))
        except OSError as error:
            raise Disconnected(f"cannot connect to {url.place}: {error.strerror or error}") from error
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; a second time nothing happens."""
        self._ended = self._ended or "it was closed here"
        self._socket.close()

    def _log_in(self) -> None:
        url, until = self.url, monotonic() + self.url.timeout
        greeting = self._expect(ServerGreeting, until)
        mechanism = url.auth_mechanism.upper()
        if mechanism not in greeting.mechanisms:
            offered = ", ".join(greeting.mechanisms) or "none"
            raise AccessRefused(
                f"the broker at {url.place} does not let clients log in by {mechanism} here, but by {offered}; "
                "come over TLS (taps://), or choose another ?auth_mechanism="
            )
        response = b"" if mechanism == "EXTERNAL" else f"\0{url.user}\0{url.password}".encode()
        self.engine.log_in(mechanism, response, url.domain)
        self._expect(Welcomed, until)

    def _expect(self, kind: type[Any], until: float) -> Any:
        event = self.next_event(until)
        while isinstance(event, LoginChallenged):
            self.engine.respond(b"")
            event = self.next_event(until)
        if not isinstance(event, kind):
            raise self._lost(RemoteProtocolError(f"the broker at {self.url.place} said {event} instead of {kind}"))
        return event

    def next_event(self, until: float) -> ClientEvent:
        """Return what the broker says next.

        Args:
            until: When it must have begun to; of a long answer each piece has the URL's ``timeout``.

        Raises:
            Disconnected: The connection has ended, or nothing is said in time.
            AccessRefused: The broker ends it since we may not be there.
        """
        self.flush()
        while not self._events:
            self._receive(until)
            until = max(until, monotonic() + self.url.timeout)  # or a slow link could never bring a large answer
        event = self._events.pop(0)
        if isinstance(event, ServerClosing):
            kind = AccessRefused if event.code == "DENIED" else Disconnected
            raise self._lost(kind(f"the broker at {self.url.place} ends the connection: {event.code} {event.text}"))
        if isinstance(event, Failed):
            raise self._lost(RemoteProtocolError(f"{self.url.place} does not speak tap as we do: {event.text}"))
        if isinstance(event, EndOfStream):
            raise self._lost(Disconnected(f"the broker at {self.url.place} has ended the connection"))
        return event

    def _receive(self, until: float) -> None:
        left = until - monotonic()
        if left <= 0:
            raise self._lost(self._silent())
        try:
            self._socket.settimeout(left)
            data = self._socket.recv(_RECEIVE)
        except TimeoutError:
            raise self._lost(self._silent()) from None
        except OSError as error:
            raise self._lost(self._broken(error)) from error
        self.engine.receive_data(data)
        self._events += self.engine.events()

    def flush(self) -> None:
        notice_fork()
        if os.getpid() != self._process:
            raise fork_error(f"the connection to {self.url.place}", self._process)
        if self._ended:
            raise Disconnected(f"the connection to {self.url.place} has ended: {self._ended}; open a new one")
        if not self.engine.outbox.unsent:
            return
        small, pieces = [], self.engine.data_to_send()
        try:
            self._socket.settimeout(self.url.timeout)
            for piece in pieces:
                if len(piece) <= _SMALL:
                    small.append(piece)
                else:
                    self._socket.sendall(b"".join(small))
                    self._socket.sendall(piece)
                    small = []
            if small:
                self._socket.sendall(b"".join(small))
        except TimeoutError:
            raise self._lost(self._silent()) from None
        except OSError as error:
            # It may have said why before it went.
            raise self._last_word() or self._lost(self._broken(error)) from error

    def _last_word(self) -> Exception | None:
        """Return why the broker has ended the connection, if it has said so."""
        try:
            self._socket.settimeout(0.0)
            while data := self._socket.recv(_RECEIVE):
                self.engine.receive_data(data)
        except OSError:
            pass
        for event in self.engine.events():
            if isinstance(event, ServerClosing):
                return self._lost(Disconnected(f"the broker at {self.url.place} ends: {event.code} {event.text}"))
        return None

    def _silent(self) -> Disconnected:
        return Disconnected(
            f"the broker at {self.url.place} says nothing for {self.url.timeout:g} s; see whether it is busy, or raise "
            "?timeout= in the URL"
        )

    def _broken(self, error: OSError) -> Disconnected:
        return Disconnected(f"the connection to {self.url.place} is lost: {error.strerror or error}")

    def _lost(self, error: Exception) -> Exception:
        """Close the connection for a reason, and return that."""
        self._ended = self._ended or str(error)
        self._socket.close()
        return error


def _connect(url: TapUrl, ssl_context: "ssl.SSLContext | None") -> socket.socket:
    if url.path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(url.timeout)
        try:
            connection.connect(url.path)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((url.host, url.port), url.timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(connection)
    if not url.tls:
        return connection
    import ssl  # 10 ms, that only TLS is to cost

    try:
        return (ssl_context or ssl.create_default_context()).wrap_socket(connection, server_hostname=url.host)
    except BaseException:
        connection.close()
        raise
