"""Clients that come over streams: TCP or a Unix socket, with TLS and WebSocket or without, watched by one poller."""

import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from triomq.actors import Ref
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.listener import Listener
from triomq.transports import (
    TLS,
    Address,
    Poller,
    StreamTransport,
    TLSSocket,
    Transport,
    WebSocket,
    accept_raw,
    address_of,
    bind_tcp,
    bind_unix,
    close_listener,
    make_context,
)

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint
    from triomq.transports.websocket import WebSocketTransport

    _Layer: TypeAlias = TLSSocket | WebSocketTransport

_log = logging.getLogger("triomq.endpoints")

_HANDSHAKE = 10.0  # seconds that a client has for TLS, for WebSocket, and then for its protocol's own handshake

_ALERT = 0.5  # seconds that a client has to read why TLS or WebSocket has ended

_OUT_OF_FILES = 0.1  # seconds until accepting is tried again when the process has too many files open


class StreamAcceptor(Listener):
    """Accepts streams, shakes hands where there is TLS or WebSocket, and calls ``connect`` for each.

    Args:
        host: A name or an address, or several.
        port: A port, or 0 for one that is free.
        path: Path of a Unix socket to listen on instead.
        tls: How to speak TLS; None is not at all.
        websocket: How to speak WebSocket; None is not at all.
        subprotocols: What clients over WebSocket may call the protocol.
        probes: Whether TCP is to find out that a client's machine has gone: for protocols without heartbeats.
    """

    def __init__(
        self,
        host: str | Sequence[str],
        port: int,
        *,
        path: str = "",
        tls: TLS | None = None,
        websocket: WebSocket | None = None,
        subprotocols: Sequence[str] = (),
        probes: bool = False,
    ) -> None:
        self._host = host
        self._port = port
        self._path = path
        self._tls = tls
        self._websocket = websocket
        self._subprotocols = subprotocols
        self._probes = probes
        self._context: ssl.SSLContext | None = None
        self._endpoint: Endpoint
        self._sockets: list[trio.SocketListener] = []
        self._addresses: list[Address] = []
        self._accepting: trio.CancelScope | None = None
        self._shaking_hands: set[_Layer] = set()
        self._poller = Poller()

    @property
    def addresses(self) -> list[Address]:
        """Each address of the hosts with the port, or the path of the Unix socket."""
        return self._addresses

    async def start(self, endpoint: "Endpoint") -> None:
        """Listen on all addresses of the hosts, or on the Unix socket."""
        self._endpoint = endpoint
        self._context = None if self._tls is None else make_context(self._tls)
        self._sockets = [bind_unix(self._path)] if self._path else await bind_tcp(self._host, self._port)
        self._addresses = [address_of(socket) for socket in self._sockets]
        self._accepting = endpoint.start_task(self._accept_all)
        endpoint.start_task(self._poller.run)

    async def _accept_all(self) -> None:
        """Accept until cancelled; also after a crash the port is then free for the next incarnation."""
        try:
            async with trio.open_nursery() as nursery:
                for socket in self._sockets:
                    nursery.start_soon(self._accept, socket)
        finally:
            self._close_sockets()

    async def _accept(self, socket: trio.SocketListener) -> None:
        while True:
            try:
                stream = await socket.accept()
            except OSError as error:
                name = self._endpoint.ref.name
                _log.error("cannot accept a connection", extra={"fields": {"endpoint": name, "reason": error}})
                await trio.sleep(_OUT_OF_FILES)
            else:
                self._accept_one(stream)

    def _accept_one(self, stream: trio.SocketStream) -> None:
        try:
            transport = accept_raw(stream, self._poller, probes=self._probes)
        except OSError:
            return  # gone again already
        if self._context is None:
            self._begin(transport)
        else:
            failed = partial(self._failed, "TLS handshake failed")
            secure = TLSSocket(transport, self._context, secured=self._secured, failed=failed)
            self._end_handshake_after(secure, _HANDSHAKE)

    def _begin(self, transport: Transport) -> None:
        """Shake hands where there is WebSocket, else serve a client."""
        if self._websocket is None:
            self.connect(transport)
        else:
            self._end_handshake_after(self._frame(transport, self._websocket), _HANDSHAKE)

    def _frame(self, transport: Transport, config: WebSocket) -> "WebSocketTransport":
        from triomq.transports.websocket import ServerHandshake, WebSocketTransport  # with wsproto and h11

        return WebSocketTransport(
            transport,
            ServerHandshake(config, self._subprotocols),
            max_frame_size=config.max_frame_size,
            opened=self._opened,
            failed=partial(self._failed, "WebSocket failed"),
            is_leaving=lambda: self._accepting is None,
        )

    def connect(self, transport: Transport) -> object:
        """Do what is to be done with a client's transport, which is ready; called for each."""
        raise NotImplementedError

    def connect_stream(self, stream: trio.abc.Stream, peer: str) -> None:
        """Serve a client over any Trio stream, such as one end of a memory stream; not with TLS."""
        transport = StreamTransport(stream, peer)
        self._begin(transport)
        self._endpoint.start_task(transport.run)

    # TLS and WebSocket

    def renew_certificates(self, context: ssl.SSLContext) -> None:
        """Show other certificates to clients that come from now on."""
        self._context = context

    def _secured(self, transport: TLSSocket) -> None:
        if self._still_listens_to(transport):
            self._begin(transport)

    def _opened(self, transport: "WebSocketTransport") -> None:
        if self._still_listens_to(transport):
            self.connect(transport)

    def _still_listens_to(self, transport: "_Layer") -> bool:
        """End the time for a handshake; close the transport if clients are not accepted any more."""
        self._shaking_hands.discard(transport)
        self._endpoint.timers.discard(transport)
        if self._accepting is None:
            transport.close()
        return self._accepting is not None

    def _failed(self, what: str, transport: "_Layer", reason: str) -> None:
        """Leave the client a while to read why."""
        fields = {
            "endpoint": self._endpoint.ref.name,
            "peer": transport.peer,
            "reason": reason or "the client has gone",
        }
        _log.log(logging.INFO if reason else logging.DEBUG, what, extra={"fields": fields})
        self._end_handshake_after(transport, _ALERT)

    def _end_handshake_after(self, transport: "_Layer", seconds: float) -> None:
        self._shaking_hands.add(transport)
        due = trio.current_time() + seconds
        self._endpoint.timers.set(transport, due, lambda _: self._end_handshake(transport))

    def _end_handshake(self, transport: "_Layer") -> None:
        transport.close()
        self._shaking_hands.discard(transport)

    # The end

    def stop_accepting(self) -> None:
        """Close the listening sockets; transports in a handshake are closed after it, and not waited for."""
        if self._accepting is not None:
            self._accepting.cancel()
        self._accepting = None

    def close(self) -> None:
        """Close all sockets that are not a client's, and what watches sockets."""
        for transport in self._shaking_hands:
            transport.close()
        self._shaking_hands.clear()
        self._close_sockets()
        self._poller.close()

    def _close_sockets(self) -> None:
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            close_listener(socket)


class StreamListener(StreamAcceptor):
    """Has a client made for each stream.

    Args:
        make_client: Makes the client over a transport, which it owns from now on.
        host: A name or an address, or several.
        port: A port, or 0 for one that is free.
        path: Path of a Unix socket to listen on instead.
        tls: How to speak TLS; None is not at all.
        websocket: How to speak WebSocket; None is not at all.
        subprotocols: What clients over WebSocket may call the protocol.
        probes: Whether TCP is to find out that a client's machine has gone: for protocols without heartbeats.
    """

    def __init__(
        self,
        make_client: Callable[[Transport], Client],
        host: str | Sequence[str],
        port: int,
        *,
        path: str = "",
        tls: TLS | None = None,
        websocket: WebSocket | None = None,
        subprotocols: Sequence[str] = (),
        probes: bool = False,
    ) -> None:
        super().__init__(host, port, path=path, tls=tls, websocket=websocket, subprotocols=subprotocols, probes=probes)
        self._make_client = make_client

    def connect(self, transport: Transport) -> Ref:
        """Serve a client over a transport."""
        return self._endpoint.serve(self._make_client(transport))
