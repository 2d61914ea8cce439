"""Ends: a client closes, a socket breaks, the broker is asked to go."""

from collections.abc import Callable

import pika
import pytest
from pamqp import commands
from pika.exceptions import AMQPConnectionError

from peers.conftest import Connect, wait_until
from peers.pika_client import drain
from peers.raw import RawPeer, publish
from peers.served import Served

CLOSE = commands.Connection.Close(reply_code=200, reply_text="bye", class_id=0, method_id=0)


def test_close_from_the_client_is_answered_whatever_is_open(raw_peer: RawPeer) -> None:
    raw_peer.open_channel(2)
    raw_peer.call(2, commands.Basic.Consume(queue=raw_peer.declare_queue()), commands.Basic.ConsumeOk)
    raw_peer.call(0, CLOSE, commands.Connection.CloseOk)


def test_messages_published_before_a_close_arrive(raw_peer: RawPeer, connect: Connect, shared_queue: str) -> None:
    raw_peer.socket.sendall(publish(1, "", shared_queue, b"kept") * 50)
    raw_peer.call(0, CLOSE, commands.Connection.CloseOk)
    assert drain(connect().channel(), shared_queue) == [b"kept"] * 50


def test_broken_socket_gives_its_messages_back(raw_peer: RawPeer, connect: Connect, shared_queue: str) -> None:
    raw_peer.socket.sendall(publish(1, "", shared_queue, b"1") + publish(1, "", shared_queue, b"2"))
    raw_peer.call(1, commands.Basic.Consume(queue=shared_queue), commands.Basic.ConsumeOk)
    assert [raw_peer.read_delivery()[1] for _ in range(2)] == [b"1", b"2"]
    raw_peer.socket.close()
    connection = connect()
    bodies: list[bytes] = []
    connection.channel().basic_consume(shared_queue, lambda *given: bodies.append(given[-1]), auto_ack=True)
    wait_until(connection, lambda: len(bodies) == 2)
    assert bodies == [b"1", b"2"]


def test_the_broker_ends_a_connection_after_an_error_and_waits_for_close_ok(raw_peer: RawPeer) -> None:
    raw_peer.send(1, commands.Channel.Open())
    close = raw_peer.expect(commands.Connection.Close)
    assert close.reply_code == 504
    raw_peer.send(0, commands.Connection.CloseOk())
    assert raw_peer.ended()


def test_sigterm_tells_connected_clients_and_ends_with_zero(served: Served) -> None:
    with RawPeer(served.url) as idle, RawPeer(served.url) as busy:
        busy.open_channel(1)
        queue = busy.declare_queue()
        busy.socket.sendall(publish(1, "", queue, b"x") * 100)
        busy.call(1, commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        busy.read_delivery()
        served.process.terminate()
        for peer in (idle, busy):
            method = _next_on_channel_zero(peer)
            assert isinstance(method, commands.Connection.Close)
            assert (method.reply_code, method.reply_text[:17]) == (320, "CONNECTION_FORCED")
            peer.send(0, commands.Connection.CloseOk())
            assert peer.ended()
    assert served.process.wait(100) == 0


def _next_on_channel_zero(peer: RawPeer) -> object:
    while (found := peer.read()) is not None:
        if found.channel == 0:
            return found.decode()
    return None


def test_sigterm_ends_with_zero_though_a_client_does_not_answer(served: Served) -> None:
    with RawPeer(served.url):
        assert served.terminate() == 0


def test_pika_client_hears_that_the_broker_goes(served: Served) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(served.url))
    served.process.terminate()
    with pytest.raises(AMQPConnectionError):
        wait_until(connection, lambda: False)
    assert served.process.wait(100) == 0


def test_two_brokers_know_nothing_of_each_other(
    served: Served, connect: Callable[..., pika.BlockingConnection]
) -> None:
    with RawPeer(served.url) as peer:
        peer.open_channel(1)
        peer.declare_queue(name="only.here")
        channel = connect().channel()
        assert channel.queue_declare("only.here", exclusive=True).method.message_count == 0
