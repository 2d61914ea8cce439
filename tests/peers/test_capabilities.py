"""What the server announces that it can, it can: one demonstration for each capability, frame by frame."""

from collections.abc import Callable, Mapping

import pytest
from pamqp import commands

from peers.raw import RawPeer, content, encode, publish
from peers.served import open_served
from triomq.clients import open_blocking
from triomq.protocols.control import GetTotals

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Connection, Exchange, Queue = commands.Connection, commands.Exchange, commands.Queue

Open = Callable[..., RawPeer]
"""Opens raw connections, past their handshake; see the fixture ``raw``."""


def with_channel(raw: Open, **capabilities: bool) -> RawPeer:
    peer = raw(capabilities=capabilities)
    peer.open_channel(1)
    return peer


def deliveries(peer: RawPeer, count: int) -> list[tuple[str, bytes]]:
    """Consumer tags and bodies of the next deliveries."""
    found = [peer.read_delivery() for _ in range(count)]
    return [(method.consumer_tag, body) for method, body in found]


def consume(peer: RawPeer, queue: str, tag: str, **options: object) -> None:
    peer.call(1, Basic.Consume(queue=queue, consumer_tag=tag, **options), Basic.ConsumeOk)


def publisher_confirms(raw: Open) -> None:
    peer = with_channel(raw)
    queue = peer.declare_queue()
    peer.call(1, Confirm.Select(), Confirm.SelectOk)
    peer.socket.sendall(publish(1, "", queue, b"1") + publish(1, "", queue, b"2"))
    last = 0
    while last < 2:
        last = peer.expect(Basic.Ack).delivery_tag
    assert last == 2


def exchange_exchange_bindings(raw: Open) -> None:
    peer = with_channel(raw)
    queue = peer.declare_queue()
    for name in ("capable.1", "capable.2"):
        peer.call(1, Exchange.Declare(exchange=name, exchange_type="fanout", auto_delete=True), Exchange.DeclareOk)
    peer.call(1, Exchange.Bind(destination="capable.2", source="capable.1"), Exchange.BindOk)
    peer.call(1, Queue.Bind(queue=queue, exchange="capable.2", routing_key=""), Queue.BindOk)
    consume(peer, queue, "t", no_ack=True)
    peer.socket.sendall(publish(1, "capable.1", "", b"x"))
    assert deliveries(peer, 1) == [("t", b"x")]


