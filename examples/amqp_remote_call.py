"""A remote call over AMQP with direct reply-to: the answer comes straight back, through no queue of its own."""

from itertools import count

import trio

from triomq import AMQP, open_broker
from triomq.clients import AMQPConnection, BasicProperties, open_amqp


async def serve(connection: AMQPConnection, *, task_status: trio.TaskStatus[None]) -> None:
    async with connection.open_channel() as channel:
        await channel.declare_queue("double", exclusive=True)
        async with channel.consume("double") as requests:
            task_status.started()
            async for request in requests:
                with request:
                    asked = request.properties
                    answer = b"%d" % (2 * int(request.body))
                    said = BasicProperties(correlation_id=asked.correlation_id)
                    await channel.publish("", asked.reply_to or "", answer, said, persistent=False)


async def call(connection: AMQPConnection) -> None:
    numbers = count(1)
    async with (
        connection.open_channel(confirms=False) as channel,
        channel.consume("amq.rabbitmq.reply-to", no_ack=True) as replies,
    ):
        for value in (1, 21):
            said = BasicProperties(correlation_id=str(next(numbers)), reply_to="amq.rabbitmq.reply-to")
            await channel.publish("", "double", b"%d" % value, said, persistent=False)
            with trio.fail_after(5):  # a deadline is the caller's
                reply = await anext(replies)
            print(f"{value} doubled is {reply.body.decode()}")


async def main() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(AMQP(port=0))
        async with (
            open_amqp(f"amqp://localhost:{listening.port}") as connection,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(serve, connection)
            await call(connection)
            nursery.cancel_scope.cancel()


trio.run(main)
