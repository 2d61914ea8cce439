"""Attacks by AMQP: contents, tables and settlements; those by its topology are in ``stalls``."""

import struct
from collections.abc import Iterable, Iterator

from loadgen import frames
from loadgen.connection import CHANNEL, Connection
from stallsides.attacked import Attacked, pour, rest


def text(name: str, value: str) -> bytes:
    """Encode a text of a table."""
    return frames.short_string(name) + b"S" + frames.long_string(value.encode())


def number(name: str, value: int) -> bytes:
    """Encode a number of a table."""
    return frames.short_string(name) + b"l" + struct.pack(">q", value)


def declare(name: str, arguments: bytes = b"", *, exclusive: bool = False, durable: bool = False) -> bytes:
    """Declare a queue without an answer."""
    bits = 0x10 | int(durable) << 1 | int(exclusive) << 2
    head = b"\0\0" + frames.short_string(name) + bytes([bits])
    return frames.method(CHANNEL, 50, 10, head + frames.long_string(arguments))


def exchange(name: str, kind: str, arguments: bytes = b"") -> bytes:
    """Declare an exchange without an answer."""
    names = frames.short_string(name) + frames.short_string(kind)
    return frames.method(CHANNEL, 40, 10, b"\0\0" + names + b"\x10" + frames.long_string(arguments))


def bind(source: str, key: str, queue: str, arguments: bytes = b"") -> bytes:
    """Bind without an answer."""
    names = frames.short_string(queue) + frames.short_string(source) + frames.short_string(key)
    return frames.method(CHANNEL, 50, 20, b"\0\0" + names + b"\x01" + frames.long_string(arguments))


def unbind(source: str, key: str, queue: str) -> bytes:
    """Unbind; AMQP has no way to ask for no answer."""
    names = frames.short_string(queue) + frames.short_string(source) + frames.short_string(key)
    return frames.method(CHANNEL, 50, 50, b"\0\0" + names + frames.long_string(b""))


def publish(source: str, key: str, body: bytes = b"", headers: bytes = b"") -> bytes:
    """Publish, with headers if there are any."""
    properties = struct.pack(">H", 0x2000) + frames.long_string(headers) if headers else b"\0\0"
    start = frames.method(CHANNEL, 60, 40, b"\0\0" + frames.short_string(source) + frames.short_string(key) + b"\0")
    head = struct.pack(">HHQ", 60, 0, len(body)) + properties
    return start + frames.frame(2, CHANNEL, head) + (frames.frame(3, CHANNEL, body) if body else b"")


def nack(tag: int, *, requeue: bool) -> bytes:
    """Reject everything up to a tag."""
    return frames.method(CHANNEL, 60, 120, struct.pack(">QB", tag, 1 | requeue << 1))


def purge(name: str) -> bytes:
    """Purge a queue without an answer."""
    return frames.method(CHANNEL, 50, 30, b"\0\0" + frames.short_string(name) + b"\x01")


def many(count: float, source: str, key: str, body: bytes = b"x") -> Iterator[bytes]:
    """Publish many messages."""
    message = publish(source, key, body)
    return (message for _ in range(int(count)))


def fill(broker: Attacked, count: float, arguments: bytes = b"", queue: str = "q") -> Connection:
    """Declare a queue, and publish messages into it."""
    connection = broker.connect()
    pour(connection, iter([declare("dead"), declare(queue, arguments)]))
    pour(connection, many(count, "", queue))
    return connection


def drink(connection: Connection, queue: str, count: float) -> None:
    """Consume so many messages, and acknowledge none."""
    connection.socket.sendall(frames.basic_consume(CHANNEL, queue, f"c{queue}", no_ack=False))
    for _ in range(int(count)):
        connection.wait_for((60, 60))


LETTERED = text("x-dead-letter-exchange", "") + text("x-dead-letter-routing-key", "dead")


