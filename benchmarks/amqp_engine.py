"""What the AMQP engine takes per message, without a socket: best of several runs, in microseconds.

``python benchmarks/amqp_engine.py [--quick]``. Read the figures as ratios; two machines never agree.
"""

import sys
from collections.abc import Callable

from engines import best, reading
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    LoginRequested,
    OpenRequested,
    PublishRun,
    Settings,
    plain,
)


def joined(engine: AMQPEngine) -> bytes:
    """Take what an engine has to say as one piece."""
    return b"".join(engine.data_to_send())


def connected() -> tuple[AMQPEngine, AMQPEngine]:
    """Make a server and a client that have opened channel 1."""
    server = AMQPEngine("server", now=0.0)
    client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("guest", "guest")))
    for _ in range(8):
        server.receive_data(joined(client) or b"\x08\0\0\0\0\0\0\xce")
        for event in server.events():
            if isinstance(event, LoginRequested):
                server.accept_login()
            elif isinstance(event, OpenRequested):
                server.open_connection()
        if data := joined(server):
            client.receive_data(data)
        client.events()
    client.send_method(1, ChannelOpen())
    server.receive_data(joined(client))
    server.events()
    server.send_method(1, ChannelOpenOk())
    client.receive_data(joined(server))
    client.events()
    return server, client


def publishes(client: AMQPEngine, count: int, size: int, *, unique: bool = False, sizes: int = 1) -> bytes:
    """Let the client publish ``count`` messages."""
    for number in range(count):
        properties = BasicProperties(delivery_mode=2, message_id=f"{number:032d}" if unique else None)
        body = bytes(size + number % sizes)
        client.send_content(1, BasicPublish("exchange", "routing.key"), encode_properties(properties), body)
    return joined(client)


def lively(client: AMQPEngine, count: int, *, keys: int = 1, sizes: int = 1) -> bytes:
    """Let the client publish as services do: a trace header, message-id and timestamp differ in each message."""
    for number in range(count):
        properties = BasicProperties(
            content_type="application/json",
            headers={"traceparent": f"00-{number:032x}-{number:016x}-01"},
            message_id=f"{number:036d}",
            timestamp=number,
        )
        method = BasicPublish("exchange", f"routing.key.{number % keys:06}")
        client.send_content(1, method, encode_properties(properties), bytes(200 + number % sizes))
    return joined(client)


def main() -> None:
    """Print the table."""
    seconds = 0.05 if "--quick" in sys.argv else 1.0
    server, client = connected()
    rows: list[tuple[str, float]] = []

    def measure(name: str, work: Callable[[], int]) -> None:
        rows.append((name, best(work, seconds)))

    for size in (100, 1024):
        measure(f"publish, {size} B, all alike", reading(server, publishes(client, 5000, size), 5000))
        measure(f"publish, {size} B, unique id", reading(server, publishes(client, 5000, size, unique=True), 5000))
    measure("publish, 100 to 150 B", reading(server, publishes(client, 5000, 100, sizes=50), 5000))
    measure("publish, 200 B, real properties", reading(server, lively(client, 5000), 5000))
    measure("the same, 200 to 250 B", reading(server, lively(client, 5000, sizes=50), 5000))
    measure("the same, 16 keys in turn", reading(server, lively(client, 5000, keys=16), 5000))
    measure("the same, 16 keys, 200 to 250 B", reading(server, lively(client, 5000, keys=16, sizes=50), 5000))
    measure("the same, a key each", reading(server, lively(client, 5000, keys=5000), 5000))
    measure("publish, 64 KiB", reading(server, publishes(client, 50, 65536), 50))
    measure("publish, 16 MiB", reading(server, publishes(client, 1, 16 * 2**20), 1))

    for number in range(1, 5001):
        client.send_method(1, BasicAck(number))
    measure("ack", reading(server, joined(client), 5000))

    server.receive_data(publishes(client, 500, 100))
    run = server.events()[0]
    assert isinstance(run, PublishRun)
    own = run.contents
    framing = run.framing

    def deliver() -> int:
        server.send_deliveries(1, "consumer", 1, False, "exchange", "routing.key", framing, own)
        server.data_to_send()
        return len(own)

    measure("deliver, 100 B, as framed", deliver)

    client.send_method(2, ChannelOpen())
    server.receive_data(joined(client))
    server.send_method(2, ChannelOpenOk())
    client.receive_data(joined(server))

    def renumber() -> int:
        server.send_deliveries(2, "consumer", 1, False, "exchange", "routing.key", framing, own)
        server.data_to_send()
        return len(own)

    measure("deliver, 100 B, another channel", renumber)

    one = own[:1]

    def single() -> int:
        server.send_deliveries(1, "consumer", 1, False, "exchange", "routing.key", framing, one)
        server.data_to_send()
        return 1

    measure("deliver, 100 B, one at a time", single)

    for _ in range(10):
        server.send_deliveries(1, "consumer", 1, False, "exchange", "routing.key", framing, own)
    measure("consume, 100 B", reading(client, joined(server), 10 * len(own)))

    one_publish = publishes(client, 1, 100)
    measure("publish, 100 B, one per chunk", reading(server, one_publish, 1))
    client.send_method(1, BasicAck(1))
    measure("ack, one per chunk", reading(server, joined(client), 1))

    for name, value in rows:
        print(f"{name:32} {value:10.3f} µs")


if __name__ == "__main__":
    main()
