"""Whole messages between a router and its dealers in one process: no socket, no thread, no time of its own.

    MemoryDealer.send_nowait ──> its outbox ──> MemoryRouter.run ── received(identity, messages)
    MemoryDealer.receive <────── its inbox <── MemoryRouter.send_all

It stands where ZeroMQ's DEALER and ROUTER stand, and is made for the same users. Rules:

- All that was sent before the other side runs is one batch: a wake-up costs more than a hundred messages.
- Both directions are bounded. A dealer hears that there is no room, and waits. What a router sends beside
  ``HIGH_WATER`` messages is counted (``unsent``), since a router waits for nobody: its users hold back, or let that
  peer go.
- Nothing is lost on the way, and the end of either side is announced, behind all that was sent before it. So nobody
  has to infer it from silence, and no heartbeats are needed, which would keep virtual time going for ever.
- A dealer outlives routers: it knows an address, where one router after another may be bound.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import trio

from triomq.errors import Disconnected

Frames: TypeAlias = Sequence[bytes]

_MOST_SENT: Final = 1000
"""Messages of a dealer that wait for the router before there is no room: as many as libzmq takes."""

_BATCH: Final = 256
"""Messages of one dealer that a router takes before others have their turn; see ``triomq.transports.zmq.socket``."""

HIGH_WATER: Final = 200
"""Messages that a dealer has not taken yet and that count as sent: enough for a batch at each wake-up."""


class MemoryAddress:
    """Where dealers of this process find a router; made by a broker, which closes it when no router will come again."""

    def __init__(self) -> None:
        self._routers: list[MemoryRouter] = []
        self._changes = trio.lowlevel.ParkingLot()
        self.closed = False

    @property
    def router(self) -> "MemoryRouter | None":
        """The router that dealers connect to: of several, the one that was bound first."""
        return self._routers[0] if self._routers else None

    @property
    def is_bound(self) -> bool:
        """Whether there is a router."""
        return bool(self._routers)

    def bind(self, router: "MemoryRouter") -> None:
        """Let dealers connect to a router."""
        self._routers.append(router)
        self._changes.unpark_all()

    def unbind(self, router: "MemoryRouter") -> None:
        """Let no more dealers connect to a router; those that are connected stay. Doing so twice is once."""
        if router in self._routers:
            self._routers.remove(router)

    def close(self) -> None:
        """Let no router be bound any more: who waits for one hears that none will come."""
        self.closed = True
        self._changes.unpark_all()

    async def wait_bound(self) -> None:
        """Wait for a router.

        Raises:
            Disconnected: None will come.
        """
        while not self._routers:
            if self.closed:
                raise Disconnected("the broker of this process is closed, and no other will come in its place")
            await self._changes.park()


class MemoryRouter:
    """The side with many peers; its user binds it, runs ``run`` in a task, and closes it.

    Args:
        received: Called with the identity of a peer and what it has sent, in ``run``'s task.
        drained: Called with the identity of a peer that has taken everything, after some of it counted as unsent.
        gone: Called with the identity of a peer that has gone.
    """

    def __init__(
        self,
        received: Callable[[bytes, list[Frames]], None],
        *,
        drained: Callable[[bytes], None],
        gone: Callable[[bytes], None],
    ) -> None:
        self._received = received
        self._gone = gone
        self.drained = drained
        self._dealers: dict[bytes, MemoryDealer] = {}
        self._busy: dict[MemoryDealer, None] = {}  # those that have sent something, or have gone
        self._waiting = trio.lowlevel.ParkingLot()
        self.closed = False

    async def run(self) -> None:
        """Receive until the router is closed."""
        while not self.closed:
            busy, self._busy = self._busy, {}
            for dealer in busy:
                self._receive(dealer)
            if self._busy:
                await trio.lowlevel.checkpoint()
            elif not self.closed:
                await self._waiting.park()

    def _receive(self, dealer: "MemoryDealer") -> None:
        if self._dealers.get(dealer.identity) is not dealer:
            return  # it was forgotten
        messages = dealer.take_sent(_BATCH)
        if messages:
            self._received(dealer.identity, messages)
        if dealer.has_sent:
            self.wake(dealer)
        elif dealer.closed and self._dealers.get(dealer.identity) is dealer:  # ``received`` may have forgotten it
            del self._dealers[dealer.identity]
            self._gone(dealer.identity)

    # For users

    def send_all(self, identity: bytes, messages: Sequence[Frames]) -> bool:
        """Send messages to a peer; return whether it is there."""
        dealer = self._dealers.get(identity)
        if dealer is None or dealer.closed:
            return False
        dealer.put(messages)
        return True

    def unsent(self, identity: bytes) -> int:
        """Return how many bytes wait for a peer, beside some messages that count as sent."""
        dealer = self._dealers.get(identity)
        return 0 if dealer is None else dealer.unsent

    def taken_at(self, identity: bytes) -> float:
        """Return since when a peer has taken nothing of what is unsent; 0 if nothing is."""
        dealer = self._dealers.get(identity)
        return dealer.unsent_since if dealer is not None else 0.0

    def stuck_for(self, identity: bytes, now: float) -> float:
        """Return for how many seconds a peer has taken nothing of what is unsent; 0 if nothing is."""
        dealer = self._dealers.get(identity)
        return now - dealer.unsent_since if dealer is not None and dealer.unsent else 0.0

    def forget(self, identity: bytes) -> None:
        """End the connection of a peer: it gets what it was sent, and then hears of the end."""
        dealer = self._dealers.pop(identity, None)
        if dealer is not None:
            dealer.disconnect()

    def close(self) -> None:
        """End all connections."""
        self.closed = True
        for identity in list(self._dealers):
            self.forget(identity)
        self._waiting.unpark_all()

    # For dealers

    def connect(self, dealer: "MemoryDealer") -> None:
        """Let a dealer send, and be sent to; one that has the same identity has gone."""
        self.forget(dealer.identity)
        self._dealers[dealer.identity] = dealer

    def wake(self, dealer: "MemoryDealer") -> None:
        """Take what a dealer has sent, soon."""
        self._busy[dealer] = None
        self._waiting.unpark_all()


class MemoryDealer:
    """The side with one peer, which connects, and connects again when the router was away; its user closes it.

    Args:
        address: Where the router is, or will be.
        identity: By which the router knows it.
    """

    def __init__(self, address: MemoryAddress, identity: bytes) -> None:
        self.identity = identity
        self.closed = False
        self.unsent = 0
        """Bytes of messages that it has not taken, beside some that count as sent."""
        self.unsent_since = 0.0
        """When the first of them came, on Trio's clock."""
        self._address = address
        self._router: MemoryRouter | None = None
        self._broken = False  # the router has gone, and ``receive`` has not said so yet
        self._sent: list[Frames] = []
        self._inbox: list[Frames] = []
        self._reader = trio.lowlevel.ParkingLot()
        self._writers = trio.lowlevel.ParkingLot()

    def send_nowait(self, frames: Frames) -> bool:
        """Send a message if there is a router, and room for it; return whether there was.

        Raises:
            trio.ClosedResourceError: The dealer is closed.
        """
        self._check()
        if self._router is None or len(self._sent) >= _MOST_SENT:
            return False
        self._sent.append(frames)
        if len(self._sent) == 1:
            self._router.wake(self)
        return True

    async def wait_connected(self) -> None:
        """Wait until there is a router, and room for a message.

        Raises:
            trio.ClosedResourceError: The dealer is closed.
            Disconnected: No router will come.
        """
        await trio.lowlevel.checkpoint()
        self._check()
        while self._router is None or len(self._sent) >= _MOST_SENT:
            if self._router is not None or self._broken:  # of that, ``receive`` is to speak first
                await self._writers.park()
                self._check()
            else:
                await self._address.wait_bound()
                self._check()
                self._connect()

    async def receive(self) -> list[Frames]:
        """Wait for messages, and return all that are there.

        Raises:
            trio.BrokenResourceError: The router has gone, or has forgotten this dealer; what was sent to it and not
                answered may have been lost. ``wait_connected`` connects again.
            trio.ClosedResourceError: The dealer is closed.
        """
        await trio.lowlevel.checkpoint()
        while not self._inbox:
            self._check()
            if self._broken:
                self._broken = False
                self._writers.unpark_all()
                raise trio.BrokenResourceError("the router has gone")
            await self._reader.park()
        messages, self._inbox = self._inbox, []
        if self.unsent:
            self.unsent = 0
            if self._router is not None:
                self._router.drained(self.identity)
        return messages

    def close(self) -> None:
        """End: the router gets what was sent to it, and then hears of the end. Tasks that wait get an error."""
        if not self.closed:
            self.closed = True
            if self._router is not None:
                self._router.wake(self)
            self._reader.unpark_all()
            self._writers.unpark_all()

    def _check(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this dealer is closed")

    def _connect(self) -> None:
        """Connect, unless another task has done so, or what it had is broken again."""
        if self._router is None and not self._broken:
            self._router = self._address.router
            if self._router is not None:
                self._router.connect(self)

    # For the router

    @property
    def has_sent(self) -> bool:
        """Whether something waits for the router."""
        return bool(self._sent)

    def take_sent(self, most: int) -> list[Frames]:
        """Return what it has sent, so many messages at most."""
        messages, self._sent = self._sent[:most], self._sent[most:]
        self._writers.unpark_all()
        return messages

    def put(self, messages: Sequence[Frames]) -> None:
        """Add messages from the router."""
        room = max(0, HIGH_WATER - len(self._inbox))
        self._inbox += messages
        if len(messages) > room:
            if not self.unsent:
                self.unsent_since = trio.current_time()
            self.unsent += sum(sum(map(len, frames)) for frames in messages[room:])
        self._reader.unpark_all()

    def disconnect(self) -> None:
        """Note that the router has gone, or has forgotten it."""
        self._router = None
        self._broken = not self.closed
        self._sent.clear()
        self.unsent = 0
        self._reader.unpark_all()
        self._writers.unpark_all()
