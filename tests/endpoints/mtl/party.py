"""The parties of the contract that speak MTL: a writer with confirms, and a reader.

Time as for the ROUTER toy. Each of them has a question that is always answered, and by 403 if it has lost its lease.
"""

from collections.abc import Awaitable, Callable

import trio
import trio.testing
import zmq

from endpoints.contract import Consuming, OwnEndpointParty, Publishing, Sent
from endpoints.mtl.plain import PlainQueues
from endpoints.mtl.raw import RawControl, RawData
from peers.mtl_peer import Command, encode
from triomq.actors import ChildSpec, Ref
from triomq.endpoints import MTL, Client, Endpoint
from triomq.endpoints.mtl.endpoint import MTLEndpoint
from triomq.transports.zmq import Frames

_SILENCE = 4.0

_TRIES = 10

_PATIENCE = 0.5
"""Seconds that an answer may take before the question counts as lost; real ones."""


class PartyData(RawData):
    """A data peer that tells its party what comes."""

    def __init__(self, port: int, took: Callable[[Command], None]) -> None:
        super().__init__(port, _hold_little)
        self._took = took

    async def _take(self, frames: Frames) -> None:
        await super()._take(frames)
        self._took(self.heard[-1])


def _hold_little(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.RCVBUF, 4096)
    socket.set_hwm(10)


class MTLParty(OwnEndpointParty):
    has_threads = True
    cushion = 0.005
    data: RawData
    _token = ""
    _deaf = False  # it reads nothing, or has gone

    @property
    def _name(self) -> str:
        return "mtl"

    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children[self._name].actor
        assert isinstance(actor, MTLEndpoint)
        return actor

    @property
    def clients(self) -> list[Ref]:
        return [ref for ref in super().clients if isinstance(ref.actor, Client) and ref.actor.entered]

    async def open_endpoint(self) -> None:
        if self._name not in self.broker.endpoints.children:
            config = MTL(port=0, heartbeat=1.0, silence=_SILENCE, profiles=(PlainQueues,))
            await self.broker.endpoints.start_child(ChildSpec(lambda: config.make(self.broker.context), name="mtl"))

    async def begin(self, direction: str, resource: str) -> bool:
        """Log in, and get leases: one to see whether the user may, and one for whatever it will use."""
        await self.open_endpoint()
        endpoint = self.own_endpoint
        assert isinstance(endpoint, MTLEndpoint)
        self.control = RawControl(endpoint.control.port)
        self.nursery.start_soon(self._close_later, self.control)
        await self.control.work_with("plain", self.user)
        reply = await self.control.ask(f"Connection.{direction}", resources=[resource], confirm="full")
        if reply.code == 403:
            self.ended = True
            return False
        leased = await self.control.lease(direction, confirm="full", prefetch=1000)
        self._token, self._questions = leased["lease"], 10_000_000
        self.data = PartyData(endpoint.data.port, self.took)
        self.nursery.start_soon(self._close_later, self.data)
        self.nursery.start_soon(self.data.run)
        assert await self.data.ask("lease", 1, self._token) == 200
        return True

    async def _close_later(self, peer: RawControl | RawData) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await peer.close()

    def took(self, command: Command) -> None:
        """Hear a command."""

    async def settled(self) -> None:
        if self._token and not (self._deaf or self.ended):
            self.ended = self.ended or await self._ask() == 403
        await super().settled()

    async def _ask(self) -> int:
        """Ask a question, again if it is lost with its connection, and return the code of its answer."""
        for _ in range(_TRIES):
            self._questions += 1
            with trio.move_on_after(_PATIENCE):
                await self.data.send(self.question(self._questions))
                return await self.data.response(self._questions)
        return 403  # nobody is there any more

    def question(self, number: int) -> Command:
        """Return what is always answered."""
        raise NotImplementedError

    async def is_put_out(self) -> bool:
        await self.settled()
        return self.ended

    async def passes(self, seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for _ in range(int(seconds)):
            clock.jump(1)
            await super().settled()
            await self.settled()

    async def lasts(self, function: Callable[[], Awaitable[None]], seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._passes_from_now, seconds)
            await function()
            nursery.cancel_scope.cancel()

    async def _passes_from_now(self, seconds: float) -> None:
        await super().settled()
        await self.passes(seconds)


class MTLPublishing(MTLParty, Publishing):
    answers = True
    cushion = 0.05  # for the store's thread or process; questions overtake what is parked
    is_read = False

    async def open(self, sink: str = "") -> None:
        self._sink = sink
        self._sent = 0
        self._confirmed: set[int] = set()
        self._rejected: set[int] = set()
        await self.begin("Writer", f"{sink}/q" if sink else "q")

    def took(self, command: Command) -> None:
        if command.kind == "confirm":
            first = 1 if command.multiple else command.sequence
            self._confirmed |= set(range(first, command.sequence + 1)) - self._rejected
        elif command.kind == "reject":
            self._rejected.add(command.sequence)
        self.hear(taken=len(self._confirmed), refused=len(self._rejected))

    def question(self, number: int) -> Command:
        return Command("lease", number, self._token)  # it overtakes what is parked

    def _content(self, message: Sent, key: str) -> Command:
        self._sent += 1
        properties: dict[str, object] = {"delivery-mode": 2} if message.persistent else {}
        if message.header:
            properties["headers"] = {message.header: 1}
        resource = f"{self._sink}/{key}" if self._sink else key
        return Command("content", self._sent, resource, properties, body=message.body)

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        await self.data.send(*[self._content(message, key) for message in messages])

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        await self.data.say(encode(self._content(messages[-1], key))[0])
        await self.settled()
        self._deaf = True
        await self.data.close()


class MTLConsuming(MTLParty, Consuming):
    goes_on = True

    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        if await self.begin("Reader", queue):
            assert await self.data.ask("summon", 2, queue) == 200

    def took(self, command: Command) -> None:
        if command.kind == "content":
            self.got.append(command.body)
        self.cancelled = self.cancelled or (command.kind, command.sequence, command.body) == ("response", 2, b"404")

    def question(self, number: int) -> Command:
        return Command("dismiss", number, "nothing")

    async def stop_reading(self) -> None:
        self._deaf = True
        self.data.stop_reading()

    async def hang_up(self) -> None:
        self._deaf = True
        await self.data.close()
