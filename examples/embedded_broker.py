"""One task publishes, three tasks share the work; the queue is bounded and nothing is lost when a block fails.

Everything happens in one process, yet the same queue is open to any AMQP client at the port that is printed first.
"""

import trio

from triomq import AMQP, Broker, open_broker

ORDERS = 30


async def sell(broker: Broker) -> None:
    for number in range(ORDERS):
        await broker.publish("shop", "order.new", str(number).encode())


async def main() -> None:
    shipped: dict[int, str] = {}

    async with open_broker(AMQP(port=0)) as broker, trio.open_nursery() as nursery:
        orders = await broker.declare_queue("orders", max_length=10_000)
        shop = await broker.declare_sink("shop", "topic")
        await shop.bind(orders, "order.*")

        async def ship(name: str) -> None:
            async with orders.open_feed(prefetch=5) as feed:
                async for delivery in feed:
                    with delivery:
                        shipped[int(delivery.body)] = name
                    if len(shipped) == ORDERS:
                        nursery.cancel_scope.cancel()

        for name in ("Ada", "Bob", "Cyd"):
            nursery.start_soon(ship, name)
        await sell(broker)

    assert sorted(shipped) == list(range(ORDERS))
    print(f"{len(shipped)} orders shipped by {', '.join(sorted(set(shipped.values())))}")


trio.run(main)
