"""A channel error ends its channel and nothing else; the number is free again at once."""

from collections.abc import Callable

import pika
import pytest
from pamqp import commands
from pamqp.base import Frame as Method
from pika.exceptions import ChannelClosedByBroker

from peers.pika_client import drain
from peers.raw import RawPeer, publish

Open = commands.Channel.Open
OpenOk = commands.Channel.OpenOk
Close = commands.Channel.Close
CloseOk = commands.Channel.CloseOk


def test_other_channels_go_on_after_a_channel_error(connection: pika.BlockingConnection, queue: str) -> None:
    failing, other = connection.channel(), connection.channel()
    other.basic_publish("", queue, b"before")
    with pytest.raises(ChannelClosedByBroker) as caught:
        failing.queue_declare("no such queue", passive=True)
    assert (caught.value.reply_code, caught.value.reply_text[:9]) == (404, "NOT_FOUND")
    other.basic_publish("", queue, b"after")
    assert drain(other, queue) == [b"before", b"after"]


def test_everything_after_an_error_is_dropped_until_the_close_is_answered(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    passive = commands.Queue.Declare(queue="no such queue", passive=True)
    raw_peer.send(1, passive, commands.Queue.Purge(queue=queue), passive)
    raw_peer.socket.sendall(publish(1, "", queue, b"dropped") + publish(1, "no such exchange", "", b"dropped"))
    assert raw_peer.expect(Close).reply_code == 404
    raw_peer.send(1, CloseOk(), Open())
    raw_peer.expect(OpenOk)
    raw_peer.call(1, commands.Basic.Get(queue=queue), commands.Basic.GetEmpty)


def test_hundred_publishes_to_a_missing_exchange_close_the_channel_once(raw_peer: RawPeer) -> None:
    for _ in range(10):
        raw_peer.socket.sendall(publish(1, "no such exchange", "key", b"body") * 100)
        assert raw_peer.expect(Close).reply_code == 404
        raw_peer.send(1, CloseOk(), Open())
        raw_peer.expect(OpenOk)


def test_close_that_crosses_ours_is_answered(raw_peer: RawPeer) -> None:
    raw_peer.socket.sendall(publish(1, "no such exchange", "key", b"body"))
    raw_peer.send(1, Close(reply_code=200, reply_text="bye", class_id=0, method_id=0))
    answer = raw_peer.read_method()
    if isinstance(answer, Close):  # a broker that has seen our close already may leave its own unsaid
        assert answer.reply_code == 404
        raw_peer.expect(CloseOk)
        raw_peer.send(1, CloseOk())
    else:
        assert isinstance(answer, CloseOk)
    raw_peer.send(1, Open())
    raw_peer.expect(OpenOk)


def test_channel_number_is_free_at_once_after_close_ok(raw_peer: RawPeer) -> None:
    for _ in range(300):
        raw_peer.call(1, Close(reply_code=200, reply_text="", class_id=0, method_id=0), CloseOk)
        raw_peer.open_channel(1)


def test_number_reused_under_deliveries_starts_afresh(raw: Callable[..., RawPeer], shared_queue: str) -> None:
    """What was on its way to the former channel goes back, and tags begin at one again."""
    peer = raw()
    peer.open_channel(1)
    peer.open_channel(2)
    peer.socket.sendall(b"".join(publish(2, "", shared_queue, str(number).encode()) for number in range(1000)))
    consume = commands.Basic.Consume(queue=shared_queue, consumer_tag="t")
    for _ in range(5):
        peer.call(1, consume, commands.Basic.ConsumeOk)
        assert peer.read_delivery()[0].delivery_tag == 1
        peer.send(1, Close(reply_code=200, reply_text="", class_id=0, method_id=0))
        _skip_deliveries(peer)
        peer.open_channel(1)
    peer.call(1, consume, commands.Basic.ConsumeOk)
    deliveries = [peer.read_delivery() for _ in range(1000)]
    assert [method.delivery_tag for method, _ in deliveries] == list(range(1, 1001))
    assert [body for _, body in deliveries] == [str(number).encode() for number in range(1000)]
    assert deliveries[0][0].redelivered


def _skip_deliveries(peer: RawPeer, until: type[Method] = CloseOk) -> Method:
    """Read past deliveries to a method; a delivery that was begun is whole."""
    while not isinstance(method := peer.read_method(), until):
        assert isinstance(method, commands.Basic.Deliver)
        peer.read_content()
    return method


def test_number_reused_after_an_error_under_deliveries_starts_afresh(
    raw_peer: RawPeer, shared_queue: str, is_triomq: bool
) -> None:
    raw_peer.open_channel(2)
    raw_peer.socket.sendall(publish(2, "", shared_queue, b"x") * 500)
    raw_peer.call(1, commands.Basic.Consume(queue=shared_queue, consumer_tag="t"), commands.Basic.ConsumeOk)
    raw_peer.send(1, commands.Basic.Ack(4_000_000))
    assert _skip_deliveries(raw_peer, Close).reply_code == 406
    raw_peer.send(1, CloseOk(), Open())
    if is_triomq:
        raw_peer.expect(OpenOk)
    else:  # RabbitMQ lets deliveries follow its close
        _skip_deliveries(raw_peer, OpenOk)
    raw_peer.call(1, commands.Basic.Consume(queue=shared_queue), commands.Basic.ConsumeOk)
    tags = [raw_peer.read_delivery()[0].delivery_tag for _ in range(500)]
    assert tags == list(range(1, 501))
