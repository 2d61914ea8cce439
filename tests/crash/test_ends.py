"""Brokers that end in order while clients wait to be told that what they sent is on disk: they are told."""

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from triomq import AMQP, EMQP, MTL, Broker, MicroMsg, RestMS, Tap, WebSocket, open_broker
from triomq.chunks import RecordRun, encode_chunk
from triomq.clients import EMQPUrl, open_amqp, open_emqp, open_micromsg, open_mtl, open_restms, open_tap
from triomq.endpoints import EndpointConfig
from triomq.protocols import BasicProperties
from triomq.protocols.emqp import make_headers

HOST = "127.0.0.1"
SIX = [b"%d" % number for number in range(6)]
PERSISTENT = BasicProperties(delivery_mode=2)

Sent = Callable[[], None]
"""To be called when all is sent."""


async def _together(publish: Callable[[bytes], Awaitable[None]], sent: Sent) -> None:
    """Publish six messages at once, and wait for each."""
    async with trio.open_nursery() as nursery:
        for body in SIX:
            nursery.start_soon(publish, body)
        sent()


async def amqp(url: str, sent: Sent) -> None:
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        await _together(lambda body: channel.publish("", "q", body, PERSISTENT), sent)


async def micromsg(url: str, sent: Sent) -> None:
    async with open_micromsg(f"{url}?window=100") as connection:
        await _together(lambda body: connection.publish("queue/q", body, {"delivery-mode": 2}), sent)


async def mtl(url: str, sent: Sent) -> None:
    async with open_mtl(f"{url}?profile=amqp") as connection, connection.open_writer("exchange/all") as writer:
        await _together(lambda body: writer.publish(body, "q", PERSISTENT), sent)


async def restms(url: str, sent: Sent) -> None:
    async with open_restms(url) as connection:
        feed = connection.feed("all")
        await _together(lambda body: feed.publish(body, "q", PERSISTENT), sent)


async def emqp(url: str, sent: Sent) -> None:
    port = int(url.rpartition(":")[2])
    async with open_emqp(EMQPUrl(host=HOST, port=port)) as connection:
        requests = []
        for body in SIX:
            await connection.wait_room()
            requests.append(connection.begin("q", body, make_headers(guarantee=True)))
        sent()
        for request in requests:
            await request.accepted()


async def tap(url: str, sent: Sent) -> None:
    def write() -> None:
        with open_tap(f"{url}/?timeout=60") as connection:
            chunk = encode_chunk(0, 1, [RecordRun(0, b"", b"k", b"", SIX)])
            connection.stage("q", "writer", batch=1, part=0, attempt=0, chunk=chunk)
            trio.from_thread.run_sync(sent)
            connection.commit("q", "writer", batch=1, attempts={0: 0})

    await trio.to_thread.run_sync(write)


DOORS: dict[str, tuple[EndpointConfig, str, Callable[[str, Sent], Awaitable[None]]]] = {
    "amqp": (AMQP(host=HOST, port=0), "amqp", amqp),
    "amqp over websocket": (AMQP(host=HOST, port=0, websocket=WebSocket()), "ws", amqp),
    "micromsg": (MicroMsg(host=HOST, port=0), "micromsg", micromsg),
    "micromsg over websocket": (MicroMsg(host=HOST, port=0, websocket=WebSocket()), "ws", micromsg),
    "mtl": (MTL(host=HOST, port=0), "mtl", mtl),
    "restms": (RestMS(host=HOST, port=0), "http", restms),
    "emqp": (EMQP(host=HOST, port=0), "emqp", emqp),
    "tap": (Tap(host=HOST, port=0), "tap", tap),
}


async def begun(broker: Broker) -> None:
    """Wait until all six are on their way to the disk, from wherever they have come."""
    persistence = broker.directory.persistence
    assert persistence is not None
    while broker.directory.queues["q"].statistics().ready < len(SIX):  # no event says so
        if persistence.journal.pending_bytes >= len(SIX) and "tap" in broker.listening[0].config.protocol:
            break  # what a writer commits is in the queue only when the disk has it
        await trio.sleep(0.01)


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_stored_is_confirmed_before_the_connection_is_closed(tmp_path: Path, door: str) -> None:
    config, scheme, publish = DOORS[door]
    confirmed = trio.Event()

    async def run_client(url: str, sent: trio.Event) -> None:
        await publish(url, sent.set)  # raises, if it is not told
        confirmed.set()

    with trio.fail_after(30):
        async with trio.open_nursery() as clients:
            async with open_broker(config, data_dir=tmp_path, drain=60) as broker:
                queue = await broker.declare_queue("q")
                await broker.declare_sink("all", "topic")
                await broker.sink("all").bind(queue, "#")
                store = int((tmp_path / "lock").read_text(encoding="ascii"))
                os.kill(store, signal.SIGSTOP)  # as if the disk took its time
                try:
                    sent = trio.Event()
                    url = f"{scheme}://guest:guest@{HOST}:{broker.listening[0].port}"
                    clients.start_soon(run_client, url, sent)
                    await sent.wait()
                    await begun(broker)
                finally:
                    clients.start_soon(_go_on_soon, partial(os.kill, store, signal.SIGCONT))
            await confirmed.wait()
    async with open_broker(data_dir=tmp_path) as broker:
        assert broker.directory.queues["q"].statistics().ready == len(SIX)


async def _go_on_soon(go_on: Callable[[], None]) -> None:
    await trio.sleep(0.3)  # the broker has begun to end
    go_on()
