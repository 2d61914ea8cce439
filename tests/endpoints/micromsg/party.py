"""The parties of the contract that speak MicroMsg2: publishers with acks and without, and a consumer.

An ERROR that says "try again later", or that a destination is not there, ends a connection and not a client: the
publisher connects again, as ``open_micromsg`` does, and counts what was not acked as refused.
"""

from typing import ClassVar

import trio

from endpoints.contract import Consuming, Party, Publishing, Sent
from endpoints.micromsg.client import USUAL, WITHOUT_ACKS, MicroMsgPeer, listening, logging_in
from triomq.actors import ChildSpec
from triomq.endpoints import Endpoint, StreamListener
from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint
from triomq.protocols.micromsg import (
    CommandAnswered,
    EndOfStream,
    ErrorReceived,
    HandshakeExtension,
    MessagesAcked,
    MicroMessageRun,
    PropertyValue,
    encode_properties,
)

_WORTH_ANOTHER_TRY = (404, 503)
_DONE = 200


class MicroMsgParty(Party):
    optional: ClassVar[tuple[HandshakeExtension, ...]] = USUAL
    peer: MicroMsgPeer

    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children["micromsg"].actor
        assert isinstance(actor, MicroMsgEndpoint)
        return actor

    @property
    def listener(self) -> StreamListener:
        assert isinstance(self.own_endpoint, MicroMsgEndpoint)
        return self.own_endpoint.listener

    async def open_endpoint(self) -> None:
        if "micromsg" not in self.broker.endpoints.children:
            config = listening(user="")
            spec = ChildSpec(lambda: config.make(self.broker.context), name="micromsg")
            await self.broker.endpoints.start_child(spec)

    async def begin(self) -> None:
        await self.open_endpoint()
        settings = logging_in(optional=self.optional, window=32_000)
        self.peer = await MicroMsgPeer(self.connect(), settings).open(self.user)


class MicroMsgPublishing(MicroMsgParty, Publishing):
    optional = WITHOUT_ACKS
    acked = 0
    before = 0  # what was acked on earlier connections

    async def open(self, sink: str = "") -> None:
        self._sink = sink
        self.refused_before = 0
        await self.begin()
        self.nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        peer = self.peer
        while True:
            try:
                event = await peer.next()
            except (AssertionError, trio.BrokenResourceError, trio.ClosedResourceError):
                self.ended = True
                return
            match event:
                case MessagesAcked(up_to=up_to):
                    self.acked = up_to
                    self._tell()
                case ErrorReceived(code=code) if code in _WORTH_ANOTHER_TRY:
                    await self._begin_anew()
                    return
                case ErrorReceived() | EndOfStream():
                    self.ended = True
                    return

    async def _begin_anew(self) -> None:
        self.refused_before += self.peer.engine.sent - self.acked
        self.before += self.acked
        self.acked = 0
        await self.peer.hang_up()
        await self.begin()
        self.nursery.start_soon(self._listen)
        self._tell()

    def _tell(self) -> None:
        self.hear(taken=self.before + self.acked, refused=self.refused_before)

    def _write(self, message: Sent, key: str) -> None:
        values: dict[str, PropertyValue] = {"delivery-mode": 2 if message.persistent else 1}
        if message.header:
            values[message.header] = 1
        if self._sink:
            values["routing-key"] = key
        destination = f"topic/{self._sink}" if self._sink else f"queue/{key}"
        self.peer.engine.send_messages(destination, encode_properties(values), [message.body])

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        for message in messages:
            self._write(message, key)
        await self.peer.flush()

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        for message in messages:
            self._write(message, key)
        octets = b"".join(self.peer.engine.data_to_send())
        await self.peer.stream.send_all(octets[:-3])
        await self.peer.hang_up()


class MicroMsgConfirming(MicroMsgPublishing):
    optional = USUAL
    answers = True


class MicroMsgConsuming(MicroMsgParty, Consuming):
    goes_on = True
    _scope: trio.CancelScope

    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin()
        if await self.peer.subscribe(f"queue/{queue}") != _DONE:
            self.ended = True
            return
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        with self._scope:
            while True:
                try:
                    event = await self.peer.next()
                except (AssertionError, trio.BrokenResourceError, trio.ClosedResourceError):
                    self.ended = True
                    return
                match event:
                    case MicroMessageRun():
                        self.got += [shape.body(content) for shape, content in event.messages()]
                    case CommandAnswered(code=404):
                        self.cancelled = True
                    case ErrorReceived() | EndOfStream():
                        self.ended = True

    async def stop_reading(self) -> None:
        self._scope.cancel()

    async def hang_up(self) -> None:
        self._scope.cancel()
        await self.peer.hang_up()
