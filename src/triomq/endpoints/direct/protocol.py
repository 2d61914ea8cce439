"""Which protocol direct connections speak: passed to the listener on whose port they come."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from triomq.core import Leases
from triomq.transports import Transport

if TYPE_CHECKING:
    from triomq.endpoints.base.context import BrokerContext
    from triomq.endpoints.base.stream_client import StreamClient


LARGEST_MESSAGE = (1 << 24) - 1
"""Bytes that a listener may allow one message at most: what fits into the 24 bits of DMP's length."""


class DirectLimits(NamedTuple):
    """What a listener allows direct connections.

    Args:
        message_size: Bytes of the largest message, its size word aside.
        heartbeat: Seconds between null messages on a feed that is quiet; 0 for none.
    """

    message_size: int
    heartbeat: float


class DirectProtocol(NamedTuple):
    """A protocol for direct connections, on the port of another one.

    Args:
        header: The bytes with which a direct connection begins.
        connect: Makes the connection over a transport whose first bytes have come; without leases it refuses.
    """

    header: bytes
    connect: "Callable[[Transport, BrokerContext, Leases | None, DirectLimits], StreamClient]"
