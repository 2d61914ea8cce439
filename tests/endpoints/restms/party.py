"""RestMS as a party of the contract, over streams in memory."""

from base64 import b64decode

import trio

from endpoints.contract import Consuming, Party, Sent
from endpoints.restms.caller import DOMAIN, Caller, PipeCaller, path_of, read
from endpoints.toys.http_party import PublishingOverHTTP
from endpoints.toys.http_peer import HTTPPeer
from triomq.actors import ChildSpec
from triomq.endpoints import Endpoint, StreamListener
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.restms.endpoint import RestMSEndpoint
from triomq.protocols import restms

_NAME = "restms"


class RestMSParty(Party):
    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children[_NAME].actor
        assert isinstance(actor, RestMSEndpoint)
        return actor

    @property
    def listener(self) -> StreamListener:
        assert isinstance(self.own_endpoint, RestMSEndpoint)
        return self.own_endpoint.listener

    async def begin(self) -> None:
        if _NAME not in self.broker.endpoints.children:
            config = RestMS(host="127.0.0.1", port=0, pipe_expires=2.0, window=1000)
            await self.broker.endpoints.start_child(ChildSpec(lambda: config.make(self.broker.context), name=_NAME))
        self.caller = self.new_caller()
        reply = await self.caller.get(DOMAIN)
        assert reply.status != 401, "the password is refused"
        assert reply.status == 200, reply

    def new_caller(self) -> Caller:
        caller = Caller.__new__(Caller)
        caller.stream = self.connect()
        caller.peer = HTTPPeer(caller.stream, self.user)
        return caller


class RestMSPublishing(RestMSParty, PublishingOverHTTP):
    taken_by = 200
    names_sinks = False  # it names them, but its headers are texts, and the contract's are numbers

    async def open(self, sink: str = "") -> None:
        self._feed = f"/restms/feed/{sink or 'default'}"
        await self.begin()

    def encode(self, peer: HTTPPeer, message: Sent, key: str) -> bytes:
        mode = 2 if message.persistent else 1
        content = message.body.replace(b"\0", b"0")
        if len(content) > 1 << 16:
            content = content[: 1000 * 1000]  # a document has no room for more
        body = b'<restms><message address="%b" delivery_mode="%d"><content>' % (key.encode(), mode)
        body += content + b"</content></message></restms>"
        return peer.encode("POST", self._feed, body, {"Content-Type": "text/xml"})

    async def is_put_out(self) -> bool:
        return (await self.caller.get(DOMAIN)).status in (0, 401)


class RestMSConsuming(RestMSParty, Consuming):
    """A pipe that is joined to a shared queue, and read without deleting anything."""

    goes_on = True

    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin()
        self._scope = trio.CancelScope()
        reply = await self.caller.post(DOMAIN, "<pipe/>")
        if reply.status != 201:
            self.ended = True
            return
        self.pipe = PipeCaller(self.caller, path_of(reply.headers["location"]))
        reply = await self.caller.post(self.pipe.path, f'<join feed="/restms/feed/{queue}"/>')
        if reply.status != 201:
            self.ended = True
            return
        self.nursery.start_soon(self._read)
        await self.settled()

    async def _read(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                await self._poll(PipeCaller(self.new_caller(), self.pipe.path))
                self.ended = True
                nursery.cancel_scope.cancel()

    async def _poll(self, pipe: PipeCaller) -> None:
        """Read message after message, the asynclet last, until there is no pipe, or no broker."""
        seen: set[str] = set()
        async with pipe.caller.stream:
            while (reply := await pipe.caller.get(pipe.path)).status == 200:
                hrefs = [message.href or "" for message in read(reply).pipes[0].messages]
                for href in [href for href in hrefs if href not in seen]:
                    reply = await pipe.caller.get(href)
                    if reply.status == 200:
                        seen.add(href)
                        self.got.append(body_of(read(reply).messages[0]))
                    elif reply.status != 404:  # else its queue has taken it back
                        return

    async def _watch(self) -> None:
        """See whether the join is still there."""
        caller = self.new_caller()
        async with caller.stream:
            reply = await caller.get(self.pipe.path)
            while reply.status == 200:
                self.cancelled = len(read(reply).pipes[0].joins) < 2
                reply = await caller.get(self.pipe.path, When_None_Match=reply.headers["etag"])

    async def stop_reading(self) -> None:
        self._scope.cancel()

    async def hang_up(self) -> None:
        self._scope.cancel()
        await self.caller.stream.aclose()


def body_of(message: restms.MessageElement) -> bytes:
    (content,) = message.contents
    return b64decode(content.value) if content.encoding == "base64" else content.value.encode()
