"""Publish and consume over direct connections, beside an ordinary one."""

import trio

from triomq import AMQP, open_broker
from triomq.clients import open_amqp, open_dmp_feed, open_dmp_sink


async def main() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(AMQP(port=0))
        async with open_amqp(f"amqp://127.0.0.1:{listening.port}") as amqp, amqp.open_channel() as channel:
            await channel.declare_queue("prices", exclusive=True)
            await channel.bind("prices", "amq.topic", "stock.*")

            async with open_dmp_feed(channel, "prices") as feed:
                async with open_dmp_sink(channel, "amq.topic") as sink:
                    for price in range(1000):
                        await sink.publish("stock.ACME", b"%d" % price)
                # Here the broker has read them all.

                total = 0
                for _ in range(1000):
                    message = await anext(feed)
                    total += int(message.body)
                print("the mean price is", total / 1000)


trio.run(main)
