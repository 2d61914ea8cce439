"""A broker for a program of plain threads: one sells, three ship, and none of them knows Trio."""

import threading

from triomq import AMQP, BlockingBroker, open_blocking_broker

ORDERS = 30


def sell(broker: BlockingBroker) -> None:
    for number in range(ORDERS):
        broker.publish("shop", "order.new", str(number).encode(), timeout=10)


def ship(broker: BlockingBroker, shipped: dict[int, str]) -> None:
    with broker.queue("orders").open_feed(prefetch=5) as feed:
        for delivery in feed:
            if not delivery.body:
                break  # the end; leaving the feed puts it back, for the next thread to see
            with delivery:  # accepts it; requeues it if this block fails
                shipped[int(delivery.body)] = threading.current_thread().name


def main() -> None:
    shipped: dict[int, str] = {}
    with open_blocking_broker(AMQP(port=0)) as broker:
        print("any AMQP client reaches the same queues at port", broker.listening[0].port)
        orders = broker.declare_queue("orders", max_length=10_000)
        broker.declare_sink("shop", "topic").bind(orders, "order.*")

        workers = [threading.Thread(target=ship, args=(broker, shipped), name=name) for name in ("Ada", "Bob", "Cyd")]
        for worker in workers:
            worker.start()
        sell(broker)
        broker.wait_idle(timeout=10)  # all that was sold is shipped
        broker.publish("shop", "order.end", b"")
        for worker in workers:
            worker.join()

    print(f"{len(shipped)} orders shipped by", *sorted(set(shipped.values())))


main()
