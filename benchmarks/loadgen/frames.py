"""The few AMQP 0-9-1 frames that a load needs, as octets.

Everything that is sent in a measured loop is encoded here once, before the loop starts.
"""

import struct

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = b"\xce"
METHOD, HEADER, BODY = 1, 2, 3
FRAME_OVERHEAD = 8  # type, channel, size and the end octet: specification 4.2.3

# (class, method) of what the generator waits for.
CONNECTION_START, CONNECTION_TUNE, CONNECTION_OPEN_OK = (10, 10), (10, 30), (10, 41)
CONNECTION_CLOSE, CONNECTION_CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 11), (20, 40), (20, 41)
EXCHANGE_DECLARE_OK, EXCHANGE_DELETE_OK = (40, 11), (40, 21)
QUEUE_DECLARE_OK, QUEUE_BIND_OK, QUEUE_DELETE_OK = (50, 11), (50, 21), (50, 41)
BASIC_QOS_OK, BASIC_CONSUME_OK, BASIC_DELIVER = (60, 11), (60, 21), (60, 60)
CONFIRM_SELECT_OK = (85, 11)

# basic.ack from the broker: frame head 7, class and method 4, delivery-tag 8, bits 1, frame end 1.
ACK_SIZE = 21
PERSISTENT = 2


def short_string(text: str) -> bytes:
    """One octet of length and the text (specification 4.2.5.3)."""
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def long_string(octets: bytes) -> bytes:
    """Four octets of length and the octets."""
    return struct.pack(">I", len(octets)) + octets


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame around a payload."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """One method frame."""
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def start_ok(user: str, password: str) -> bytes:
    """connection.start-ok with PLAIN and no capabilities."""
    response = f"\0{user}\0{password}".encode()
    return method(0, 10, 11, long_string(b"") + short_string("PLAIN") + long_string(response) + short_string("en_US"))


def tune_ok(channel_max: int, frame_max: int) -> bytes:
    """connection.tune-ok without heartbeats: a heartbeat between deliveries would spoil the count of octets."""
    return method(0, 10, 31, struct.pack(">HIH", channel_max, frame_max, 0))


def connection_open(virtual_host: str) -> bytes:
    """connection.open."""
    return method(0, 10, 40, short_string(virtual_host) + b"\0\0")


def connection_close() -> bytes:
    """connection.close with 200 OK."""
    return method(0, 10, 50, struct.pack(">H", 200) + short_string("done") + b"\0\0\0\0")


def channel_open(channel: int) -> bytes:
    """channel.open."""
    return method(channel, 20, 10, b"\0")


def channel_close(channel: int) -> bytes:
    """channel.close with 200 OK."""
    return method(channel, 20, 40, struct.pack(">H", 200) + short_string("done") + b"\0\0\0\0")


def exchange_declare(channel: int, exchange: str, kind: str) -> bytes:
    """exchange.declare of a transient exchange."""
    return method(channel, 40, 10, b"\0\0" + short_string(exchange) + short_string(kind) + b"\0" + long_string(b""))


def exchange_delete(channel: int, exchange: str) -> bytes:
    """exchange.delete."""
    return method(channel, 40, 20, b"\0\0" + short_string(exchange) + b"\0")


def queue_declare(
    channel: int,
    queue: str,
    *,
    durable: bool = False,
    passive: bool = False,
    exclusive: bool = False,
    arguments: bytes = b"",
) -> bytes:
    """queue.declare, its arguments encoded as a table without its length."""
    bits = int(passive) | int(durable) << 1 | int(exclusive) << 2
    return method(channel, 50, 10, b"\0\0" + short_string(queue) + bytes([bits]) + long_string(arguments))


def queue_bind(channel: int, queue: str, exchange: str, routing_key: str, *, no_wait: bool = False) -> bytes:
    """queue.bind without arguments."""
    names = short_string(queue) + short_string(exchange) + short_string(routing_key)
    return method(channel, 50, 20, b"\0\0" + names + bytes([no_wait]) + long_string(b""))


def queue_delete(channel: int, queue: str) -> bytes:
    """queue.delete, whatever is in it."""
    return method(channel, 50, 40, b"\0\0" + short_string(queue) + b"\0")


def basic_qos(channel: int, prefetch: int) -> bytes:
    """basic.qos per consumer."""
    return method(channel, 60, 10, struct.pack(">IHB", 0, prefetch, 0))


def basic_consume(channel: int, queue: str, tag: str, *, no_ack: bool, arguments: bytes = b"") -> bytes:
    """basic.consume with the consumer's own tag, and arguments as for `queue_declare`."""
    names = short_string(queue) + short_string(tag)
    return method(channel, 60, 20, b"\0\0" + names + bytes([int(no_ack) << 1]) + long_string(arguments))


