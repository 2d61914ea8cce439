"""The AMQP client for Trio: declare, publish with confirms, consume; a broker of ours stands in for yours."""

import trio

from triomq import AMQP, open_broker
from triomq.clients import AMQPConnection, BasicProperties, open_amqp
from triomq.errors import Unroutable


async def publish(connection: AMQPConnection) -> None:
    async with connection.open_channel() as channel:
        await channel.publish(
            "shop", "order.new", b"order 1", BasicProperties(type="order")
        )  # back = the broker has it

        async with channel.open_pipeline() as pipeline:  # many on their way at once; left when all are confirmed
            for number in range(2, 1001):
                await pipeline.publish("shop", "order.new", b"order %d" % number)

        try:
            await channel.publish("shop", "nobody.wants.this", b"", mandatory=True)
        except Unroutable as error:
            print("heard:", str(error).split(" (")[0])


async def consume(connection: AMQPConnection) -> None:
    async with (
        connection.open_channel(prefetch=100) as channel,
        channel.consume("orders") as deliveries,
    ):
        count = 0
        async for delivery in deliveries:
            with delivery:  # accepted at the end of the block; put back if it fails or is cancelled
                count += 1
            if delivery.body == b"order 1000":
                print("shipped", count, "orders")
                return


async def main(url: str) -> None:
    async with open_amqp(url, name="shop") as connection:
        async with connection.open_channel() as channel:
            await channel.declare_exchange("shop", "topic")
            await channel.declare_queue("orders")
            await channel.bind("orders", "shop", "order.*")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, connection)
            nursery.start_soon(consume, connection)


async def with_a_broker_of_our_own() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(AMQP(port=0))
        await main(f"amqp://guest:guest@localhost:{listening.port}/")


trio.run(with_a_broker_of_our_own)
