"""What the engine of a direct connection takes per message, without a socket: best of several runs, in microseconds.

``python benchmarks/dmp_engine.py [--quick]``. Read the figures as ratios; two machines never agree.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import repeat

import msgspec

from engines import best, reading
from triomq.core import Head
from triomq.protocols import NO_PROPERTIES, BasicProperties, encode_properties
from triomq.protocols.dmp import PROTOCOL_HEADER, DMPEngine, MessageRun, Target

NAMED = encode_properties(BasicProperties(content_type="text/plain", headers={"n": 7}, delivery_mode=2))


def joined(engine: DMPEngine) -> bytes:
    """Take what an engine has to say as one piece."""
    return b"".join(engine.data_to_send())


def connected(target: Target) -> tuple[DMPEngine, DMPEngine]:
    """Make a server and a client that are ready."""
    server, client = DMPEngine("server", now=0.0), DMPEngine("client", now=0.0, lease="lease", target=target)
    server.receive_data(PROTOCOL_HEADER + b"\x05lease")
    server.events()
    (server.accept_sink if target == "sink" else server.accept_feed)("exchange")
    client.data_to_send()
    client.receive_data(joined(server))
    client.events()
    client.data_to_send()
    return server, client


def messages(
    client: DMPEngine,
    count: int,
    size: int,
    *,
    keys: int = 1,
    sizes: int = 1,
    digits: int = 5,
    properties: Sequence[bytes] = (NO_PROPERTIES,),
) -> bytes:
    """Let the client send ``count`` messages."""
    for number in range(count):
        key, body = f"routing.key.{number % keys:0{digits}}", bytes(size + number % sizes)
        client.send_message("exchange", key, properties[number % len(properties)], body)
    return joined(client)


def main() -> None:
    """Print the table."""
    seconds = 0.2 if "--quick" in sys.argv else 1.0
    server, client = connected("sink")
    rows: list[tuple[str, float]] = []

    def measure(name: str, work: Callable[[], int]) -> None:
        rows.append((name, best(work, seconds)))

    unique = [encode_properties(BasicProperties(message_id=f"{number:032}")) for number in range(5000)]
    for size in (100, 1024):
        measure(f"read, {size} B, all alike", reading(server, messages(client, 5000, size), 5000))
    measure("read, 100 B, with properties", reading(server, messages(client, 5000, 100, properties=[NAMED]), 5000))
    measure("read, 100 B, unique id", reading(server, messages(client, 5000, 100, properties=unique), 5000))
    measure("read, 100 B, 50 keys in turns", reading(server, messages(client, 5000, 100, keys=50), 5000))
    measure("read, 100 B, each key once", reading(server, messages(client, 5000, 100, keys=5000), 5000))
    measure(
        "read, 100 B, 50 keys, 1 and 2 digits", reading(server, messages(client, 5000, 100, keys=50, digits=1), 5000)
    )
    measure("read, 100 to 150 B, 50 keys", reading(server, messages(client, 5000, 100, keys=50, sizes=51), 5000))
    measure(
        "read, 100 to 150 B, unique id", reading(server, messages(client, 5000, 100, sizes=51, properties=unique), 5000)
    )
    measure("read, 100 to 150 B", reading(server, messages(client, 5000, 100, sizes=50), 5000))
    measure("read, 64 KiB", reading(server, messages(client, 50, 65536), 50))
    measure("read, 100 B, one per chunk", reading(server, messages(client, 1, 100), 1))

    feed, _ = connected("feed")
    server.receive_data(messages(client, 500, 100))
    (run,) = server.events()
    assert isinstance(run, MessageRun)

    def forward() -> int:
        feed.send_whole(run.contents, run.size)
        feed.data_to_send()
        return len(run.contents)

    measure("send, 100 B, as it came", forward)
    shape = run.envelope
    form = Head("exchange", "key", shape.properties_start, shape.properties_stop, shape.body_start)
    forms = [Head("exchange", f"key.{number:03}", *msgspec.structs.astuple(form)[2:]) for number in range(500)]

    def frame_each() -> int:
        feed.send_framed(forms, run.contents)
        feed.data_to_send()
        return len(run.contents)

    def frame() -> int:
        feed.send_framed(repeat(form), run.contents)
        feed.data_to_send()
        return len(run.contents)

    measure("send, 100 B, from another form", frame)
    measure("send, 100 B, from another form, keys", frame_each)
    body = bytes(100)

    def send() -> int:
        for _ in range(500):
            client.send_message("exchange", "key", NO_PROPERTIES, body)
        client.data_to_send()
        return 500

    measure("send, 100 B, one by one", send)

    def send_each() -> int:
        for properties in unique[:500]:
            client.send_message("exchange", "key", properties, body)
        client.data_to_send()
        return 500

    measure("send, 100 B, one by one, unique id", send_each)

    for name, value in rows:
        print(f"{name:38} {value:10.3f} µs")


if __name__ == "__main__":
    main()
