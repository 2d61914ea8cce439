"""How much a virtual host must hold at least, whatever else it is asked for (AMQP 0-9-1 sections 1.6 to 1.8)."""

from collections.abc import Callable, Iterator

import pytest
from pamqp import commands

from peers.raw import RawPeer, encode, publish

Basic, Exchange, Queue = commands.Basic, commands.Exchange, commands.Queue

EXCHANGES, QUEUES, CONSUMERS, BINDINGS = 16, 256, 16, 4


@pytest.fixture
def durable(raw: Callable[..., RawPeer], name: str) -> Iterator[str]:
    """A name for a queue and an exchange that do not go by themselves; they are deleted afterwards."""
    yield name
    cleaner = raw()
    cleaner.open_channel(1)
    cleaner.call(1, Queue.Delete(queue=name), Queue.DeleteOk)
    cleaner.call(1, Exchange.Delete(exchange=name), Exchange.DeleteOk)


def test_minima_of_the_specification_have_room(raw_peer: RawPeer, name: str) -> None:
    exchanges = [f"{name}.{number}" for number in range(EXCHANGES)]
    queues = [f"{name}.{number}" for number in range(QUEUES)]
    octets = b"".join(encode(1, Exchange.Declare(exchange=each, auto_delete=True, nowait=True)) for each in exchanges)
    octets += b"".join(encode(1, Queue.Declare(queue=each, exclusive=True, nowait=True)) for each in queues)
    for queue in queues[:BINDINGS]:
        for exchange in exchanges:
            octets += encode(1, Queue.Bind(queue=queue, exchange=exchange, routing_key="k", nowait=True))
    tags = [f"t{number}" for number in range(CONSUMERS)]
    octets += b"".join(encode(1, Basic.Consume(queue=queues[0], consumer_tag=tag, nowait=True)) for tag in tags)
    raw_peer.socket.sendall(octets)
    found = raw_peer.call(1, Queue.Declare(queue=queues[0], passive=True), Queue.DeclareOk)
    assert found.consumer_count == CONSUMERS
    raw_peer.socket.sendall(b"".join(publish(1, exchange, "k", b"x") for exchange in exchanges))
    assert sorted(raw_peer.read_delivery()[0].consumer_tag for _ in exchanges) == sorted(tags)
    for queue in queues[1:BINDINGS]:
        found = raw_peer.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk)
        assert found.message_count == EXCHANGES
    raw_peer.call(1, Queue.Declare(queue=queues[-1], passive=True), Queue.DeclareOk)


def test_durable_queue_may_be_bound_to_a_transient_exchange(raw_peer: RawPeer, durable: str) -> None:
    raw_peer.call(1, Exchange.Declare(exchange=durable), Exchange.DeclareOk)
    raw_peer.call(1, Queue.Declare(queue=durable, durable=True), Queue.DeclareOk)
    raw_peer.call(1, Queue.Bind(queue=durable, exchange=durable, routing_key="k"), Queue.BindOk)
    raw_peer.socket.sendall(publish(1, durable, "k", b"x"))
    raw_peer.call(1, Basic.Get(queue=durable, no_ack=True), Basic.GetOk)
    assert raw_peer.read_content()[1] == b"x"
