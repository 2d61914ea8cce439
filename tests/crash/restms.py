"""Those who use a broker over RestMS until it is gone, and go on with the next one.

What is answered is on disk: a POST of persistent messages, a DELETE of one with all older ones, and whatever is made or
deleted. So each DELETE is a fence (see ``oracle``): all that came before it may come again only with the mark, and what
it took never. What was not answered may be so or not.
"""

import random
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import trio

from endpoints.restms.line import DOMAIN, Ended, Line, read
from endpoints.toys.http_peer import Reply

from .harness import Harness
from .message import Message, body_of
from .oracle import Fence, QueueOracle, Session
from .wire import Delivery

__all__ = ["FeedRoute", "PipeReader", "Poster", "ResourceMaker", "Worker", "open_line"]

STAGED = "application/octet-stream"


@asynccontextmanager
async def open_line(harness: Harness) -> AsyncIterator[Line]:
    """Connect to the broker that runs, or to the next one.

    Raises:
        Ended: It is gone already.
    """
    await harness.wait_for(lambda: harness.life is not None)
    assert harness.life is not None
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", harness.life.restms_port)
    except OSError:
        raise Ended from None
    async with stream:
        yield Line(stream)


class FeedRoute(NamedTuple):
    """Where messages are posted to, and in the oracles of which queues they must be in the end."""

    feed: str
    address: str
    queues: Sequence[str]


class Poster:
    """Posts documents of persistent messages, one after the other; some contents are staged before."""

    def __init__(self, harness: Harness, number: int, routes: Sequence[FeedRoute], chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._routes = routes
        self._chance = chance
        self._next = 0

    async def run(self) -> None:
        """Post until it is time to stop."""
        while not self._harness.stopping:
            try:
                async with open_line(self._harness) as line:
                    while not self._harness.stopping:
                        await self._post(line)
            except Ended:
                pass

    async def _post(self, line: Line) -> None:
        route, oracle = self._chance.choice(self._routes), self._harness.oracle
        messages = [Message(self._number, self._next + number) for number in range(self._chance.randint(1, 10))]
        self._next += len(messages)
        elements = [await self._element(line, route, message) for message in messages]
        oracle.sent += len(messages)
        reply = await line.post(route.feed, message=elements)
        if reply.status == 200:
            for message in messages:
                oracle.confirm(message, route.queues)
        elif reply.status == 507:  # the store is away for longer than anybody waits
            oracle.refused += len(messages)
        else:
            oracle.report(f"a POST to {route.feed} was answered by {reply.status}: {reply.body!r}")
        self._harness.count_events(2 * len(messages))

    async def _element(self, line: Line, route: FeedRoute, message: Message) -> dict[str, object]:
        is_large = self._chance.random() < 0.02
        body = body_of(*message[:2], size=100_000 if is_large else self._chance.randint(0, 300))
        if is_large:
            staged = await line.ask("POST", route.feed, body, Content_Type=STAGED)
            content = {"href": staged.headers["location"]}
        else:
            content = {"type": STAGED, "encoding": "base64", "value": b64encode(body).decode()}
        return {"address": route.address, "delivery_mode": "2", "content": [content]}


class Taker:
    """What all have in common who read and delete.

    Args:
        harness: Where.
        path: The pipe.
        queue: The oracle of what comes into it.
        chance: Its own.
    """

    def __init__(self, harness: Harness, path: str, queue: QueueOracle, chance: random.Random) -> None:
        self.path = path
        self.queue = queue
        self._harness = harness
        self._chance = chance
        self._life = 0
        self._seen: dict[str, Message | None] = {}  # what has come in this life of the broker, by URIs
        self._session = Session(harness.oracle, queue)

    async def run(self) -> None:
        """Read until everything was taken out."""
        while True:
            try:
                async with open_line(self._harness) as line:
                    self._begin_life()
                    await self._read(line)
                    return
            except* Ended:
                pass

    def _begin_life(self) -> None:
        life = 0 if self._harness.life is None else self._harness.life.number
        if life != self._life:
            self._life, self._seen, self._session = life, {}, Session(self._harness.oracle, self.queue)

    async def _read(self, line: Line) -> None:
        raise NotImplementedError

    async def _see(self, line: Line, element: Mapping[str, Any], href: str) -> None:
        """Record a message that is shown, the first time."""
        if href in self._seen:
            return
        (content,) = element["content"]
        is_large = "href" in content
        body = (await line.ask("GET", content["href"])).body if is_large else b64decode(content["value"])
        self._seen[href] = self._session.deliver(Delivery(0, element.get("redelivered") == "1", body))
        self._harness.count_events()

    async def _delete(self, line: Line, hrefs: Sequence[str]) -> None:
        """Delete the last of some messages, and so all of them; now and then it is asked for twice, by two lines."""
        taken = [self._seen.pop(href) for href in hrefs]
        self._session.ack(message for message in taken if message is not None)
        fence = self._session.fence()
        if self._chance.random() < 0.2:
            await self._ask_twice(line, hrefs[-1], fence)
        self._judge(await line.ask("DELETE", hrefs[-1]), fence)
        self._harness.count_events(len(taken))

    async def _ask_twice(self, line: Line, href: str, fence: Fence) -> None:
        """Have another line ask for the same; whichever is answered first, it is on disk."""
        async with open_line(self._harness) as other, trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_beside, other, href, fence)
            self._judge(await line.ask("DELETE", href), fence)

    async def _ask_beside(self, other: Line, href: str, fence: Fence) -> None:
        try:
            self._judge(await other.ask("DELETE", href), fence)
        except Ended:
            pass

    def _judge(self, reply: Reply, fence: Fence) -> None:
        if reply.status == 200:
            fence.confirmed()
        else:
            self._harness.oracle.report(f"a DELETE of {self.queue.name} was answered by {reply.status}: {reply.body!r}")


