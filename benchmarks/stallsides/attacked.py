"""What the attacks need of the broker that they attack."""

import time
from collections.abc import Iterator
from typing import Protocol

from loadgen import frames
from loadgen.connection import CHANNEL, Connection

CHUNK = 32 * 1024
"""Octets that an attacker sends at once."""


class Attacked(Protocol):
    """A broker in a process of its own."""

    port: int
    ports: dict[str, int]

    def connect(self, user: str = "eve") -> Connection:
        """Open a connection of AMQP with a channel."""

    def ask(self, line: str = "show") -> tuple[float, float, float, str]:
        """Ask for its figures."""


def rest(seconds: float = 0.5) -> None:
    """Wait until the broker has begun what it was told."""
    time.sleep(seconds)


def pour(connection: Connection, methods: Iterator[bytes]) -> str:
    """Send methods that are not answered, and wait for an answer behind them; tell what the broker says instead."""
    waiting = bytearray()
    try:
        for method in methods:
            waiting += method
            if len(waiting) > CHUNK:
                connection.socket.sendall(waiting)
                waiting.clear()
        connection.socket.settimeout(120)
        connection.call(bytes(waiting) + frames.basic_qos(CHANNEL, 0), frames.BASIC_QOS_OK)
    except (OSError, RuntimeError) as error:
        return str(error)[-110:]
    return "accepted"
