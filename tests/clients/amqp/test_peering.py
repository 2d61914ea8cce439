"""Connections to peers: announcements, marks, and deliveries."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio

from peers.served import open_served
from triomq.clients import AMQPUrl, Peering, open_amqp, open_peering, parse_amqp_url
from triomq.errors import AccessRefused, Disconnected, TriomqError
from triomq.protocols.amqp import (
    BasicAck,
    DeliverRun,
    Method,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSPipeCreate,
    RestMSPipeDelete,
)

PATIENCE = 100.0


@pytest.fixture(scope="module")
def url() -> Iterator[AMQPUrl]:
    with open_served() as served:
        yield parse_amqp_url(served.url)


class Taker:
    """Records what it is called with, and lets a test wait for the next call."""

    def __init__(self) -> None:
        self.heard_of: list[object] = []
        self._more = trio.Event()

    def _note(self, what: object) -> None:
        self.heard_of.append(what)
        self._more.set()

    async def next(self) -> object:
        with trio.fail_after(PATIENCE):
            while not self.heard_of:
                self._more = trio.Event()
                await self._more.wait()
        return self.heard_of.pop(0)

    async def deliveries(self, count: int) -> list[tuple[str, int, bytes]]:
        """Take so many messages, however many of them came in one run."""
        found: list[tuple[str, int, bytes]] = []
        while len(found) < count:
            tag, numbers, bodies = cast("tuple[str, list[int], list[bytes]]", await self.next())
            found += [(tag, number, body) for number, body in zip(numbers, bodies, strict=True)]
        return found

    def delivered(self, run: DeliverRun) -> None:
        self._note((run.method.consumer_tag, run.tags, [run.framing.body(content) for content in run.contents]))

    def cancelled(self, tag: str) -> None:
        self._note(("cancelled", tag))

    def resource_announced(self, method: Method) -> None:
        self._note(method)

    def mark_reached(self, mark: int) -> None:
        self._note(mark)

    def ended(self) -> None:
        self._note("ended")


@asynccontextmanager
async def open_with(url: AMQPUrl, taker: Taker, origin: str = "tests") -> AsyncIterator[Peering]:
    async with open_peering(url, taker, ssl_context=None, origin=origin, instance="", prefetch=10) as peering:
        yield peering


async def test_peer_announces_the_class_and_answers_marks(url: AMQPUrl) -> None:
    taker = Taker()
    async with open_with(url, taker) as peering:
        assert peering.knows_resources
        peering.announce([RestMSFeedCreate("topic", "f"), RestMSFeedDelete("f")])
        await peering.wait_room()
        peering.send_mark(7)
        assert await taker.next() == 7
    assert await taker.next() == "ended"


async def test_message_in_a_pipe_is_delivered_until_it_is_settled(url: AMQPUrl) -> None:
    taker = Taker()
    made = [RestMSFeedCreate("topic", "f"), RestMSPipeCreate("pipe", "p"), RestMSJoinCreate("p", "f", "#")]
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        async with open_with(url, taker) as peering:
            peering.announce(made)
            peering.send_mark(1)
            assert await taker.next() == 1
            for body in (b"1", b"2", b"3"):
                await channel.publish("f", "k", body)
            assert await taker.deliveries(3) == [("x:p", 1, b"1"), ("x:p", 2, b"2"), ("x:p", 3, b"3")]
            peering.settle(up_to=1, refused=[2])
            peering.send_mark(2)
            assert await taker.next() == 2
        assert await taker.next() == "ended"
        async with open_with(url, taker) as peering:
            peering.announce(made)
            assert await taker.deliveries(1) == [("x:p", 1, b"3")]
            peering.settle(single=[1])
            peering.announce([RestMSPipeDelete("p"), RestMSFeedDelete("f")])
            peering.send_mark(3)
            assert await taker.next() == 3


async def test_pipe_that_another_connection_deletes_is_cancelled(url: AMQPUrl) -> None:
    taker, other = Taker(), Taker()
    async with open_with(url, taker) as peering, open_with(url, other) as again:
        peering.announce([RestMSPipeCreate("pipe", "gone")])
        peering.send_mark(1)
        assert await taker.next() == 1
        again.announce([RestMSPipeDelete("gone")])
        assert await taker.next() == ("cancelled", "x:gone")


async def test_channel_that_the_peer_closes_ends_the_connection(url: AMQPUrl) -> None:
    taker = Taker()
    async with open_with(url, taker) as peering:
        peering.engine.send_method(1, BasicAck(99))
        peering.link.write_later()
        assert await taker.next() == "ended"
        error = await peering.wait_ended()
        assert "unknown delivery tag 99" in str(error)
        with pytest.raises(TriomqError, match="unknown delivery tag 99"):
            peering.announce([RestMSFeedDelete("f")])
        await peering.wait_room()
        peering.settle(up_to=1)


async def test_refused_login_raises_bare(url: AMQPUrl) -> None:
    wrong = parse_amqp_url(f"amqp://guest:wrong@{url.place}")
    with pytest.raises(AccessRefused):
        async with open_with(wrong, Taker()):
            raise AssertionError("it was let in")


async def test_missing_peer_raises_disconnected() -> None:
    with pytest.raises(Disconnected):
        async with open_with(parse_amqp_url("amqp://127.0.0.1:1"), Taker()):
            raise AssertionError("it was there")


async def test_error_of_the_block_comes_out_bare(url: AMQPUrl) -> None:
    with pytest.raises(KeyError):
        async with open_with(url, Taker()):
            raise KeyError
