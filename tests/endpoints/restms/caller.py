"""A client of RestMS for tests: one connection over a stream in memory, as a user whose password is its name."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio
import trio.testing

from endpoints.toys.http_peer import HTTPPeer, Reply
from triomq.app import Broker, open_broker
from triomq.endpoints import EndpointConfig
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.restms.endpoint import RestMSEndpoint
from triomq.protocols import restms
from triomq.protocols.restms import Document

XML = {"Content-Type": "application/restms+xml"}
DOMAIN = "/restms/domain/default"
DEFAULT = "/restms/feed/default"


def restms_of(broker: Broker) -> RestMSEndpoint:
    (endpoint,) = (ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, RestMSEndpoint))
    return endpoint


@asynccontextmanager
async def open_restms(*endpoints: EndpointConfig, **options: object) -> AsyncIterator[Broker]:
    """Open a broker that speaks RestMS; what is not one of its own options is for the broker."""
    ours = {name: options.pop(name) for name in list(options) if name in RestMS.__struct_fields__}
    config = RestMS(host="127.0.0.1", port=0, **ours)  # type: ignore[arg-type]
    async with open_broker(config, *endpoints, domains=config.domains, **options) as broker:  # type: ignore[arg-type]
        yield broker


def path_of(uri: str) -> str:
    return uri.removeprefix("http://toy")


def read(reply: Reply) -> Document:
    found = restms.parse(reply.body, restms.XML)
    assert isinstance(found, Document), found
    return found


class Caller:
    """One connection."""

    def __init__(self, broker: Broker, user: str = "guest") -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        restms_of(broker).listener.connect_stream(theirs, "memory")
        self.stream = ours
        self.peer = HTTPPeer(ours, user)

    async def ask(
        self, method: str, path: str, body: str | bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        fields = dict(headers or {})
        if isinstance(body, str):
            body = f"<restms>{body}</restms>".encode()
            fields = XML | fields
        return await self.peer.ask(method, path_of(path), body, fields)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, b"", named(headers))

    async def post(self, path: str, body: str | bytes = b"", **headers: str) -> Reply:
        return await self.ask("POST", path, body, named(headers))

    async def put(self, path: str, body: str | bytes = b"", **headers: str) -> Reply:
        return await self.ask("PUT", path, body, named(headers))

    async def delete(self, path: str, **headers: str) -> Reply:
        return await self.ask("DELETE", path, b"", named(headers))

    # What most tests begin with

    async def make_pipe(self, type_: str = "", domain: str = "default") -> "PipeCaller":
        reply = await self.post(f"/restms/domain/{domain}", f'<pipe type="{type_}"/>')
        assert reply.status == 201, reply
        return PipeCaller(self, path_of(reply.headers["location"]))

    async def make_feed(self, name: str, type_: str, domain: str = "default") -> str:
        reply = await self.post(f"/restms/domain/{domain}", f'<feed name="{name}" type="{type_}"/>')
        assert reply.status in (200, 201), reply
        return path_of(reply.headers["location"])

    async def send(self, feed: str, *bodies: str, address: str = "", **attributes: str) -> Reply:
        """Post messages with texts as contents."""
        more = "".join(f' {name}="{value}"' for name, value in attributes.items())
        messages = (
            f'<message address="{address}"{more}><content type="text/plain">{body}</content></message>'
            for body in bodies
        )
        return await self.post(feed, "".join(messages))


class PipeCaller:
    """A pipe, as its reader knows it."""

    def __init__(self, caller: Caller, path: str) -> None:
        self.caller = caller
        self.path = path
        self.name = path.rpartition("/")[2]

    async def document(self) -> restms.PipeElement:
        reply = await self.caller.get(self.path)
        assert reply.status == 200, reply
        (pipe,) = read(reply).pipes
        return pipe

    async def hrefs(self) -> list[str]:
        """List where its messages are, the asynclet last."""
        return [path_of(message.href or "") for message in (await self.document()).messages]

    async def asynclet(self) -> str:
        return (await self.hrefs())[-1]

    async def join(self, feed: str, address: str = "*", headers: str = "") -> str:
        join = f'<join feed="{feed}" address="{address}">{headers}</join>'
        reply = await self.caller.post(self.path, join)
        assert reply.status in (200, 201), reply
        return path_of(reply.headers["location"])

    async def texts(self) -> list[str]:
        """Read all messages that have a URI, and delete none."""
        reply = await self.caller.get(f"{self.path}?messages=1000")
        assert reply.status == 200, reply
        return [text_of(message) for message in read(reply).messages]

    async def next(self, **headers: str) -> str:
        """Wait for the next message, read it and delete it."""
        first = (await self.hrefs())[0]
        reply = await self.caller.get(first, **headers)
        assert reply.status == 200, reply
        assert (await self.caller.delete(first)).status == 200
        return text_of(read(reply).messages[0])


def text_of(message: restms.MessageElement) -> str:
    return "".join(content.value for content in message.contents)


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
