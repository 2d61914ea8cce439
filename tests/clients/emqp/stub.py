"""A broker of which a test says all words: an engine, and a socket in memory that hands on what is sent at once."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import TypeVar

import trio
import trio.testing

from triomq.clients import EMQPConnection, EMQPWorker, open_emqp, open_emqp_worker
from triomq.protocols.emqp import BrokerEngine, Event, Frames, Informed, MessageDropped, Settings, message_ids

E = TypeVar("E")


class StubSocket:
    def __init__(self, broker: "StubBroker") -> None:
        self.closed = False
        self.is_broken = False
        self.incoming: deque[Frames] = deque()
        self._broker = broker
        self._lot = trio.lowlevel.ParkingLot()

    def send_all(self, messages: Sequence[Frames]) -> int:
        if not self._broker.is_there:
            return 0
        for frames in messages:
            self._broker.hear(frames)
        return len(messages)

    async def receive(self) -> Sequence[Sequence[bytes]]:
        while not self.incoming:
            if self.closed:
                raise trio.ClosedResourceError
            if self.is_broken:
                self.is_broken = False
                raise trio.BrokenResourceError
            await self._lot.park()
        messages = list(self.incoming)
        self.incoming.clear()
        return messages

    async def wait_connected(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self._broker.is_there:
            await self._lot.park()

    async def aclose(self) -> None:
        self.closed = True
        self.wake()
        await trio.lowlevel.checkpoint()

    def wake(self) -> None:
        self._lot.unpark_all()


class StubBroker:
    """An ``EMQPConnector`` of one peer, whose INFORM it acknowledges."""

    name = "stubborn"
    place = "stub"
    timeout = 5.0
    trouble = "the stub is silent"
    socket: StubSocket

    def __init__(self, capabilities: tuple[str, ...], max_message_size: int = 10_000) -> None:
        self.capabilities = capabilities
        self._max_message_size = max_message_size
        self.is_there = True
        self.new_engine()

    def new_engine(self) -> None:
        settings = Settings(capabilities=self.capabilities, heartbeat=inf, silence=inf, parting=inf)
        self.engine = BrokerEngine(message_ids(b"b"), now=0.0, unix_time=0.0, settings=settings)
        self._events: list[Event] = []

    def settings(self) -> Settings:
        return Settings(heartbeat=inf, silence=inf, parting=inf, max_message_size=self._max_message_size)

    def connect(self, identity: str, nursery: trio.Nursery) -> StubSocket:
        self.socket = StubSocket(self)
        return self.socket

    def hear(self, frames: Frames) -> None:
        event = self.engine.receive(frames)
        assert not isinstance(event, MessageDropped), event
        if event is not None:
            self._events.append(event)
        if isinstance(event, Informed):
            self.engine.acknowledge(event.msgid)
            self._speak()

    async def heard(self, kind: type[E]) -> list[E]:
        """Return what has come of one kind since the last time, once nobody has anything to do."""
        await self.spoken()
        found = [event for event in self._events if isinstance(event, kind)]
        self._events = [event for event in self._events if not isinstance(event, kind)]
        return found

    async def spoken(self) -> None:
        """Say what the engine has to say, and wait until it was heard."""
        self._speak()
        await trio.testing.wait_all_tasks_blocked()

    def _speak(self) -> None:
        self.socket.incoming += [*self.engine.messages_to_send(), *self.engine.notices_to_send()]
        self.socket.wake()

    async def go(self) -> None:
        """Crash."""
        self.is_there = False
        self.socket.is_broken = True
        self.socket.wake()
        await trio.testing.wait_all_tasks_blocked()

    async def come(self) -> None:
        """Be there again, knowing nothing."""
        self.new_engine()
        self.is_there = True
        self.socket.wake()
        await self.spoken()


@asynccontextmanager
async def stubbed_client(
    *, capabilities: tuple[str, ...] = ("jobs",)
) -> AsyncIterator[tuple[EMQPConnection, StubBroker]]:
    broker = StubBroker(capabilities)
    with trio.fail_after(1000):  # seconds of virtual time: what waits for ever ends at once
        async with open_emqp(broker) as emqp:
            yield emqp, broker


@asynccontextmanager
async def stubbed_worker(
    *, slots: int = 1, capabilities: tuple[str, ...] = ("jobs",), max_message_size: int = 10_000
) -> AsyncIterator[tuple[EMQPWorker, StubBroker]]:
    broker = StubBroker(capabilities, max_message_size)
    with trio.fail_after(1000):
        async with open_emqp_worker(broker, ["q"], slots=slots) as worker:
            yield worker, broker
