"""The protocol of lines that the documentation shows, beside AMQP on the same queues."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from foreign_endpoint import install
from triomq import AMQP, Permission, User, load_config, open_broker
from triomq.clients import open_amqp
from triomq.endpoints.base.delivery_writer import WINDOW_BYTES

sys.path.append(str(Path(__file__).parent.parent / "examples"))

from line_protocol import LineClient, Lines

if TYPE_CHECKING:
    from triomq import Broker


class Peer:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def send(self, *lines: bytes) -> None:
        await self._stream.send_all(b"".join(line + b"\n" for line in lines))

    async def receive(self, count: int = 1) -> list[bytes]:
        """Read lines; there must be so many."""
        while self._received.count(b"\n") < count:
            data = await self._stream.receive_some()
            assert data
            self._received += data
        *lines, self._received = self._received.split(b"\n", count)
        return lines

    async def is_over(self) -> bool:
        try:
            return not await self._stream.receive_some()
        except trio.BrokenResourceError:
            return True


@asynccontextmanager
async def connected(broker: "Broker") -> AsyncIterator[Peer]:
    with trio.fail_after(60):
        async with await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port) as stream:
            yield Peer(stream)


async def test_lines_and_amqp_share_their_queues() -> None:
    async with open_broker(Lines(port=0), AMQP(port=0, host="127.0.0.1")) as broker, connected(broker) as peer:
        await peer.send(b"QUEUE news", b"PUB news by line")
        assert await peer.receive(2) == [b"OK", b"OK"]
        async with (
            open_amqp(f"amqp://guest:guest@127.0.0.1:{broker.listening[1].port}/") as connection,
            connection.open_channel() as channel,
        ):
            got = await channel.get("news", no_ack=True)
            assert got is not None
            assert got.body == b"by line"
            await peer.send(b"SUB news")
            assert await peer.receive() == [b"OK"]
            await channel.publish("", "news", b"by AMQP")
            assert await peer.receive(2) == [b"MSG 7", b"by AMQP"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"PUB nope text", b"ERR no queue 'nope'"),
        (b"SUB nope", b"ERR no queue 'nope'"),
        (b"SHOUT a", b"ERR 'SHOUT' is unknown"),
        (b"QUEUE", b"ERR write QUEUE name"),
        (b"QUEUE amq.mine", b"ERR write QUEUE name"),
        (b"QUEUE " + b"x" * 256, b"ERR write QUEUE name"),
    ],
)
async def test_line_that_means_nothing_is_answered_with_the_reason(line: bytes, answer: bytes) -> None:
    async with open_broker(Lines(port=0)) as broker, connected(broker) as peer:
        await peer.send(line, b"QUEUE fine")
        refused, fine = await peer.receive(2)
        assert refused.startswith(answer)
        assert fine == b"OK"


async def test_user_of_lines_may_do_what_its_permissions_say() -> None:
    users = {"ada": User("secret", permissions={"default": Permission(configure="", write="", read="")})}
    async with open_broker(Lines(port=0, user="ada"), Lines(port=0, user="stranger"), users=users) as broker:
        await broker.declare_queue("mine")
        async with connected(broker) as peer:
            await peer.send(b"QUEUE other", b"PUB mine text", b"SUB mine")
            assert [answer[:3] for answer in await peer.receive(3)] == [b"ERR"] * 3
        broker.listening.reverse()
        async with connected(broker) as peer:
            assert await peer.is_over()
        assert broker.set_users({}).removed == ("ada",)


async def test_lines_wait_while_memory_is_short() -> None:
    async with open_broker(Lines(port=0)) as broker, connected(broker) as peer:
        queue = await broker.declare_queue("news")
        await broker.publish("", "news", bytes(1000))
        broker.set_memory_high_watermark(500)
        await peer.send(b"PUB news later", b"QUEUE other")
        (endpoint,) = broker.endpoint_refs.values()
        while not endpoint.children:
            await trio.lowlevel.checkpoint()
        (client,) = [ref.actor for ref in endpoint.children.values()]
        assert isinstance(client, LineClient)
        while not client.gates.closed:
            await trio.lowlevel.checkpoint()
        assert (await queue.statistics()).ready == 1
        await queue.purge()
        assert await peer.receive(2) == [b"OK", b"OK"]
        assert (await queue.statistics()).ready == 1


async def test_client_of_lines_that_reads_nothing_leaves_messages_in_their_queue() -> None:
    async with open_broker(Lines(port=0)) as broker, connected(broker) as peer:
        queue = await broker.declare_queue("news")
        for _ in range(300):
            await broker.publish("", "news", bytes(WINDOW_BYTES // 8))
        await peer.send(b"SUB news")
        assert await peer.receive() == [b"OK"]
        while (await queue.statistics()).ready == 300:
            await trio.lowlevel.checkpoint()
        assert (await queue.statistics()).ready > 0


async def test_line_without_an_end_ends_its_connection() -> None:
    async with open_broker(Lines(port=0)) as broker, connected(broker) as peer:
        with suppress(trio.BrokenResourceError):  # it may end before it has read all of them
            await peer.send(b"x" * 1_000_000)
        assert await peer.is_over()


def test_lines_are_configured_like_any_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install(tmp_path, leads_to="line_protocol:Lines"))
    file = tmp_path / "triomq.toml"
    file.write_text('[[endpoints]]\ntype = "lines"\nuser = "ada"\n[users.ada]\npassword = "secret"', encoding="utf-8")
    assert load_config(file, {}).endpoints == (Lines(user="ada"),)
