"""A direct sink that is kept open while the network of its program breaks."""

from collections.abc import AsyncIterator, Callable
from math import inf

import pytest
import trio

from network import LOCAL, Network, open_network
from triomq import AMQP, open_broker
from triomq.clients import AMQPChannel, open_amqp, open_dmp_sink
from triomq.errors import Disconnected


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    with trio.fail_after(60):
        async with open_broker(AMQP(host=LOCAL, port=0)) as broker:
            await broker.declare_queue("q", durable=False)
            with open_network(broker.listening[0].port) as network:
                yield network


async def publish(channel: AMQPChannel, network: Network, breaks: Callable[[Network], None], count: float) -> None:
    """Publish messages while the network is broken, and leave the block."""
    async with open_dmp_sink(channel, "") as sink:
        await sink.publish("q", b"on its way")
        breaks(network)
        number = 0
        while (number := number + 1) <= count:
            await sink.publish("q", bytes(10_000))
            await trio.sleep(0.01)


@pytest.mark.parametrize("count", [inf, 1], ids=["while it publishes", "while its block is left"])
@pytest.mark.parametrize("breaks", [Network.fall_silent, Network.reset], ids=["black hole", "reset"])
async def test_sink_does_not_end_as_if_all_were_read(
    network: Network, breaks: Callable[[Network], None], count: float
) -> None:
    url = f"amqp://guest:guest@{network.host}:{network.port}?heartbeat=1"
    async with open_amqp(url, reconnect=True) as connection, connection.open_channel() as channel:
        with pytest.raises(Disconnected):
            await publish(channel, network, breaks, count)
        async with open_dmp_sink(channel, "") as sink:
            await sink.publish("q", b"again")