def settled_at_once(broker: Attacked, size: float) -> Iterator[str]:
    """Leave 100,000 deliveries unsettled; reject all, requeue all, and go."""
    count = 100_000 * size
    yield "fill, consume"
    connection = fill(broker, count, LETTERED)
    drink(connection, "q", count)
    yield "reject all, as dead letters"
    pour(connection, iter([nack(0, requeue=False)]))
    rest(5 * size + 1)
    yield "consume those"
    drink(connection, "dead", count)
    yield "requeue all"
    pour(connection, iter([nack(0, requeue=True)]))
    rest()
    yield "the end"
    connection.socket.close()
    rest()


def expiring(broker: Attacked, size: float) -> Iterator[str]:
    """Let 200,000 messages expire at once, and 10,000 queues with one each."""
    for arguments, what in ((LETTERED, "as dead letters"), (b"", "dropped")):
        yield "fill"
        fill(broker, 100_000 * size, arguments + number("x-message-ttl", 3_000), f"q{len(arguments)}")
        yield f"expire, {what}"
        rest(4 + 4 * size)
    yield "fill 10,000 queues"
    connection = broker.connect()
    queues = [f"e{n}" for n in range(int(10_000 * size))]
    arguments = LETTERED + number("x-message-ttl", 3_000)
    pour(connection, (declare(name, arguments) for name in queues))
    pour(connection, (publish("", name, b"x") for name in queues))
    yield "expire, one in each"
    rest(5)


def overflowing(broker: Attacked, size: float) -> Iterator[str]:
    """Publish into queues that are full, with the dead letters of each policy."""
    for overflow in ("drop-head", "reject-publish-dlx"):
        arguments = LETTERED + number("x-max-length", 1) + text("x-overflow", overflow)
        yield overflow
        fill(broker, 50_000 * size, arguments, overflow)
        rest(1)


def letters_to_filters(broker: Attacked, size: float) -> Iterator[str]:
    """Let dead letters go through as many headers bindings as there may be."""
    yield "bind"
    connection = broker.connect()
    pour(connection, iter([exchange("h", "headers"), declare("h")]))
    said = pour(connection, (bind("h", str(n), "h", number("x", n)) for n in range(int(16_000 * size))))
    for name, arguments in (("ttl", number("x-message-ttl", 2_000)), ("full", number("x-max-length", 1))):
        yield f"{said}; {name}"
        fill(broker, 2_000 * size, text("x-dead-letter-exchange", "h") + arguments, name)
        rest(8 * size + 2)


def large_queues(broker: Attacked, size: float) -> Iterator[str]:
    """Purge and delete queues of 500,000 messages."""
    for what, method in (("purge", purge("q")), ("delete", frames.queue_delete(CHANNEL, "q"))):
        yield "fill"
        connection = fill(broker, 500_000 * size)
        yield what
        connection.socket.sendall(method)
        rest(2)


def tables(broker: Attacked, size: float) -> Iterator[str]:
    """Send tables of 120 KB: many fields, deep ones, as arguments and as headers, through sinks that look at them."""
    fields = b"".join(frames.short_string(f"{n:x}") + b"t\x01" for n in range(20_000))[:120_000]
    fields = b"".join(frames.short_string(f"{n:x}") + b"t\x01" for n in range(17_000))
    array = frames.short_string("a") + b"A" + frames.long_string(b"V" * 110_000)
    deep = b""
    for _ in range(60):
        deep = frames.short_string("d") + b"F" + frames.long_string(deep)
    wide = b"".join(frames.short_string(f"{n:x}") + b"F" + frames.long_string(b"") for n in range(10_000))
    for what, table in (("fields", fields), ("array", array), ("deep", deep), ("tables", wide)):
        yield f"{what}: declare"
        for name, make in (("queue", declare), ("exchange", lambda name, table: exchange(name, "topic", table))):
            pour(broker.connect(), (make(f"{name}{what}{n}", table) for n in range(20)))
        yield f"{what}: bind"
        connection = broker.connect()
        pour(connection, iter([declare("q", text("x-dead-letter-exchange", "h")), exchange("h", "headers")]))
        said = pour(connection, (bind("h", str(n), "q", table) for n in range(20)))
        yield f"{said}; {what}: publish"
        pour(broker.connect(), (publish("h", "", b"x", table) for _ in range(int(200 * size) + 1)))
        rest()


