"""What a peer has made, as pika's blocking connection sees it: it may be used, and not deleted."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import Connect
from peers.raw import RawPeer

MADE = (
    b"\xf0\x3d\x00\x1e\x05topic\x09foreign.f",
    b"\xf0\x3d\x00\x0a\x04pipe\x09foreign.p",
    b"\xf0\x3d\x00\x32\x09foreign.p\x09foreign.f\x01#",
)
GONE = (b"\xf0\x3d\x00\x14\x09foreign.p", b"\xf0\x3d\x00\x28\x09foreign.f")


def tell(peer: RawPeer, *payloads: bytes) -> None:
    """Send methods of the class restms, which pamqp does not know, and see that they are done."""
    frames = [b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce" for payload in payloads]
    peer.socket.sendall(b"".join(frames))
    peer.declare_queue()


@pytest.fixture
def peer(raw: Callable[..., RawPeer], is_triomq: bool) -> Iterator[RawPeer]:
    """A peer that has made a feed and a pipe, and joined them."""
    if not is_triomq:
        pytest.skip("RabbitMQ has no class restms")
    peer = raw()
    peer.open_channel(1)
    tell(peer, *MADE)
    yield peer
    tell(peer, *GONE)


def test_a_client_may_declare_and_publish_and_the_peer_gets_it(peer: RawPeer, connect: Connect) -> None:
    channel = connect().channel()
    channel.exchange_declare("foreign.f", "topic", durable=True)
    channel.queue_declare("foreign.p", passive=True)
    channel.basic_publish("foreign.f", "some.key", b"42")
    method, body = peer.read_delivery()
    assert (method.consumer_tag, method.exchange, method.routing_key, body) == (
        "x:foreign.p",
        "foreign.f",
        "some.key",
        b"42",
    )


@pytest.mark.parametrize(
    "delete",
    [
        lambda channel: channel.queue_delete("foreign.p"),
        lambda channel: channel.exchange_delete("foreign.f"),
        lambda channel: channel.queue_unbind("foreign.p", "foreign.f", "#"),
    ],
    ids=["queue", "exchange", "binding"],
)
def test_a_client_may_not_delete(
    peer: RawPeer, connect: Connect, delete: Callable[[pika.adapters.blocking_connection.BlockingChannel], object]
) -> None:
    with pytest.raises(ChannelClosedByBroker, match=r"guest@127\.0\.0\.1") as refused:
        delete(connect().channel())
    assert refused.value.reply_code == 403
