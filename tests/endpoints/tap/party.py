"""tap as a party of the contract: it reads a stream, where other consumers read a queue."""

import trio

from endpoints.contract import Consuming
from endpoints.tap.client import TapParty, declare_stream, records_from
from triomq.actors import ChildSpec
from triomq.endpoints import Endpoint, StreamListener, Tap
from triomq.endpoints.tap.endpoint import TapEndpoint
from triomq.protocols.tap import RecordsAnswered


class TapConsuming(Consuming):
    settles = False
    keeps = True
    goes_on = True
    tap: TapParty
    _scope: trio.CancelScope

    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children["tap"].actor
        assert isinstance(actor, TapEndpoint)
        return actor

    @property
    def listener(self) -> StreamListener:
        assert isinstance(self.own_endpoint, TapEndpoint)
        return self.own_endpoint.listener

    async def open(self, queue: str = "q") -> None:
        if "tap" not in self.broker.endpoints.children:
            config = Tap(host="127.0.0.1", port=0)
            await self.broker.endpoints.start_child(ChildSpec(lambda: config.make(self.broker.context), name="tap"))
        if queue not in self.broker.directory.queues:
            declare_stream(self.broker, queue)
        self.tap = await TapParty(self.connect(), self.user).open()
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._read, queue)

    async def _read(self, stream: str) -> None:
        place = 0
        with self._scope:
            while True:
                self.tap.fetch(place, stream=stream, wait=60_000)
                try:
                    answer = await self.tap.next()
                except (AssertionError, trio.BrokenResourceError, trio.ClosedResourceError):  # the stream has ended
                    self.ended = True
                    return
                if isinstance(answer, RecordsAnswered):
                    for record in records_from(place, answer):
                        place = record.offset + 1
                        self.got.append(record.value)
                else:
                    self.ended = True  # refused, or put out
                    return

    async def stop_reading(self) -> None:
        self._scope.cancel()

    async def hang_up(self) -> None:
        self._scope.cancel()
        await self.tap.stream.aclose()
