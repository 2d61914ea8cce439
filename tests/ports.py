"""Ports for servers that are told theirs, or that come back at the same one.

``bind(("127.0.0.1", 0))``, and a close, gives a port of the range from which systems take the near end of any
connection that begins (Linux: from 32768 on). Until the server binds it a neighbour may have been given it; and a
client that looks for a server that is not back yet may be given that very port, and then be connected with itself. So
these are below that range, and none is given twice.
"""

import itertools
import os
import socket

_LOWEST, _COUNT = 12_000, 20_000

_numbers = itertools.count(os.getpid() * 97)  # processes that run beside each other begin at different places


def free_port() -> int:
    """Return a port of loopback at which nothing listens."""
    while True:
        port = _LOWEST + next(_numbers) % _COUNT
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
