"""Two brokers between which the network breaks: what one has announced goes on."""

from collections.abc import Callable

import pytest
import trio

from network import LOCAL, Network, open_network
from triomq import AMQP, Broker, open_broker
from triomq.app import Synchronise


async def take(broker: Broker) -> set[bytes]:
    """Take what comes into the queue, until it is the message after the break."""
    found: set[bytes] = set()
    async with broker.queue("mine").open_feed() as feed:
        while b"after" not in found:
            with await anext(feed) as delivery:
                found.add(delivery.body)
    return found


@pytest.mark.parametrize(
    "breaks", [Network.reset, Network.fall_silent, Network.break_for_clients], ids=["reset", "black hole", "half-open"]
)
async def test_message_for_a_queue_of_the_other_broker_arrives_after_the_network_was_away(
    breaks: Callable[[Network], None],
) -> None:
    config = AMQP(host=LOCAL, port=0)
    with trio.fail_after(60):
        async with open_broker(config, drain=0.1) as here, open_broker(config, drain=0.1) as there:
            await (await here.declare_sink("news", "topic")).bind(await here.declare_queue("mine"), "#")
            with open_network(there.listening[0].port) as network:
                url = f"amqp://guest:guest@{network.host}:{network.port}?heartbeat=1"
                peer = await here.synchronise(Synchronise(url, origin="here", retry=0.1))
                await peer.wait_announced()
                await there.publish("news", "a", b"before")
                breaks(network)
                await there.publish("news", "a", b"after")
                assert await take(here) == {b"before", b"after"}
