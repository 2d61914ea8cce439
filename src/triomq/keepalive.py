"""TCP's own probes, by which a socket that only waits finds out that the other side, or the way to it, has gone.

Heartbeats find that out sooner, and tell a program that hangs from one that is at work. These are for connections that
have none, or whose user has turned them off. While something is sent and not acknowledged no probe goes out: then TCP
gives up by itself, on Linux after a quarter of an hour. TCP_USER_TIMEOUT would shorten that, but it also ends
connections to a broker that reads nothing for a while because its memory is short.
"""

import socket
from typing import Final, Protocol

KEEPALIVE_IDLE: Final = 60
"""Seconds of silence before the first probe."""

KEEPALIVE_INTERVAL: Final = 20
"""Seconds between two probes."""

KEEPALIVE_COUNT: Final = 6
"""Probes without an answer after which the connection has broken."""

_OPTIONS: Final = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
    ("TCP_KEEPCNT", KEEPALIVE_COUNT),
)


class _HasOptions(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> object: ...


def keep_alive(connection: _HasOptions) -> None:
    """Have TCP ask after a minute of silence, and give up after two more.

    Args:
        connection: A socket, or a stream of Trio's, of TCP.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _OPTIONS:
        if hasattr(socket, option):  # the system's own, of some two hours, where it is not there
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
