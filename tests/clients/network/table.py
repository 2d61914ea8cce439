"""The table: every client × what happens to its network × what it is doing then.

All cells of one fault are tried at once, beside one broker, each through a network of its own: so the time that clients
take to notice a silence is spent once. A cell says what it has seen, and a test looks at that.

    idle     nothing is done until the client has come back by itself; then it sends and receives
    sending  messages are sent all the time, and each that was confirmed is there in the end
    reading  a task waits for messages all the time, and gets each that is published, before and after
"""

import logging
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from itertools import count
from math import inf
from typing import Final, Literal, NamedTuple, TypeAlias

import trio

from clients.network.hosts import Hosts, open_hosts
from clients.network.kinds import KINDS, Client, Kind, Place
from network import LOCAL, Network, open_network
from triomq import AMQP, EMQP, MTL, Broker, MicroMsg, RestMS, WebSocket, open_broker
from triomq.endpoints import Tap

State: TypeAlias = Literal["idle", "sending", "reading"]

STATES: Final[tuple[State, ...]] = ("idle", "sending", "reading")

_SLACK: Final = 40.0
"""Seconds that coming back may take beside the silence: a machine that runs other tests too takes some of them."""

_QUIET: Final = 0.3
"""Seconds after which a client that has been given what there is waits for more, everything settled."""

_SOME: Final = 5
"""Messages before, and after."""


class Fault(NamedTuple):
    """What happens to a network.

    Args:
        name: What it is called in the table.
        strike: Does it.
        lasts: Seconds until it is over; it is lasting harm to connections that are open if 0.
        moves: Whether the broker has another address afterwards.
        is_heard: Whether the broker is still heard.
    """

    name: str
    strike: Callable[[Network], None]
    lasts: float = 0.0
    moves: bool = False
    is_heard: bool = False


def lossy(seconds: float) -> Fault:
    """Return a network that loses half of what is sent, for so long."""
    return Fault(f"{seconds:g} s of 50 % loss", lambda network: network.lose(0.5), lasts=seconds)


BLACK_HOLE: Final = Fault("black hole", Network.fall_silent)

FAULTS: Final = (
    Fault("reset", Network.reset),
    BLACK_HOLE,
    Fault("half-open", Network.break_for_clients),
    Fault("one way", Network.lose_words_of_clients, is_heard=True),
    Fault("address that changes", Network.vanish, moves=True),
    lossy(2.0),
)

_LIBZMQ: Final = (
    "libzmq looks names up by the C library, whose answers no test can change; each new socket does so, and over a "
    "stream of our own it will be tried as the others are"
)

_BLOCK: Final = "a direct connection is the block of a program: between two there is none"

_ONE_WAY: Final = "a direct connection carries messages one way"

_BY_LIBZMQ: Final = ("eMQP client", "eMQP worker", "MTL")


def why_not(kind: Kind, fault: Fault, state: State) -> str:
    """Return why there is no such cell; an empty text where there is one."""
    if fault.moves and kind.name in _BY_LIBZMQ:
        return _LIBZMQ
    if kind.name.startswith("DMP") and state == "idle":
        return _BLOCK
    if (kind.name, state) in (("DMP sink", "reading"), ("DMP feed", "sending")):
        return _ONE_WAY
    return ""


class Seen(NamedTuple):
    """What a cell has seen.

    Args:
        error: What was wrong; empty if nothing was.
        back_after: Seconds from the fault until it worked again.
        said: What the log had of it.
    """

    error: str
    back_after: float
    said: tuple[str, ...]


