"""The ROUTER toy's parties of the contract.

The threads of libzmq know nothing of virtual time. So time goes on as it does, and a test that wants it to pass lets it
jump by a second, and waits until the broker has answered after each jump: a peer that is alive is never silent.
"""

from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

import trio
import trio.testing

from endpoints.contract import Consuming, OwnEndpointParty, Publishing, Sent
from endpoints.toys.router import RouterToyClient, RouterToyEndpoint, RouterToys
from endpoints.toys.router_peer import RouterPeer
from triomq.app import Broker
from triomq.transports.zmq import Frames

_parties: "WeakKeyDictionary[Broker, list[RouterParty]]" = WeakKeyDictionary()
"""Those of each broker: when time jumps for one of them it does so for all."""


class RouterParty(OwnEndpointParty):
    config = RouterToys
    has_threads = True
    cushion = 0.005
    peer: RouterPeer
    _deaf = False  # it reads nothing, or has gone

    async def begin(self) -> None:
        await self.open_endpoint()
        self._port = self._port_now()
        self.peer = RouterPeer(self._port, self.user, came=self.came)
        self._missing = 0  # seconds without an answer
        self.nursery.start_soon(self.peer.run)
        assert await self.peer.is_let_in(), "the authenticator refuses"
        await self.peer.call(b"HELLO")
        _parties.setdefault(self.broker, []).append(self)

    def came(self, frames: Frames) -> None:
        if frames[0] == b"BYE" or frames[2:3] in ([b"Forbidden"], [b"QueueLocked"], [b"NoSuchQueue"]):
            self.ended = True

    def _port_now(self) -> int:
        endpoint = self.own_endpoint
        assert isinstance(endpoint, RouterToyEndpoint)
        return endpoint.listener.port

    async def settled(self) -> None:
        if not (self._deaf or self.ended):
            await self.peer.call(b"PING")  # which comes behind everything that this peer has sent
        await super().settled()

    async def passes(self, seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for _ in range(int(seconds)):
            clock.jump(1)
            for party in _parties[self.broker]:
                await party._say_and_hear()

    async def _say_and_hear(self) -> None:
        """Show the broker that this peer is alive, and count for how long the broker shows nothing."""
        patience = 0.7 if self._port_now() == self._port else 0.0  # otherwise the endpoint was bound anew
        with trio.move_on_after(patience) as waiting:  # it may just be crashing
            await self.settled()
        self._missing = self._missing + 1 if waiting.cancelled_caught else 0
        self.ended = self.ended or self._missing >= RouterToyClient.silence

    async def lasts(self, function: Callable[[], Awaitable[None]], seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.passes, seconds)
            await function()
            nursery.cancel_scope.cancel()


class RouterPublishing(RouterParty, Publishing):
    answers = True
    is_read = False  # all peers of a ROUTER are, or none
    cushion = 0.01

    async def open(self, sink: str = "") -> None:
        self._sink = sink.encode()
        self._sent: set[bytes] = set()
        await self.begin()

    def came(self, frames: Frames) -> None:
        super().came(frames)
        if frames[0] in (b"OK", b"ERR") and frames[1] in self._sent:
            refused = frames[0] == b"ERR"
            self.hear(taken=self.taken + (not refused), refused=self.refused + refused)

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        for number, message in enumerate(messages, len(self._sent)):
            persistent = b"yes" if message.persistent else b"no"
            self._sent.add(b"p%d" % number)
            header = message.header.encode()
            await self.peer.say(b"PUB", b"p%d" % number, self._sink, key.encode(), persistent, header, message.body)

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        await self.peer.say(b"PUB", b"half", self._sink, key.encode(), b"yes", messages[-1].header.encode())
        await self.settled()
        self._deaf = True
        await self.peer.close()


class RouterConsuming(RouterParty, Consuming):
    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin()
        if not self.ended:
            await self.peer.call(b"SUB", queue.encode())

    def came(self, frames: Frames) -> None:
        super().came(frames)
        if frames[0] == b"MSG":
            self.got.append(frames[2])
        self.cancelled = self.cancelled or frames[0] == b"END"

    async def stop_reading(self) -> None:
        self._deaf = True
        self.peer.stop_reading()

    async def hang_up(self) -> None:
        self._deaf = True
        await self.peer.close()