def direct_put(channel: int, sink: str) -> bytes:
    """direct.put, an extension (class 61500)."""
    return method(channel, 61500, 10, short_string(sink))


def direct_get(channel: int, feed: str) -> bytes:
    """direct.get."""
    return method(channel, 61500, 20, short_string(feed))


def direct_message(exchange: str, routing_key: str, properties: bytes, body: bytes) -> bytes:
    """A message of a direct connection."""
    head = short_string(exchange) + short_string(routing_key) + properties + b"\0"
    return struct.pack(">I", len(head) + 3 + len(body)) + head + len(body).to_bytes(3, "big") + body


def direct_size(octets: bytes | bytearray) -> int | None:
    """Measure the first message at the head of a direct feed."""
    if len(octets) < 4:
        return None
    return 4 + int(struct.unpack_from(">I", octets)[0])


def basic_ack(channel: int, tag: int, *, multiple: bool) -> bytes:
    """basic.ack."""
    return method(channel, 60, 80, struct.pack(">QB", tag, multiple))


def confirm_select(channel: int) -> bytes:
    """confirm.select."""
    return method(channel, 85, 10, b"\0")


def publish_head(
    channel: int,
    exchange: str,
    routing_key: str,
    size: int,
    *,
    persistent: bool = False,
    properties: bytes | None = None,
) -> bytes:
    """basic.publish and its content header: all of a publish but the body frames.

    Args:
        channel: channel number.
        exchange: name of the exchange, "" for the default one.
        routing_key: routing key.
        size: octets of the body.
        persistent: delivery-mode 2; without it the header carries no property at all.
        properties: flags and values to send instead of these.
    """
    publish = method(channel, 60, 40, b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0")
    if properties is None:
        properties = struct.pack(">HB", 0x1000, PERSISTENT) if persistent else b"\0\0"
    return publish + frame(HEADER, channel, struct.pack(">HHQ", 60, 0, size) + properties)


def publish(
    channel: int,
    exchange: str,
    routing_key: str,
    body: bytes,
    *,
    frame_max: int,
    persistent: bool = False,
    properties: bytes | None = None,
) -> bytes:
    """A whole publish, its body in frames of at most `frame_max` octets."""
    step = frame_max - FRAME_OVERHEAD
    parts = [publish_head(channel, exchange, routing_key, len(body), persistent=persistent, properties=properties)]
    parts += [frame(BODY, channel, body[start : start + step]) for start in range(0, len(body), step)]
    return b"".join(parts)


def delivery_size(octets: bytes | bytearray) -> int | None:
    """Measure the first delivery at the head of a stream.

    Args:
        octets: what a consumer's socket gave so far, from the first octet after consume-ok.

    Returns:
        The octets of method, header and body frames together; None when it is not complete yet.

    Raises:
        RuntimeError: the stream does not begin with basic.deliver.
    """
    if len(octets) < 11:
        return None
    kind, _, size, *names = struct.unpack_from(">BHIHH", octets)
    if kind != METHOD or tuple(names) != BASIC_DELIVER:
        raise RuntimeError(f"expected basic.deliver, found frame type {kind}, method {names}: {bytes(octets[:200])!r}")
    position = size + FRAME_OVERHEAD
    if len(octets) < position + 19:
        return None
    header_size, body_size = struct.unpack_from(">IxxxxQ", octets, position + 3)
    position += header_size + FRAME_OVERHEAD
    received = 0
    while received < body_size:
        if len(octets) < position + 7:
            return None
        (part,) = struct.unpack_from(">I", octets, position + 3)
        received += part
        position += part + FRAME_OVERHEAD
    return position if len(octets) >= position else None