class PipeReader(Taker):
    """Reads pages of a fifo pipe, and deletes up to any message of them; a lazy one hardly ever does.

    Args:
        harness: Where.
        path: The pipe.
        queue: The oracle of what comes into it.
        chance: Its own.
        lazy: The part of pages of which it deletes nothing.
    """

    def __init__(
        self, harness: Harness, path: str, queue: QueueOracle, chance: random.Random, *, lazy: float = 0.2
    ) -> None:
        super().__init__(harness, path, queue, chance)
        self._lazy = lazy

    async def _read(self, line: Line) -> None:
        while True:
            page = f"{self.path}?messages={self._chance.randint(1, 100)}"
            reply = await line.ask("GET", page, Prefer="wait=1")
            if reply.status == 204:
                if self._harness.draining and (await line.look(self.path))["pipe"][0]["size"] == "0":
                    return
                continue
            assert reply.status == 200, reply
            elements = read(reply)["message"]
            for element in elements:
                await self._see(line, element, element["href"])
            if self._harness.draining or self._chance.random() >= self._lazy:
                count = self._chance.randint(1, len(elements))
                await self._delete(line, [element["href"] for element in elements[:count]])


class Worker(Taker):
    """Takes one message after the other, by an ondemand pipe; reads some twice before it deletes them."""

    async def _read(self, line: Line) -> None:
        while True:
            href = (await line.look(self.path))["pipe"][0]["message"][0]["href"]
            reply = await line.ask("GET", href, Prefer="wait=1")
            if reply.status == 204:
                if self._harness.draining:
                    return
                continue
            assert reply.status == 200, reply
            (element,) = read(reply)["message"]
            await self._see(line, element, href)
            if self._harness.draining or self._chance.random() < 0.8:
                await self._delete(line, [href])


class ResourceMaker:
    """Makes and deletes feeds, pipes and joins; what was answered must be so in every later life."""

    def __init__(self, harness: Harness, number: int, chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._chance = chance
        self._made = 0
        self._there: dict[str, dict[str, Any]] = {}  # documents, by URIs
        self._joins: dict[str, tuple[str, str]] = {}  # pipes and feeds, by URIs
        self._gone: list[str] = []

    async def run(self) -> None:
        """Work until it is time to stop; look at each life's beginning."""
        while not self._harness.stopping:
            try:
                async with open_line(self._harness) as line:
                    await self.look(line)
                    while not self._harness.stopping:
                        await self._do_one(line)
                        self._harness.count_events()
            except Ended:
                pass

    async def _do_one(self, line: Line) -> None:
        if len(self._there) > 30 or (self._there and self._chance.random() < 0.3):
            await self._delete(line, self._chance.choice(list(self._there)))
            return
        pipes = [path for path in self._there if "/pipe-" in path]
        feeds = [path for path in self._there if "/feed" in path]
        self._made += 1
        title = f"{self._number}.{self._made}"
        choice = self._chance.random()
        if choice < 0.3:
            type_ = self._chance.choice(["fanout", "topic", "rotator"])
            await self._make(line, DOMAIN, feed={"name": f"made.{title}", "type": type_, "title": title})
        elif choice < 0.4:
            await self._make(line, DOMAIN, feed={"type": "headers", "title": title})
        elif choice < 0.7 or not pipes or not feeds:
            await self._make(line, DOMAIN, pipe={"title": title})
        else:
            pipe, feed = self._chance.choice(pipes), self._chance.choice(feeds)
            if (pipe, feed) not in self._joins.values():
                self._joins[await self._make(line, pipe, join={"feed": feed, "address": title})] = pipe, feed

    async def _make(self, line: Line, where: str, **elements: object) -> str:
        (kind,) = elements
        made = await line.make(where, **{kind: [elements[kind]]})
        self._there[made] = fixed(await line.look(made))
        return made

    async def _delete(self, line: Line, path: str) -> None:
        """Delete something, and with it what is joined to it."""
        joins = [join for join, ends in self._joins.items() if path in (join, *ends)]
        for gone in {path, *joins}:
            del self._there[gone]
            self._joins.pop(gone, None)
        reply = await line.ask("DELETE", path)
        assert reply.status == 200, reply
        self._gone += {path, *joins}

    async def look(self, line: Line) -> None:
        """See whether everything is so."""
        report = self._harness.oracle.report
        for path, document in self._there.items():
            reply = await line.ask("GET", path)
            if reply.status != 200:
                report(f"{path} was made and is not there: {reply.status}")
            elif (found := fixed(read(reply))) != document:
                report(f"{path} was {document} and is {found}")
        for path in self._gone[-20:]:
            if (reply := await line.ask("GET", path)).status != 404:
                report(f"{path} was deleted and is there: {reply.status}")
        self._harness.count_events()


def fixed(document: dict[str, Any]) -> dict[str, Any]:
    """Return what of a document does not change by itself."""
    return {
        kind: [
            {name: value for name, value in element.items() if name not in ("message", "join", "size")}
            for element in elements
        ]
        for kind, elements in document.items()
    }
