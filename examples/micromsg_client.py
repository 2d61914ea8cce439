"""The MicroMsg2 client for Trio: workers on a queue, a topic with a filter; a broker of ours stands in for yours."""

import trio

from triomq import MicroMsg, open_broker
from triomq.clients import open_micromsg


async def work(url: str, done: trio.MemorySendChannel[str]) -> None:
    async with open_micromsg(f"{url}?window=1") as micromsg, micromsg.subscribe("queue/letters") as letters:
        async for letter in letters:
            with letter:  # accepts it at the end of the block; after an error it goes back with the subscription
                await done.send(letter.body.decode().upper())


async def main(url: str) -> None:
    words = ["to", "be", "or", "not"]
    async with open_micromsg(url) as micromsg, open_micromsg(url) as other:
        async with micromsg.open_pipeline() as pipeline:  # its block waits until all are acknowledged
            for word in words:
                await pipeline.publish("queue/letters", word.encode())
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[str](0)
            for _ in range(2):
                nursery.start_soon(work, url, send)
            print(*sorted([await receive.receive() for _ in words]))
            nursery.cancel_scope.cancel()

        async with other.subscribe("topic/orders", filter="amount>=N100;country=TSE") as orders:
            for amount, country in ((250, "SE"), (20, "SE"), (300, "NO"), (100, "SE")):
                await micromsg.publish("topic/orders", b"...", {"amount": amount, "country": country})
            for _ in range(2):
                order = await anext(orders)
                order.accept()
                print("an order of", order.properties["amount"])


async def with_a_broker_of_our_own() -> None:
    async with open_broker() as broker:
        await broker.declare_queue("letters")
        listening = await broker.listen(MicroMsg(port=0, dynamic_topics=True))
        await main(f"micromsg://localhost:{listening.port}/")


trio.run(with_a_broker_of_our_own)
