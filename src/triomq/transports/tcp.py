"""TCP listeners on all addresses of some hosts, and raw sockets from what they accept.

Hosts are names and addresses. ``localhost`` is 127.0.0.1 and ::1, whatever a resolver says of it (RFC 6761, 6.3): many
machines have both and name one of them, and no other machine can come in by this name. An address that the machine does
not have, as ::1 where IPv6 is switched off, is passed over if another one of the same host can be used. All addresses
have one port.
"""

import errno
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import trio

from triomq.errors import ConfigError
from triomq.keepalive import keep_alive
from triomq.process import Place, close_in_forks, close_places_in_forks
from triomq.transports.poller import Poller
from triomq.transports.stream import RawSocket

Address = tuple[str, int] | str
"""Host and port, or the path of a Unix socket."""


_LOCALHOST: Final = "localhost"

_LOOPBACK: Final = ("127.0.0.1", "::1")

_WILDCARDS: Final = ("0.0.0.0", "::")
"""What stands for all addresses of IPv4, and of IPv6."""

_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""How a machine says that it does not have an address."""

_TRIES: Final = 20
"""Ports that are tried until one is free on all addresses."""


async def bind_tcp(hosts: str | Sequence[str], port: int, *, backlog: int = 1024) -> list[trio.SocketListener]:
    """Listen on every address of one or several hosts; ``localhost`` is IPv4 and IPv6 loopback.

    Args:
        hosts: A name or an address, or several of them.
        port: A port, or 0 for one that is free; all addresses get the same.
        backlog: How many connections may wait to be accepted.

    Raises:
        ConfigError: An address cannot be used; the text says what to do.
    """
    addresses = await _find_addresses(hosts_in(hosts), port)
    tries = 1 if port else _TRIES
    while True:
        tries -= 1
        try:
            listeners = await _bind_all(addresses, port, backlog)
        except ConfigError as error:
            is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
            if not (is_taken and tries):
                raise
        else:
            return [close_listener_in_forks(listener) for listener in listeners]


def hosts_in(hosts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the hosts where one may stand for itself."""
    return (hosts,) if isinstance(hosts, str) else tuple(hosts)


async def _find_addresses(hosts: tuple[str, ...], port: int) -> dict[str, list[str]]:
    """Return the addresses of each host, without those for which ``0.0.0.0`` or ``::`` of the list stands already."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        if _is_localhost(host):
            found[host] = list(_LOOPBACK)
            continue
        try:
            known = await trio.socket.getaddrinfo(
                host, port, type=trio.socket.SOCK_STREAM, flags=trio.socket.AI_PASSIVE
            )
        except (OSError, ValueError) as error:  # the latter if it cannot be a name at all
            raise ConfigError(_advice(host, port, error)) from error
        found[host] = list(dict.fromkeys(str(address[0]) for *_, address in known))
    named = {address for addresses in found.values() for address in addresses}
    covered = {address for address in named if _wildcard_of(address) in named - {address}}
    return {host: [each for each in addresses if each not in covered] for host, addresses in found.items()}


def _wildcard_of(address: str) -> str:
    return _WILDCARDS[":" in address]


async def _bind_all(hosts: dict[str, list[str]], port: int, backlog: int) -> list[trio.SocketListener]:
    """Listen on all addresses, or on none of them.

    Raises:
        ConfigError: One cannot be used; from the system's error.
    """
    bound: dict[str, trio.SocketListener] = {}
    asked = port
    try:
        for host, addresses in hosts.items():
            absent: OSError | None = None
            for address in addresses:
                if address in bound:
                    continue
                try:
                    (bound[address],) = await trio.open_tcp_listeners(port, host=address, backlog=backlog)
                except OSError as error:
                    if error.errno not in _NOT_HERE:
                        raise ConfigError(_advice(host, port, error)) from error
                    absent = error
                else:
                    port = bound[address].socket.getsockname()[1]
            if absent is not None and not any(address in bound for address in addresses):
                raise ConfigError(_advice(host, asked, absent)) from absent
    except BaseException:
        for listener in bound.values():
            listener.socket.close()
        raise
    return list(bound.values())


def close_listener_in_forks(listener: trio.SocketListener) -> trio.SocketListener:
    """Close a listener in forks of this process, and all that it has accepted; return it."""
    close_places_in_forks(close_in_forks(listener.socket), _places_of)
    return listener


def _places_of(listening: trio.socket.SocketType) -> list[Place]:
    name = listening.getsockname()
    return [Place(name, 0) if isinstance(name, str) else Place(name[0], name[1])]


def _advice(host: str, port: int, error: OSError | ValueError) -> str:
    place = f"{host} port {port}"
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return (
            f"{place} is in use by another program; stop that one, or choose another port (--port 0 takes a free one)"
        )
    if number == errno.EACCES:
        return f"{place} is not allowed for this user; choose a port above 1023"
    reason = (isinstance(error, OSError) and error.strerror) or error
    return f"cannot listen on {place}: {reason}; check the host name and the port"


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


def is_loopback(host: str) -> bool:
    """Return whether a host is what this machine alone can reach; no name is but ``localhost``, nor is ``*``."""
    try:
        return _is_localhost(host) or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_localhost(host: str) -> bool:
    return host.lower() == _LOCALHOST


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
