"""The HTTP toy's parties of the contract, over streams in memory and in virtual time."""

import trio

from endpoints.contract import Consuming, OwnEndpointParty, Publishing, Sent
from endpoints.toys.http import HTTPToyEndpoint, HTTPToys
from endpoints.toys.http_peer import HTTPPeer, Reply
from triomq.endpoints import StreamListener


class HTTPParty(OwnEndpointParty):
    config = HTTPToys
    session = ""

    @property
    def listener(self) -> StreamListener:
        endpoint = self.own_endpoint
        assert isinstance(endpoint, HTTPToyEndpoint)
        return endpoint.listener

    async def begin(self) -> None:
        await self.open_endpoint()
        reply = await self.ask("POST", "/sessions")
        assert reply.status != 401, "the password is refused"
        if reply.status == 201:
            self.session = reply.headers["location"]
        else:
            self.ended = True

    async def ask(self, method: str, path: str) -> Reply:
        """Send one request, over a connection of its own."""
        async with self.connect() as stream:
            return await HTTPPeer(stream, self.user).ask(method, path)


class PublishingOverHTTP(Publishing):
    """Each message comes over a connection of its own: on one they would wait for each other."""

    answers = True
    is_read = False  # each request is answered when its message has its place, and its client publishes from tasks
    taken_by: int
    """The status of the answer to a message that was taken."""

    def encode(self, peer: HTTPPeer, message: Sent, key: str) -> bytes:
        """Return the request that publishes a message."""
        raise NotImplementedError

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        for message in messages:
            self.nursery.start_soon(self._publish, message, key)
            await self.settled()

    async def _publish(self, message: Sent, key: str) -> None:
        async with self.connect() as stream:
            peer = HTTPPeer(stream, self.user)
            await stream.send_all(self.encode(peer, message, key))
            status = (await peer.reply()).status
        self.ended = self.ended or status == 403
        is_taken = status == self.taken_by
        self.hear(taken=self.taken + is_taken, refused=self.refused + (not is_taken))

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        async with self.connect() as stream:
            await stream.send_all(self.encode(HTTPPeer(stream, self.user), messages[-1], key)[:-3])


class HTTPPublishing(HTTPParty, PublishingOverHTTP):
    taken_by = 204

    async def open(self, sink: str = "") -> None:
        self._sink = sink or "-"
        await self.begin()

    def encode(self, peer: HTTPPeer, message: Sent, key: str) -> bytes:
        headers = {"X-Persistent": "yes" if message.persistent else "no", "X-Header": message.header}
        return peer.encode("POST", f"{self.session}/sinks/{self._sink}/{key}", message.body, headers)

    async def is_put_out(self) -> bool:
        return (await self.ask("POST", "/sessions")).status == 401


class HTTPConsuming(HTTPParty, Consuming):
    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin()
        self._polling = trio.CancelScope()
        if not self.ended:
            self.nursery.start_soon(self._poll, queue)

    async def _poll(self, queue: str) -> None:
        with self._polling:
            async with self.connect() as stream:
                peer = HTTPPeer(stream, self.user)
                while (reply := await peer.ask("GET", f"{self.session}/queues/{queue}")).status in (200, 204):
                    if reply.status == 200:
                        self.got.append(reply.body)
            self.cancelled = reply.status == 410
            self.ended = not self.cancelled

    async def stop_reading(self) -> None:
        self._polling.cancel()

    async def hang_up(self) -> None:
        self._polling.cancel()
