"""Two AMQP engines talk in memory: no socket, no task, no clock."""

from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ChannelOpen,
    ChannelOpened,
    ChannelOpenOk,
    Closed,
    Connected,
    DeliverRun,
    LoginRequested,
    OpenRequested,
    PublishRun,
    Received,
    Settings,
    plain,
)

client = AMQPEngine("client", now=0.0, settings=Settings(login=plain("guest", "guest")))
server = AMQPEngine("server", now=0.0)
consumers: dict[str, tuple[int, str]] = {}  # queue → channel and consumer tag


def serve() -> None:
    """Be a very small broker: every queue has one consumer and keeps nothing."""
    while events := server.events():
        for event in events:
            match event:
                case LoginRequested(mechanism=mechanism):
                    print("server: a login by", mechanism)
                    server.accept_login()
                case OpenRequested():
                    server.open_connection()
                case ChannelOpened(channel=channel):
                    server.send_method(channel, ChannelOpenOk())
                case Received(channel=channel, method=BasicConsume(queue=queue)):
                    consumers[queue] = channel, "tag-1"
                    server.send_method(channel, BasicConsumeOk("tag-1"))
                case PublishRun():
                    print("server:", len(event.contents), "publishes to", event.method.routing_key)
                    channel, tag = consumers[event.method.routing_key]
                    exchange, key = event.method.exchange, event.method.routing_key
                    server.send_deliveries(channel, tag, 1, False, exchange, key, event.framing, event.contents)


def listen() -> None:
    """Be a client: say what arrives."""
    for event in client.events():
        match event:
            case Connected():
                print("client: connected, frames of", event.frame_max)
                client.send_method(1, ChannelOpen())
            case ChannelOpened():
                client.send_method(1, BasicConsume("work"))
                properties = encode_properties(BasicProperties(content_type="text/plain"))
                for text in (b"one", b"two", b"three"):
                    client.send_content(1, BasicPublish("", "work"), properties, text)
            case DeliverRun():
                for content in event.contents:
                    read = decode_properties(event.framing.properties(content))
                    print("client:", read.content_type, event.framing.body(content).decode())
                client.close(200, "Goodbye")
            case Closed():
                print("client: closed")


while not client.outbox.finished:
    server.receive_data(b"".join(client.data_to_send()))
    serve()
    client.receive_data(b"".join(server.data_to_send()))
    listen()
