"""A client of an MTL broker as its users see it.

    MTLConnection ── call ─────────▶ ControlFlow            one command at a time
          │       ── open_writer ──▶ MTLWriter ─┐           a data flow each: a lease, and a connection of its own
          │       ── open_reader ──▶ MTLReader ─┴▶ ClientFlow

Each of these connections comes back by itself. Nothing else is made again: queues that were created without ``durable``
are gone with the broker.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import trio

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.mtl.control import ControlFlow
from triomq.clients.mtl.reader import MTLReader
from triomq.clients.mtl.url import MTLUrl
from triomq.clients.mtl.writer import MTLWriter
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import ConfirmModel

F = TypeVar("F", MTLWriter, MTLReader)


class MTLStatistics(msgspec.Struct, frozen=True, gc=False):
    """A client at one moment.

    Args:
        sessions: How often it has logged in.
        writers: Writers that are open.
        readers: Readers that are open.
        lost: How many of both have no broker at present.
        reconnects: How often one of them has come back.
        outstanding: Contents that are published, and not confirmed.
    """

    sessions: int
    writers: int
    readers: int
    lost: int
    reconnects: int
    outstanding: int


class MTLConnection:
    """Made by ``open_mtl``, ends with its block.

    Args:
        url: Where to, and as whom.
        policy: When to try again.
    """

    def __init__(self, url: MTLUrl, policy: Reconnect) -> None:
        self.url = url
        self._control = ControlFlow(url, policy)
        self._flows: list[MTLWriter | MTLReader] = []
        self._reconnects = 0
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        """Show where it leads."""
        return f"<MTLConnection to {self.url.address()}>"

    async def start(self, nursery: trio.Nursery) -> None:
        """Log in, and choose the profile; raises as ``open_mtl`` does."""
        self._nursery = nursery
        await self._control.start(nursery)

    async def close(self) -> None:
        """End the session, and close its socket, whose task says the last words."""
        self._control.close()

    @property
    def profiles(self) -> Sequence[str]:
        """The profiles that the broker offers to this user."""
        return self._control.profiles

    def statistics(self) -> MTLStatistics:
        """Return what goes on."""
        writers = [flow for flow in self._flows if isinstance(flow, MTLWriter)]
        return MTLStatistics(
            sessions=self._control.sessions,
            writers=len(writers),
            readers=len(self._flows) - len(writers),
            lost=sum(not flow.is_connected for flow in self._flows),
            reconnects=self._reconnects + sum(flow.reconnects for flow in self._flows),
            outstanding=sum(writer.outstanding for writer in writers),
        )

    async def call(self, command: str, arguments: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a method of the profile, and return what the broker answers, without ``status``.

        While the broker is away it waits for it. If the connection is lost while the command is on its way, it is not
        sent again.

        Args:
            command: Class and method, such as ``Queue.Create``.
            arguments: The object of JSON that goes with it.

        Raises:
            NotFound: What it is about is not there.
            AccessRefused: The user may not.
            PreconditionFailed: What it is about is not as it says, or in use.
            LimitExceeded: A limit leaves no room.
            Refused: The broker refuses it otherwise, or has no such command.
            Disconnected: The connection was lost, or no answer came in time: it was done, or not.
            LocalProtocolError: It cannot be sent.
        """
        return await self._control.call(command, {} if arguments is None else arguments)

    @asynccontextmanager
    async def open_writer(self, *resources: str, confirm: ConfirmModel = "full") -> AsyncIterator[MTLWriter]:
        """Open a data flow to write to resources; it lives as long as its block.

        Args:
            resources: Their names; none for all that the user may write to.
            confirm: ``full`` if the broker is to confirm each content, ``none`` if not.

        Raises:
            NotFound: There is no such resource.
            AccessRefused: The user may not write there.
            Refused: The profile has no such confirms.
            Disconnected: The connection was lost.
        """
        async with self._opened(MTLWriter(self._control, resources, confirm)) as writer:
            yield writer

    @asynccontextmanager
    async def open_reader(
        self, *resources: str, confirm: ConfirmModel = "full", prefetch: int = 100
    ) -> AsyncIterator[MTLReader]:
        """Open a data flow to read from resources; it lives as long as its block. What was not settled then goes back.

        Args:
            resources: Their names; they are summoned. None for all that the user may read, of which ``summon`` chooses.
            confirm: ``full`` if contents are to be accepted, ``none`` if the broker forgets them when they are sent.
            prefetch: With ``full``, how many contents may be here unsettled; 0 leaves it to the broker.

        Raises:
            NotFound: There is no such resource.
            AccessRefused: The user may not read it.
            Refused: The profile has no such confirms.
            Disconnected: The connection was lost.
        """
        async with self._opened(MTLReader(self._control, resources, confirm, prefetch)) as reader:
            yield reader

    @asynccontextmanager
    async def _opened(self, flow: F) -> AsyncIterator[F]:
        if self._nursery is None:
            raise LocalProtocolError("this connection has not begun; open it by open_mtl")
        await self._nursery.start(flow.run)
        self._flows.append(flow)
        try:
            yield flow
        finally:
            await flow.close()
            self._flows.remove(flow)
            self._reconnects += flow.reconnects
