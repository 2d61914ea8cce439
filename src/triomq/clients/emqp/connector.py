"""Where an eMQP broker is, and what carries messages there: ZeroMQ, or the memory of this process.

    EMQPUrl ────────── connect ──> Dealer ──────────────> network
    MemoryConnector ── connect ──> MemoryDealer ────────> the broker in this process

A conversation (``EMQPLink``) knows neither: it is made with a connector, and speaks over what that gives.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

import trio

from triomq.protocols.emqp import Frames, Settings
from triomq.transports import MemoryAddress, MemoryDealer

_PATIENCE: Final = 10.0
"""Seconds that a broker in this process may take to answer the first message: it may be very busy."""


class EMQPSocket(Protocol):
    """What carries whole messages to a broker and back; closed by the code that has it."""

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        ...

    def send_all(self, messages: Sequence[Frames]) -> int:
        """Send messages if there is a broker, as far as there is room; return how many were sent.

        Raises:
            trio.ClosedResourceError: It is closed.
        """
        ...

    async def receive(self) -> Sequence[Sequence[bytes]]:
        """Wait for messages, and return those that are here: at least one.

        Raises:
            trio.BrokenResourceError: The connection is lost; ``wait_connected`` finds another one, or says the same.
            trio.ClosedResourceError: It is closed.
        """
        ...

    async def wait_connected(self) -> None:
        """Wait until a broker has let us in, and has room for a message.

        Raises:
            Disconnected: None will ever come.
            trio.BrokenResourceError: The connection is lost, and this socket makes no other one.
            trio.ClosedResourceError: It is closed.
        """
        ...

    async def aclose(self) -> None:
        """Close; what is sent already may take a second to go out. Tasks that wait get ``ClosedResourceError``."""
        ...


class EMQPConnector(Protocol):
    """Where a broker is, as whom to come, and how to speak; ``EMQPUrl`` is one."""

    @property
    def name(self) -> str:
        """How a person calls this peer; may be empty."""
        ...

    @property
    def place(self) -> str:
        """Where the broker is, for texts."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that the broker may take to let us in."""
        ...

    @property
    def trouble(self) -> str:
        """What may be wrong if it does not, for an error's text."""
        ...

    def settings(self) -> Settings:
        """Return what the engine has to know."""
        ...

    def connect(self, identity: str, nursery: trio.Nursery) -> EMQPSocket:
        """Return a socket that has begun to connect.

        Args:
            identity: By which the broker is to know us.
            nursery: Where it runs until it is closed, if it has tasks.

        Raises:
            ConfigError: A file of keys cannot be read, or the address is none.
        """
        ...


class _MemorySocket(MemoryDealer):
    """A dealer in memory as an ``EMQPSocket``."""

    def send_all(self, messages: Sequence[Frames]) -> int:
        return next((place for place, frames in enumerate(messages) if not self.send_nowait(frames)), len(messages))

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


class MemoryConnector:
    """The broker of this process, without sockets; obtained from ``Broker.emqp_connector``.

    Its peers may do everything, as all code of the broker's own program. There are no heartbeats: both sides hear at
    once when the other has gone.

    Args:
        address: Where it is.
        name: How a person calls this peer.
    """

    place = "this process"
    timeout = _PATIENCE
    trouble = "no broker of this process answers; see its log"

    def __init__(self, address: MemoryAddress, name: str = "") -> None:
        self._address = address
        self.name = name

    def settings(self) -> Settings:
        """Return what the engine has to know: nothing is said because of the time."""
        return Settings(heartbeat=inf, silence=inf, inform=inf, parting=inf)

    def connect(self, identity: str, nursery: trio.Nursery) -> EMQPSocket:
        """Return a dealer that has begun to connect."""
        return _MemorySocket(self._address, identity.encode())