class _Cell:
    def __init__(self, kind: Kind, fault: Fault, state: State, network: Network, move: Callable[[], Network]) -> None:
        self.kind = kind
        self.fault = fault
        self.state = state
        self._network = network
        self._move = move
        self._numbers = count()
        self._struck_at = inf
        self.back_after = inf

    async def run(self, place: Place, client: Client) -> None:
        steps = {"idle": self._idle, "sending": self._send, "reading": self._read}
        await steps[self.state](place, client)

    def _body(self) -> bytes:
        return f"{self.state}-{next(self._numbers):06}".encode()

    async def _strike(self) -> None:
        """Break the network; return when it is over, or at once if it is broken for good."""
        self._struck_at, count = trio.current_time(), self._network.count
        self.fault.strike(self._network)
        if self.fault.moves:
            self._network, count = self._move(), 0
        if self.fault.lasts:
            await trio.sleep(self.fault.lasts)
            self._network.lose(0.0)
        self._count = count

    def _is_back(self) -> None:
        self.back_after = trio.current_time() - self._struck_at - self.fault.lasts

    async def _publish(self, place: Place, source: str) -> bytes:
        body = self._body()
        if self.kind.publish is not None:
            await self.kind.publish(place, source, body)
        else:
            await place.broker.publish("", source, body)
        return body

    async def _trip(self, place: Place, client: Client) -> None:
        await client.send(self._body())
        body = await self._publish(place, client.source)
        while await client.receive() != body:
            pass

    async def _idle(self, place: Place, client: Client) -> None:
        await self._trip(place, client)
        await trio.sleep(_QUIET)
        await self._strike()
        await self._wait_returned()
        await self._trip(place, client)
        self._is_back()

    async def _wait_returned(self) -> None:
        """Wait until the client has connected again, if it does that by itself."""
        may_notice = self.kind.speaks or not self.fault.is_heard
        if self.kind.returns and may_notice and not self.fault.lasts:
            await trio.to_thread.run_sync(self._network.wait_for, self._count + 1, abandon_on_cancel=True)

    async def _send(self, place: Place, client: Client) -> None:
        confirmed: list[bytes] = []

        async def send() -> None:
            while True:
                body = self._body()
                await client.send(body)
                confirmed.append(body)
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await _until(lambda: len(confirmed) >= _SOME)
            await self._strike()
            there = len(confirmed)
            await _until(lambda: len(confirmed) > there + 1)  # the first may have been on its way back
            self._is_back()
            await _until(lambda: len(confirmed) >= there + _SOME)
            nursery.cancel_scope.cancel()
        if self.kind.keeps:
            lost = set(confirmed) - await _bodies(place, is_stream=self.kind.is_stream)
            assert not lost, f"confirmed and not there: {sorted(lost)}"

    async def _read(self, place: Place, client: Client) -> None:
        got: list[bytes] = []

        async def read() -> None:
            while True:
                got.append(await client.receive())

        published = {await self._publish(place, client.source) for _ in range(_SOME)}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await _until(lambda: published <= set(got))
            await trio.sleep(_QUIET)
            await self._strike()
            if self.kind.settles:
                published |= {await self._publish(place, client.source) for _ in range(_SOME)}
                await _until(lambda: published <= set(got))
                await self._wait_returned()
                published.add(await self._publish(place, client.source))
                await _until(lambda: published <= set(got))
            else:
                await self._until_new(place, client, got)
            self._is_back()
            nursery.cancel_scope.cancel()

    async def _until_new(self, place: Place, client: Client, got: list[bytes]) -> None:
        """Publish until something of it has come."""
        new: set[bytes] = set()
        while new.isdisjoint(got):
            new.add(await self._publish(place, client.source))
            await trio.sleep(0.05)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # what it looks at is done by threads, and by another program's network
        await trio.sleep(0.01)


async def _bodies(place: Place, *, is_stream: bool) -> set[bytes]:
    """Return what is in a queue, or a stream."""
    if is_stream:
        return {bytes(record.body) async for record in place.broker.stream(place.queue).read(wait=False)}
    found, after = set(), -1
    while page := await place.broker.queue(place.queue).browse(after=after, limit=500):
        found |= {bytes(message.body) for message in page}
        after = page[-1].id
    return found


