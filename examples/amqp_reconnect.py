"""A broker goes away and comes back; the client declares, binds and consumes again by itself, and loses nothing."""

import logging
import sys

import trio

from triomq import AMQP, open_broker
from triomq.clients import AMQPConnection, Reconnect, open_amqp


async def run_broker(port: int, gone: trio.Event, *, task_status: trio.TaskStatus[int]) -> None:
    async with open_broker(drain=0) as broker:
        listening = await broker.listen(AMQP(port=port))
        task_status.started(listening.port)
        await gone.wait()


async def consume(connection: AMQPConnection, send: trio.MemorySendChannel[bytes]) -> None:
    async with connection.open_channel() as channel:
        queue = await channel.declare_queue("orders")
        async with channel.consume(queue) as deliveries:
            async for delivery in deliveries:  # goes on after the broker has come back
                with delivery:
                    await send.send(delivery.body)


async def main() -> None:
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(run_broker, 0, gone)
        url = f"amqp://localhost:{port}"
        send, receive = trio.open_memory_channel[bytes](0)
        async with (
            open_amqp(url, reconnect=Reconnect(delay=0.05, max_delay=1.0)) as connection,
            connection.open_channel() as channel,
        ):
            nursery.start_soon(consume, connection, send)
            await channel.declare_queue("orders")
            await channel.publish("", "orders", b"before", mandatory=True)
            print("got", await receive.receive())

            gone.set()  # the broker goes, with all that it had in memory …
            await connection.wait_disconnected()
            await nursery.start(run_broker, port, trio.Event())  # … and comes back

            await channel.publish("", "orders", b"after", mandatory=True)  # waits until everything is as it was
            print("got", await receive.receive())
            nursery.cancel_scope.cancel()


logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")  # shows the loss, and what goes wrong
trio.run(main)
