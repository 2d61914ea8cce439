"""What these tests share: engines that are already connected, and frames made by hand."""

import struct
from collections.abc import Iterable
from typing import TypeVar

import pamqp.frame

from triomq.protocols.amqp import (
    AckRun,
    AMQPEngine,
    BasicAck,
    BasicDeliver,
    ChannelOpen,
    ChannelOpenOk,
    Closed,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    DeliverRun,
    Event,
    Login,
    LoginRequested,
    Method,
    OpenRequested,
    PublishMix,
    PublishRun,
    Received,
    Settings,
    plain,
)
from triomq.protocols.amqp.codec import AMQP_METHODS

HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

Kind = TypeVar("Kind")


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, what: Method) -> bytes:
    return frame(1, channel, AMQP_METHODS.encode(what))


def header(channel: int, size: int, properties: bytes = b"\0\0", *, class_id: int = 60, weight: int = 0) -> bytes:
    return frame(2, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


def body(channel: int, octets: bytes) -> bytes:
    return frame(3, channel, octets)


def content(channel: int, what: Method, octets: bytes, properties: bytes = b"\0\0", *, step: int = 131064) -> bytes:
    parts = [octets[start : start + step] for start in range(0, len(octets), step)]
    frames = [body(channel, part) for part in parts]
    return method(channel, what) + header(channel, len(octets), properties) + b"".join(frames)


def sent(engine: AMQPEngine) -> bytes:
    return b"".join(engine.data_to_send())


def methods_in(data: bytes) -> list[tuple[int, Method]]:
    """Read method frames; whatever else is there is passed over."""
    found, position = [], 8 if data.startswith(b"AMQP") else 0
    while position < len(data):
        kind, channel, size = struct.unpack_from(">BHI", data, position)
        if kind == 1:
            found.append((channel, AMQP_METHODS.decode(data[position + 7 : position + 7 + size])))
        position += size + 8
    return found


def sent_methods(engine: AMQPEngine) -> list[tuple[int, Method]]:
    return methods_in(sent(engine))


def last(engine: AMQPEngine, kind: type[Kind]) -> Kind:
    """Take the events and give the last, which is of this kind."""
    event = engine.events()[-1]
    assert isinstance(event, kind), event
    return event


def admit(server: AMQPEngine) -> list[Event]:
    """Handle the events, accepting logins; return the others."""
    others: list[Event] = []
    while events := server.events():
        for event in events:
            if isinstance(event, LoginRequested):
                server.accept_login()
            elif isinstance(event, OpenRequested):
                server.open_connection()
            else:
                if isinstance(event, Closed) and event.by_peer:
                    server.send_method(0, ConnectionCloseOk())
                others.append(event)
    return others


def exchange(client: AMQPEngine, server: AMQPEngine) -> tuple[list[Event], list[Event]]:
    """Carry octets both ways until there are none; return the events of client and server."""
    seen: tuple[list[Event], list[Event]] = ([], [])
    while True:
        to_server, to_client = sent(client), sent(server)
        if not to_server and not to_client:
            return seen
        if to_server:
            server.receive_data(to_server)
            seen[1].extend(admit(server))
        if to_client:
            client.receive_data(to_client)
            seen[0].extend(client.events())


def pair(
    settings: Settings | None = None, *, client_settings: Settings | None = None, channels: int = 1
) -> tuple[AMQPEngine, AMQPEngine]:
    """Make a client and a server that are connected, with channels 1 to ``channels`` open."""
    client = AMQPEngine(
        "client", now=0.0, settings=client_settings or Settings(login=plain("guest", "guest"), heartbeat=0)
    )
    server = AMQPEngine("server", now=0.0, settings=settings)
    exchange(client, server)
    for number in range(1, channels + 1):
        client.send_method(number, ChannelOpen())
        exchange(client, server)
        server.send_method(number, ChannelOpenOk())
        exchange(client, server)
    return client, server


OPENING = (
    HEADER
    + method(0, ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"))
    + method(0, ConnectionTuneOk(2047, 131072, 0))
    + method(0, ConnectionOpen("/"))
)


def running(settings: Settings | None = None, *, channels: Iterable[int] = (1,)) -> AMQPEngine:
    """Make a server that is connected, with these channels open and nothing left to tell or to send."""
    server = AMQPEngine("server", now=0.0, settings=settings)
    server.receive_data(OPENING)
    admit(server)
    for number in channels:
        server.receive_data(method(number, ChannelOpen()))
        server.send_method(number, ChannelOpenOk())
    server.events()
    server.data_to_send()
    return server


def consumer(settings: Settings | None = None) -> AMQPEngine:
    """Make a client that is connected, with channel 1 open and nothing left to tell or to send."""
    client, _ = pair(client_settings=settings or Settings(login=Login("PLAIN", b"\0guest\0guest"), heartbeat=0))
    return client


def published_runs(events: Iterable[Event]) -> list[PublishRun]:
    """Take mixes of publishes apart; there must be nothing but publishes."""
    found: list[PublishRun] = []
    for event in events:
        assert isinstance(event, PublishRun | PublishMix), event
        found += event.runs() if isinstance(event, PublishMix) else [event]
    return found


def flatten(events: Iterable[Event]) -> list[object]:
    """Take runs apart, so that streams that were cut differently can be compared."""
    flat: list[object] = []
    for event in events:
        match event:
            case PublishRun():
                assert event.size == sum(map(len, event.contents))
                flat += [(event.channel, event.method, event.framing, octets) for octets in event.contents]
            case PublishMix():
                assert event.size == sum(map(len, event.contents))
                assert len(event.kinds) == len(event.contents)
                flat += flatten(event.runs())
            case DeliverRun():
                assert event.size == sum(map(len, event.contents))
                assert event.method.delivery_tag == event.tags[0]
                for tag, octets in zip(event.tags, event.contents, strict=True):
                    first = event.method
                    deliver = BasicDeliver(
                        first.consumer_tag, tag, first.redelivered, first.exchange, first.routing_key
                    )
                    flat.append((event.channel, deliver, event.framing, octets))
            case AckRun():
                flat += [Received(event.channel, BasicAck(tag)) for tag in event.tags]
            case _:
                flat.append(event)
    return flat


def frame_sizes(octets: bytes) -> list[int]:
    """The size of each frame."""
    sizes: list[int] = []
    while octets:
        size, _, _ = pamqp.frame.unmarshal(octets)
        sizes.append(size)
        octets = octets[size:]
    return sizes
