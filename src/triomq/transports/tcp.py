"""TCP listeners on all addresses of a host name, and raw sockets from what they accept."""

import errno
import socket
from ipaddress import ip_address

import trio

from triomq.errors import ConfigError
from triomq.keepalive import keep_alive
from triomq.process import Place, close_in_forks, close_places_in_forks
from triomq.transports.poller import Poller
from triomq.transports.stream import RawSocket

Address = tuple[str, int] | str
"""Host and port, or the path of a Unix socket."""


async def bind_tcp(host: str, port: int, *, backlog: int = 1024) -> list[trio.SocketListener]:
    """Listen on every address of a host name; ``localhost`` is IPv4 and IPv6 loopback.

    Args:
        host: A name or an address.
        port: A port, or 0 for one that is free; all addresses get the same.
        backlog: How many connections may wait to be accepted.

    Raises:
        ConfigError: The address cannot be used; the text says what to do.
    """
    try:
        first, *others = await trio.open_tcp_listeners(port, host=host, backlog=backlog)
    except OSError as error:
        raise ConfigError(_advice(host, port, error)) from error
    if not port:
        others = await _same_port(others, first, backlog)
    return [close_listener_in_forks(listener) for listener in (first, *others)]


def close_listener_in_forks(listener: trio.SocketListener) -> trio.SocketListener:
    """Close a listener in forks of this process, and all that it has accepted; return it."""
    close_places_in_forks(close_in_forks(listener.socket), _places_of)
    return listener


def _places_of(listening: trio.socket.SocketType) -> list[Place]:
    name = listening.getsockname()
    return [Place(name, 0) if isinstance(name, str) else Place(name[0], name[1])]


async def _same_port(
    others: list[trio.SocketListener], first: trio.SocketListener, backlog: int
) -> list[trio.SocketListener]:
    """Open the other addresses again, on the port that the first one got; skip those where it is taken."""
    listeners: list[trio.SocketListener] = []
    port = first.socket.getsockname()[1]
    for other in others:
        host = other.socket.getsockname()[0]
        await other.aclose()
        try:
            listeners += await trio.open_tcp_listeners(port, host=host, backlog=backlog)
        except OSError:
            continue
    return listeners


def _advice(host: str, port: int, error: OSError) -> str:
    place = f"{host} port {port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{place} is in use by another program; stop that one, or choose another port (--port 0 takes a free one)"
        )
    if error.errno == errno.EACCES:
        return f"{place} is not allowed for this user; choose a port above 1023"
    return f"cannot listen on {place}: {error.strerror or error}; check the host name and the port"


def address_of(listener: trio.SocketListener) -> Address:
    """Return the address that a listener listens on."""
    name = listener.socket.getsockname()
    return str(name) if isinstance(name, str) else (str(name[0]), int(name[1]))


def name_of(address: Address) -> str:
    """Return an address as text: ``127.0.0.1:5672``, ``[::1]:5672``, or a path."""
    if isinstance(address, str):
        return address
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_private(peer: str) -> bool:
    """Return whether a peer is on this machine, so that no network carries what is sent to it.

    Args:
        peer: A transport's ``peer``: an address with a port, or a word for peers without one.
    """
    host = peer.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return True  # a Unix socket, or memory


def accept_raw(stream: trio.SocketStream, poller: Poller, *, probes: bool = False) -> RawSocket:
    """Return the transport for an accepted stream, on its plain socket.

    Args:
        stream: The stream, which is not used any more.
        poller: Watches the socket.
        probes: Whether TCP is to find out that the other side's machine has gone: for protocols without heartbeats.

    Raises:
        OSError: The other side is gone again already; the stream is closed.
    """
    try:
        name = stream.socket.getpeername()
    except OSError:
        stream.socket.close()
        raise
    peer = name_of((name[0], name[1])) if isinstance(name, tuple) else "local"
    connection = close_in_forks(socket.socket(fileno=stream.socket.detach()))
    if probes and isinstance(name, tuple):
        keep_alive(connection)
    return RawSocket(connection, peer, poller)
