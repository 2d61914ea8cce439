"""The parties of the contract that speak eMQP: a client that sends REQUESTs, and a worker.

Passwords by PLAIN, so that there are users; time as for the ROUTER toy.
"""

from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

import trio
import trio.testing
import zmq

from endpoints.contract import Consuming, OwnEndpointParty, Publishing, Sent
from endpoints.emqp.raw import Heard, RawPeer, is_answer
from triomq.actors import ChildSpec, Ref
from triomq.app import Broker
from triomq.endpoints import EMQP, Endpoint
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.endpoints.emqp.peer import EMQPPeer

_SILENCE = 4.0

_parties: "WeakKeyDictionary[Broker, list[EMQPParty]]" = WeakKeyDictionary()
"""Those of each broker: when time jumps for one of them it does so for all."""


class EMQPParty(OwnEndpointParty):
    has_threads = True
    cushion = 0.005
    peer: RawPeer
    _deaf = False  # it reads nothing, or has gone

    @property
    def _name(self) -> str:
        return "emqp"

    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children[self._name].actor
        assert isinstance(actor, EMQPEndpoint)
        return actor

    @property
    def clients(self) -> list[Ref]:
        return [ref for ref in super().clients if isinstance(ref.actor, EMQPPeer)]  # not the endpoint's scheduler

    async def open_endpoint(self) -> None:
        if self._name not in self.broker.endpoints.children:
            config = EMQP(port=0, security="plain", heartbeat=1.0, silence=_SILENCE)
            await self.broker.endpoints.start_child(ChildSpec(lambda: config.make(self.broker.context), name="emqp"))

    async def begin(self) -> None:
        await self.open_endpoint()
        self._port = self._port_now()
        self.peer = RawPeer(self._port, prepare=self._log_in)
        self.peer.took = self.took  # type: ignore[method-assign]
        self._missing = 0
        self._questions: set[bytes] = set()
        watch = self.peer.monitor()
        self.nursery.start_soon(self.peer.run)
        assert await watch(), "the authenticator refuses"
        await self.inform()
        _parties.setdefault(self.broker, []).append(self)

    def _log_in(self, socket: zmq.Socket[bytes]) -> None:
        socket.plain_username = socket.plain_password = self.user.encode()
        socket.setsockopt(zmq.RCVBUF, 4096)
        socket.set_hwm(10)

    async def inform(self) -> None:
        """Say what it is."""
        raise NotImplementedError

    async def answer_all(self) -> None:
        """Answer what it has: a broker that goes waits for that."""
        for request in self.peer.of(b"REQUEST"):
            await self.peer.reply(request)

    def took(self, heard: Heard) -> None:
        if heard.command == b"ERROR" and heard.rest[1] == b"forbidden" and heard.rest[0] not in self._questions:
            self.ended = True
        if heard.command == b"KBAI":
            self.ended = True
            if self.own_endpoint.is_stopping:
                self.nursery.start_soon(self.answer_all)

    def _port_now(self) -> int:
        endpoint = self.own_endpoint
        assert isinstance(endpoint, EMQPEndpoint)
        return endpoint.listener.port

    async def settled(self) -> None:
        if not (self._deaf or self.ended):
            # A question comes behind everything that this peer has sent; who may not ask it is answered as well.
            question = b"q%d" % len(self._questions)
            self._questions.add(question)
            await self.peer.send(b"STATUS", msgid=question)
            await self.peer.until(lambda: self.ended or any(is_answer(heard, question) for heard in self.peer.heard))
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
            await super().settled()  # what it says after its end would be another peer's
            await self.settled()
        self._missing = self._missing + 1 if waiting.cancelled_caught else 0
        self.ended = self.ended or self._missing >= _SILENCE

    async def lasts(self, function: Callable[[], Awaitable[None]], seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._passes_from_now, seconds)
            await function()
            nursery.cancel_scope.cancel()

    async def _passes_from_now(self, seconds: float) -> None:
        await super().settled()
        await self.passes(seconds)


class EMQPPublishing(EMQPParty, Publishing):
    answers = True
    cushion = 0.05  # for the store's thread or process; questions overtake what is parked
    declares = True
    names_sinks = False
    is_read = False

    async def open(self, sink: str = "") -> None:
        self._sent: set[bytes] = set()
        await self.begin()

    async def inform(self) -> None:
        await self.peer.join()

    def took(self, heard: Heard) -> None:
        super().took(heard)
        if heard.command in (b"ACK", b"ERROR") and heard.rest[0] in self._sent:
            refused = heard.command == b"ERROR"
            self.hear(taken=self.taken + (not refused), refused=self.refused + refused)

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        for message in messages:
            msgid = b"p%d" % len(self._sent)
            self._sent.add(msgid)
            await self.peer.request(message.body, key, b"guarantee" if message.persistent else b"", msgid=msgid)

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        await self.peer.say(b"", b"eMQP/1.0", b"REQUEST", b"half", key.encode())
        await self.settled()
        self._deaf = True
        await self.peer.close()


class EMQPConsuming(EMQPParty, Consuming):
    async def open(self, queue: str = "q") -> None:
        self._queue = queue
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin()

    async def inform(self) -> None:
        about = b'{"v": 1, "capabilities": ["jobs"]}'
        msgid = await self.peer.send(b"INFORM", f'[[10, "{self._queue}"]]'.encode(), b"worker", about)
        if (await self.peer.answer_to(msgid)).command == b"ACK":
            await self.peer.send(b"READY", b"100000")

    def took(self, heard: Heard) -> None:
        super().took(heard)
        if heard.command == b"REQUEST":
            self.got.append(heard.rest[2])
        self.cancelled = self.cancelled or (heard.command == b"ERROR" and heard.rest[1] == b"inform")

    async def stop_reading(self) -> None:
        self._deaf = True
        self.peer.stop_reading()

    async def hang_up(self) -> None:
        self._deaf = True
        await self.peer.close()