def transactions(broker: Attacked, size: float) -> Iterator[str]:
    """Commit 100,000 publishes at once, and 100,000 acknowledgements."""
    count = 100_000 * size
    yield "publish"
    connection = broker.connect()
    pour(connection, iter([declare("q")]))
    connection.call(frames.method(CHANNEL, 90, 10), (90, 11))
    pour(connection, many(count, "", "q"))
    yield "commit"
    connection.socket.sendall(frames.method(CHANNEL, 90, 20))
    connection.wait_for((90, 21))
    rest()
    yield "consume, acknowledge"
    drink(connection, "q", count)
    connection.socket.sendall(frames.basic_ack(CHANNEL, 0, multiple=True) + frames.method(CHANNEL, 90, 20))
    yield "commit those"
    connection.wait_for((90, 21))


def unbinding(broker: Attacked, size: float) -> Iterator[str]:
    """Unbind one by one what was bound 30,000 times."""
    count = int(30_000 * size)
    for kind in ("topic", "headers", "direct"):
        keys = [f"*.{n}.#" for n in range(2_000)] if kind == "topic" else [str(n) for n in range(count)]
        yield f"bind {kind}"
        connection = broker.connect()
        pour(connection, iter([declare("q"), exchange(kind, kind)]))
        said = pour(connection, (bind(kind, key, "q") for key in keys))
        yield f"{said}; unbind"
        pour(connection, (unbind(kind, key, "q") for key in keys))


def long_names(broker: Attacked, size: float) -> Iterator[str]:
    """Bind with keys of 127 words, publish with keys of 127 words and with 500 keys at once."""
    yield "bind"
    connection = broker.connect()
    pour(connection, iter([declare("q"), exchange("t", "topic")]))
    said = pour(connection, (bind("t", ".".join(["*", *[f"{n % 7}"] * 120]), "q") for n in range(int(400 * size) + 1)))
    yield f"{said}; publish"
    pour(broker.connect(), (publish("t", f"{n}." + ".".join("a" * 120)) for n in range(int(2_000 * size))))
    yield "publish with 500 keys each"
    keys = b"".join(b"S" + frames.long_string(f"{n}.{'.'.join('a' * 100)}".encode()) for n in range(500))
    message = publish("t", "", b"x", frames.short_string("CC") + b"A" + frames.long_string(keys))
    pour(broker.connect(), (message for _ in range(20)))


def waiting_gets(broker: Attacked, size: float) -> Iterator[str]:
    """Send get and declare in one go, 30,000 of each."""
    yield "get"
    connection = fill(broker, 1_000)
    get = frames.method(CHANNEL, 60, 70, b"\0\0" + frames.short_string("q") + b"\x01")
    connection.socket.settimeout(120)
    count = int(30_000 * size)
    read(connection, (get for _ in range(count)))
    yield "declare passively"
    read(connection, (frames.queue_declare(CHANNEL, "q", passive=True) for _ in range(count)))


def read(connection: Connection, methods: Iterable[bytes]) -> None:
    """Send methods and read what comes, a hundred at a time."""
    batch: list[bytes] = []
    for each in methods:
        batch.append(each)
        if len(batch) == 100:
            connection.socket.sendall(b"".join(batch))
            connection.call(frames.basic_qos(CHANNEL, 0), frames.BASIC_QOS_OK)
            batch.clear()


ATTACKS = (
    settled_at_once,
    expiring,
    overflowing,
    letters_to_filters,
    large_queues,
    tables,
    transactions,
    unbinding,
    long_names,
    waiting_gets,
)