def basic_nack(raw: Open) -> None:
    peer = with_channel(raw)
    queue = peer.declare_queue(arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    peer.socket.sendall(b"".join(publish(1, "", queue, body) for body in (b"1", b"2", b"3")))
    consume(peer, queue, "t")
    deliveries(peer, 3)
    peer.send(1, Basic.Cancel(consumer_tag="t"))
    peer.expect(Basic.CancelOk)
    peer.send(1, Basic.Nack(delivery_tag=2, multiple=True, requeue=False), Basic.Nack(delivery_tag=3))
    got = peer.call(1, Basic.Get(queue=queue, no_ack=True), Basic.GetOk)
    assert (got.redelivered, got.message_count, peer.read_content()[1]) == (True, 0, b"3")
    peer.call(1, Confirm.Select(), Confirm.SelectOk)
    peer.socket.sendall(b"".join(publish(1, "", queue, b"") for _ in range(4)))
    said: list[str] = []
    while "Basic.Nack" not in said:
        said.append(peer.read_method().name)


def consumer_cancel_notify(raw: Open) -> None:
    peer = with_channel(raw, consumer_cancel_notify=True)
    queue = peer.declare_queue()
    consume(peer, queue, "t")
    peer.send(1, Queue.Delete(queue=queue))
    assert {peer.read_method().name for _ in range(2)} == {"Basic.Cancel", "Queue.DeleteOk"}


def authentication_failure_close(raw: Open) -> None:
    peer = raw(handshake=False)
    peer.start({"authentication_failure_close": True}, response="\0guest\0wrong")
    assert peer.expect(Connection.Close).reply_code == 403


def per_consumer_qos(raw: Open) -> None:
    peer = with_channel(raw)
    queues = [peer.declare_queue(), peer.declare_queue()]
    peer.call(1, Basic.Qos(prefetch_count=1), Basic.QosOk)
    for number, queue in enumerate(queues):
        consume(peer, queue, str(number))
    for queue in queues:
        peer.socket.sendall(publish(1, "", queue, b"1") + publish(1, "", queue, b"2"))
    assert sorted(deliveries(peer, 2)) == [("0", b"1"), ("1", b"1")]
    peer.call(1, Queue.Declare(queue=queues[0], passive=True), Queue.DeclareOk)  # and nothing more


def connection_blocked(raw: Open) -> None:
    with (
        open_served(memory_high_watermark="1000000") as served,
        RawPeer(served.url, capabilities={"connection.blocked": True}) as peer,
        RawPeer(served.url) as other,
    ):
        for opened in (peer, other):
            opened.open_channel(1)
        other.declare_queue(name="q", exclusive=False)
        # What follows the message over which it is blocked is not read, and so may not all be sent.
        body = b"x" * 500_000
        for _ in range(18):
            peer.socket.sendall(publish(1, "", "q", body))
        peer.socket.sendall(publish(1, "", "q", b""))
        assert peer.expect(Connection.Blocked).reason == "low on memory"
        other.call(1, Queue.Purge(queue="q"), Queue.PurgeOk)
        peer.expect(Connection.Unblocked)


def consumer_priorities(raw: Open) -> None:
    peer = with_channel(raw)
    queue = peer.declare_queue()
    peer.call(1, Basic.Qos(prefetch_count=2), Basic.QosOk)
    consume(peer, queue, "low", arguments={"x-priority": -1})
    consume(peer, queue, "high", arguments={"x-priority": 1})
    for body in (b"1", b"2", b"3"):
        peer.socket.sendall(publish(1, "", queue, body))
    assert deliveries(peer, 3) == [("high", b"1"), ("high", b"2"), ("low", b"3")]


def direct_reply_to(raw: Open) -> None:
    peer, server = with_channel(raw), with_channel(raw)
    queue = server.declare_queue()
    consume(server, queue, "t", no_ack=True)
    consume(peer, "amq.rabbitmq.reply-to", "replies", no_ack=True)
    asking = b"\x02\x00\x15amq.rabbitmq.reply-to"  # the one property reply-to
    peer.socket.sendall(encode(1, Basic.Publish(routing_key=queue)) + content(1, b"?", asking))
    server.expect(Basic.Deliver)
    properties, body = server.read_content()
    assert body == b"?"
    server.socket.sendall(publish(1, "", properties[3:].decode(), b"!"))
    assert deliveries(peer, 1) == [("replies", b"!")]


def restms(raw: Open) -> None:
    peer = with_channel(raw)
    peer.socket.sendall(method_frame(b"\xf0\x3d\x00\x0a\x04pipe\x09some.pipe") + publish(1, "", "some.pipe", b"1"))
    assert deliveries(peer, 1) == [("x:some.pipe", b"1")]
    peer.socket.sendall(method_frame(b"\xf0\x3d\x00\x14\x09some.pipe"))


def method_frame(payload: bytes) -> bytes:
    """Frame a method that pamqp does not know."""
    return b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"


def triomq_control(raw: Open) -> None:
    peer = with_channel(raw)
    host, port = peer.socket.getpeername()[:2]
    with open_blocking(f"amqp://guest:guest@{host}:{port}") as connection:
        assert connection.control(GetTotals()).connections >= 2


DEMONSTRATIONS: Mapping[str, Callable[[Open], None]] = {
    "authentication_failure_close": authentication_failure_close,
    "basic.nack": basic_nack,
    "connection.blocked": connection_blocked,
    "consumer_cancel_notify": consumer_cancel_notify,
    "consumer_priorities": consumer_priorities,
    "direct_reply_to": direct_reply_to,
    "exchange_exchange_bindings": exchange_exchange_bindings,
    "per_consumer_qos": per_consumer_qos,
    "publisher_confirms": publisher_confirms,
    "restms": restms,
    "triomq.control": triomq_control,
}


def test_each_capability_that_is_announced_has_a_demonstration_and_no_other(raw: Open, is_triomq: bool) -> None:
    announced = raw().server_properties["capabilities"]
    if not is_triomq:
        pytest.skip("what RabbitMQ announces is its own business")
    assert dict.fromkeys(DEMONSTRATIONS, True) == announced


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_announced_capability_works(raw: Open, is_triomq: bool, name: str) -> None:
    if name not in raw().server_properties["capabilities"]:
        pytest.skip("this broker does not announce it")
    if name == "connection.blocked" and not is_triomq:
        pytest.skip("this needs a broker of its own")
    DEMONSTRATIONS[name](raw)
