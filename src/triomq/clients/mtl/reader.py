"""A reader: contents of resources that it has summoned.

    engine ──▶ _take_event ──▶ _inbox ──▶ _ready ──▶ async for ──▶ MTLDelivery ── accept() ──▶ ReaderConfirms
                  receiving task   runs      one checkpoint each

Rules:

- Runs stay whole until a task takes from them: a hundred contents cost one wake-up and one checkpoint. ``_ready`` is
  stored backwards, since ``pop()`` at the end of a list costs nothing.
- With confirms the broker stops by itself, at ``prefetch`` contents that are not settled. Without, only the socket can
  stop it: it is not read while ``_MOST`` contents, or ``_MOST_BYTES``, wait to be taken.
- When the flow is lost, the broker has again what was not settled, and delivers it again, marked as redelivered. So
  with confirms what waits here is dropped, and what is settled afterwards is settled for nobody.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Self

import trio

from triomq.clients.mtl.control import ControlFlow
from triomq.clients.mtl.delivery import MTLDelivery, ReaderConfirms
from triomq.clients.mtl.flow import ClientFlow
from triomq.errors import ConsumerCancelled, LocalProtocolError, NotFound, TriomqError
from triomq.protocols.mtl import ConfirmModel, ContentRun, MTLDataClient, ResponseReceived

_MOST: Final = 1000
"""Contents without confirms that wait to be taken before no more are read."""

_MOST_BYTES: Final = 4 * 1024 * 1024


class MTLReader(ClientFlow):
    """Made by ``MTLConnection.open_reader``, ends with its block. Several tasks may iterate; each gets other contents.

    When the connection is lost it comes back by itself: what was summoned is summoned again, and with confirms what was
    not settled comes again.
    """

    direction = "reader"

    def __init__(self, control: ControlFlow, resources: Sequence[str], confirm: ConfirmModel, prefetch: int) -> None:
        super().__init__(control, resources, confirm, prefetch)
        self._summoned: dict[str, None] = dict.fromkeys(resources)
        self._numbers: dict[int, str] = {}  # of Summons
        self._confirms: ReaderConfirms | None = None
        self._inbox: deque[tuple[ContentRun, ReaderConfirms | None]] = deque()
        self._ready: list[MTLDelivery] = []  # the last one first
        self._waiting = self._waiting_bytes = 0
        self._arrived = trio.lowlevel.ParkingLot()
        self._is_over = False

    @property
    def buffered(self) -> int:
        """How many contents are here and not taken yet."""
        return len(self._ready) + sum(run.count for run, _ in self._inbox)

    # Iterating

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> MTLDelivery:
        """Wait for the next content.

        Raises:
            StopAsyncIteration: The block is left.
            ConsumerCancelled: The broker has ended a resource: its queue was deleted, or has failed.
            NotFound: A resource is not there any more since the connection has come back.
            Disconnected: The broker is gone for good.
            TriomqError: It does not let us in any more.
        """
        ready = self._ready
        if ready:
            return ready.pop()
        while True:
            if self._inbox:
                self._unpack(*self._inbox.popleft())
                await trio.lowlevel.checkpoint()
            elif self._is_over:
                raise StopAsyncIteration
            else:
                self._check()
                await self._arrived.park()
            if self._ready:
                return self._ready.pop()

    def _unpack(self, run: ContentRun, confirms: ReaderConfirms | None) -> None:
        resource = run.resource
        deliveries = [
            MTLDelivery(confirms, tag, resource, table, body)
            for tag, table, body in zip(run.sequences, run.tables, run.bodies, strict=True)
        ]
        deliveries.reverse()
        self._ready[:0] = deliveries
        self._count(run, -1)
        self._changed.unpark_all()

    # Resources

    async def summon(self, resource: str) -> None:
        """Have contents of one more resource come.

        Raises:
            NotFound: The broker has none, or has not leased it.
            LocalProtocolError: It is summoned.
            Disconnected: The flow was lost meanwhile; it is summoned when that is back.
        """
        if resource in self._summoned:
            raise LocalProtocolError(f"{resource!r} is summoned; dismiss it first")
        self._summoned[resource] = None
        engine = self._engine
        if engine is not None:
            await self._summon(engine, [resource])

    async def _summon(self, engine: MTLDataClient, resources: Sequence[str]) -> None:
        numbers = {engine.summon(resource): resource for resource in resources}
        self._numbers.update(numbers)
        for number, resource in numbers.items():
            if await self.ask(number) != 200:
                self._summoned.pop(resource, None)
                raise NotFound(f"400 the broker has no {resource!r} that this reader could summon")

    async def dismiss(self, resource: str) -> None:
        """Have no more contents of a resource come; when this returns, none will, but for what is here.

        Raises:
            LocalProtocolError: It is not summoned.
            Disconnected: The flow was lost meanwhile; it will not be summoned when that is back.
        """
        if resource not in self._summoned:
            raise LocalProtocolError(f"{resource!r} is not summoned")
        del self._summoned[resource]
        engine = self._engine
        if engine is not None:
            await self.ask(engine.dismiss(resource))

    # What the flow calls

    async def _begin(self, engine: MTLDataClient) -> None:
        self._numbers.clear()
        self._confirms = ReaderConfirms(engine, self.flush_soon) if self.confirms == "full" else None
        await self._summon(engine, list(self._summoned))

    def _prepare(self, engine: MTLDataClient) -> None:
        if self._confirms is not None:
            self._confirms.flush()

    def _take_event(self, event: object) -> None:
        if isinstance(event, ContentRun):
            if self._confirms is not None:
                self._confirms.received(event.sequences)
            self._inbox.append((event, self._confirms))
            self._count(event, 1)
            self._arrived.unpark_all()
        elif isinstance(event, ResponseReceived) and event.code == 404:
            # A broker of ours says so when the queue behind a resource is deleted, under the number of its Summon.
            resource = self._numbers.get(event.sequence, "")
            self.fail(ConsumerCancelled(f"the broker has ended {resource!r}: it was deleted, or has failed"))

    def _count(self, run: ContentRun, sign: int) -> None:
        if self.confirms == "none":
            self._waiting += sign * run.count
            self._waiting_bytes += sign * sum(map(len, run.bodies))

    @property
    def _is_taking(self) -> bool:
        return self._waiting < _MOST and self._waiting_bytes < _MOST_BYTES

    def _lost(self) -> None:
        if self._confirms is not None:
            self._confirms.close()
            self._confirms = None
            self._inbox.clear()
            self._ready.clear()

    def fail(self, error: TriomqError) -> None:
        """End for good; who waits for a content gets the error, behind what has come."""
        super().fail(error)
        self._arrived.unpark_all()

    async def close(self) -> None:
        """End; what is not settled goes back."""
        self._is_over = True
        self._inbox.clear()
        self._ready.clear()
        await super().close()
