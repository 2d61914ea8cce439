"""Two brokers tell each other what they have: publish at one, consume at the other."""

import trio

from triomq import AMQP, Synchronise, open_broker
from triomq.errors import AccessRefused


async def main() -> None:
    async with open_broker(AMQP(port=0)) as rome, open_broker(AMQP(port=0)) as oslo:
        # Each has what its own clients have declared.
        news = await oslo.declare_sink("news", "topic")
        queue = await oslo.declare_queue("weather")
        await news.bind(queue, "weather.#")

        # Oslo tells Rome, as a client of Rome's; the origin is what Rome calls Oslo's things.
        url = f"amqp://guest:guest@127.0.0.1:{rome.listening[0].port}"
        peer = await oslo.synchronise(Synchronise(url, origin="oslo"))
        await peer.wait_announced()

        # Whoever is connected to Rome finds the same names there.
        await rome.publish("news", "weather.rome", b"27 degrees")
        async with queue.open_feed() as feed:
            with await anext(feed) as delivery:
                print("heard in Oslo:", delivery.body.decode())

        # And cannot delete what is Oslo's.
        try:
            await rome.queue("weather").delete()
        except AccessRefused as error:
            print(error)


trio.run(main)
