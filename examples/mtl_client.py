"""The MTL client for Trio: a queue, a writer with confirms, two readers; a broker of ours stands in for yours."""

import trio

from triomq import MTL, open_broker
from triomq.clients import BasicProperties, open_mtl


async def work(url: str, done: trio.MemorySendChannel[str]) -> None:
    async with open_mtl(url) as mtl, mtl.open_reader("letters", prefetch=1) as reader:
        async for letter in reader:
            with letter:  # accepts it at the end of the block, or puts it back after an error
                await done.send(letter.body.decode().upper())


async def main(url: str) -> None:
    words = ["to", "be", "or", "not"]
    async with open_mtl(url) as mtl:
        await mtl.call("Queue.Create", {"name": "letters"})
        async with mtl.open_writer("letters") as writer, writer.open_pipeline() as pipeline:
            for word in words:
                properties = BasicProperties(content_type="text/plain", delivery_mode=2)
                await pipeline.publish(word.encode(), properties=properties)
        found = await mtl.call("Queue.Stats", {"name": "letters"})  # the pipeline's block has waited for the confirms
        print(found["messages"], "letters wait")
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[str](0)
            for _ in range(2):
                nursery.start_soon(work, url, send)
            print(*sorted([await receive.receive() for _ in words]))
            nursery.cancel_scope.cancel()


async def with_a_broker_of_our_own() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(MTL(port=0))
        await main(f"mtl://guest:guest@localhost:{listening.port}")


trio.run(with_a_broker_of_our_own)