class _Table:
    """All cells of one fault, beside one broker."""

    def __init__(self, fault: Fault, broker: Broker, hosts: Hosts) -> None:
        self._fault = fault
        self._broker = broker
        self._hosts = hosts
        self._numbers = count(1)
        self._ports = ports_of(broker)
        self.places: dict[str, tuple[str, State]] = {}
        self.seen: dict[tuple[str, State], Seen] = {}

    async def run(self, log: "_Log") -> None:
        async with trio.open_nursery() as nursery:
            for kind in KINDS:
                for state in STATES:
                    if not why_not(kind, self._fault, state):
                        nursery.start_soon(self._run_cell, kind, state, log)

    async def _run_cell(self, kind: Kind, state: State, log: "_Log") -> None:
        number = next(self._numbers)
        name, addresses = f"broker-{number}.test", iter((f"127.1.{number}.1", f"127.1.{number}.2"))
        ports = self._ports[kind.protocol]
        error, cell = "", None
        with open_network(*ports, host=next(addresses)) as network:
            others: list[Network] = []

            def move() -> Network:
                other = others[0]
                self._hosts.addresses[name] = other.host
                return other

            with open_network(*ports, host=next(addresses)) as other:
                others.append(other)
                self._hosts.addresses[name] = network.host
                host = name if self._fault.moves else network.host
                place = Place(self._broker, host, self._ports, f"q{number}")
                await declare(self._broker, kind, place.queue)
                cell = _Cell(kind, self._fault, state, network, move)
                limit = self._fault.lasts + kind.silent + _SLACK
                try:
                    with trio.fail_after(limit):
                        async with kind.open(place) as client:
                            await cell.run(place, client)
                except* Exception as group:
                    error = "".join(traceback.format_exception(group))
        self.seen[kind.name, state] = Seen(error, cell.back_after, log.of(host))


async def declare(broker: Broker, kind: Kind, queue: str) -> None:
    """Declare what a client works with."""
    for name in (queue, f"{queue}-in"):
        if kind.is_stream:
            await broker.declare_stream(name, durable=False)
        else:
            await broker.declare_queue(name, durable=False)


class _Log(logging.Handler):
    """What clients say of their connections, by the host that they go to."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def of(self, host: str) -> tuple[str, ...]:
        fields = [
            (record.getMessage(), str(getattr(record, "fields", {}).get("place", ""))) for record in self._records
        ]
        return tuple(text for text, place in fields if f"{host}:" in place)


def ports_of(broker: Broker) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for listening in broker.listening:
        config = listening.config
        name = type(config).__name__.lower() + ("/ws" if getattr(config, "websocket", None) else "")
        ports = {address[1] for address in listening.addresses if isinstance(address, tuple)}
        found[name] = (listening.port, *sorted(ports - {listening.port}))
    return found


@asynccontextmanager
async def open_served() -> AsyncIterator[Broker]:
    endpoints = (
        AMQP(host=LOCAL, port=0),
        AMQP(host=LOCAL, port=0, websocket=WebSocket(path="/amqp")),
        EMQP(host=LOCAL, port=0, heartbeat=0.3, silence=2.5),
        MTL(host=LOCAL, port=0, heartbeat=0.3, silence=2.5),
        MicroMsg(host=LOCAL, port=0, heartbeat=0.5),
        MicroMsg(host=LOCAL, port=0, heartbeat=0.5, websocket=WebSocket(path="/micromsg")),
        RestMS(host=LOCAL, port=0),
        Tap(host=LOCAL, port=0),
    )
    async with open_broker(*endpoints, drain=0.5) as broker:
        yield broker


@lru_cache(maxsize=1)
def try_all(fault: Fault) -> Mapping[tuple[str, State], Seen]:
    """Try all clients with a fault, in all states; what each has seen."""

    async def main() -> Mapping[tuple[str, State], Seen]:
        log = _Log()
        logger = logging.getLogger("triomq.clients")
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(log)
        try:
            with open_hosts() as hosts:
                async with open_served() as broker:
                    table = _Table(fault, broker, hosts)
                    await table.run(log)
                    return table.seen
        finally:
            logger.removeHandler(log)
            logger.setLevel(level)

    return trio.run(main)
