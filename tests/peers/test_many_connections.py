"""Two hundred connections that all publish and all consume."""

from collections.abc import Callable

import pytest
from pamqp import commands

from peers.raw import RawPeer, publish

CONNECTIONS = 200


@pytest.fixture
def peers(raw: Callable[..., RawPeer]) -> list[RawPeer]:
    """All connections, each with a channel and a queue of its own that it consumes from."""
    opened = [raw() for _ in range(CONNECTIONS)]
    for peer in opened:
        peer.open_channel(1)
    return opened


def consume_own(peers: list[RawPeer]) -> list[str]:
    queues = [peer.declare_queue() for peer in peers]
    for peer, queue in zip(peers, queues, strict=True):
        peer.call(1, commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
    return queues


def test_clients_receive_from_their_neighbours(peers: list[RawPeer]) -> None:
    queues = consume_own(peers)
    for number, peer in enumerate(peers):
        target = queues[(number + 1) % CONNECTIONS]
        peer.socket.sendall(b"".join(publish(1, "", target, f"{number}.{copy}".encode()) for copy in range(20)))
    for number, peer in enumerate(peers):
        bodies = [peer.read_delivery()[1] for _ in range(20)]
        assert bodies == [f"{(number - 1) % CONNECTIONS}.{copy}".encode() for copy in range(20)]


def test_clients_receive_from_all(peers: list[RawPeer]) -> None:
    """40,000 deliveries out of 200 publishes through one fanout exchange."""
    for peer, queue in zip(peers, consume_own(peers), strict=True):
        peer.call(1, commands.Queue.Bind(queue=queue, exchange="amq.fanout"), commands.Queue.BindOk)
    for number, peer in enumerate(peers):
        peer.socket.sendall(publish(1, "amq.fanout", "", str(number).encode()))
    everything = sorted(str(number).encode() for number in range(CONNECTIONS))
    for peer in peers:
        assert sorted(peer.read_delivery()[1] for _ in range(CONNECTIONS)) == everything


def test_all_share_one_queue_and_every_message_comes_once(peers: list[RawPeer], shared_queue: str) -> None:
    for peer in peers:
        peer.call(1, commands.Basic.Qos(prefetch_count=2), commands.Basic.QosOk)
        peer.call(1, commands.Basic.Consume(queue=shared_queue), commands.Basic.ConsumeOk)
    for number, peer in enumerate(peers):
        peer.socket.sendall(b"".join(publish(1, "", shared_queue, f"{number}.{copy}".encode()) for copy in range(2)))
    bodies = [peer.read_delivery()[1] for peer in peers for _ in range(2)]
    assert sorted(bodies) == sorted(f"{number}.{copy}".encode() for number in range(CONNECTIONS) for copy in range(2))
