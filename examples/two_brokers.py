"""A broker announces its queues to another one: publish there, consume here."""

import trio

from triomq import AMQP, Synchronise, open_broker
from triomq.errors import AccessRefused


async def main() -> None:
    async with open_broker(AMQP(port=0)) as rome, open_broker(AMQP(port=0)) as oslo:
        # Each has what its own clients have declared.
        news = await oslo.declare_sink("news", "topic")
        queue = await oslo.declare_queue("weather")
        await news.bind(queue, "weather.#")

        # Oslo announces them to Rome, as a client of Rome; the origin marks them there.
        url = f"amqp://guest:guest@127.0.0.1:{rome.listening[0].port}"
        peer = await oslo.synchronise(Synchronise(url, origin="oslo"))
        await peer.wait_announced()

        # Clients of Rome find the same names there.
        await rome.publish("news", "weather.rome", b"27 degrees")
        async with queue.open_feed() as feed:
            with await anext(feed) as delivery:
                print("in Oslo:", delivery.body.decode())

        # But they cannot delete what Oslo has declared.
        try:
            await rome.queue("weather").delete()
        except AccessRefused as error:
            print(error)


trio.run(main)
