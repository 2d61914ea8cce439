"""Ports of ZeroMQ over TLS, Unix sockets and memory streams, and behind networks that break for one side alone."""

import socket
import ssl
import struct
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme
import zmq

from endpoints.emqp.conftest import USERS, Served
from endpoints.zmtp.raw import Stranger
from protocols.zmtp.wire import GREETING, message, ready
from triomq.app import open_broker
from triomq.endpoints import EMQP
from triomq.endpoints.zmtp import acceptor
from triomq.errors import ConfigError
from triomq.transports import TLS

INFORM = message(b"", b"eMQP/1.0", b"INFORM", b"id1", b"", b"client")


async def answered(stream: trio.abc.Stream) -> bool:
    """Open a connection with NULL, and return whether eMQP answers."""
    heard = b""
    await stream.send_all(GREETING + ready() + INFORM)
    with trio.fail_after(60):
        while b"ACK" not in heard:
            heard += await stream.receive_some(65536)
    return b"id1" in heard


async def test_peers_come_over_a_unix_socket(nursery: trio.Nursery, tmp_path: Path) -> None:
    config = EMQP(path=str(tmp_path / "emqp"))
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        assert Served(broker, nursery, config).endpoint.addresses[0] == config.path
        async with await trio.open_unix_socket(config.path) as stream:
            assert await answered(stream)
    with pytest.raises(ConfigError, match="path: there is a worker_port"):
        EMQP(path="/x", worker_port=0)


async def test_peers_come_over_tls(nursery: trio.Nursery, tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    config = EMQP(port=0, tls=TLS(str(tmp_path / "own.pem")))
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        port = Served(broker, nursery, config).port
        async with trio.SSLStream(
            await trio.open_tcp_stream("127.0.0.1", port), context, server_hostname="localhost", https_compatible=True
        ) as stream:
            assert await answered(stream)
        async with await Stranger.connect(port) as stranger:
            await stranger.say(GREETING)
            assert await stranger.is_ended()


async def test_peers_come_over_streams_in_memory(nursery: trio.Nursery) -> None:
    config = EMQP(port=0)
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        ours, theirs = trio.testing.memory_stream_pair()
        Served(broker, nursery, config).endpoint.listener.connect_stream(theirs, "memory")
        assert await answered(ours)
        await ours.aclose()


async def test_port_of_topics_is_named_beside_the_addresses_of_peers(nursery: trio.Nursery) -> None:
    config = EMQP(port=0, topic_port=0)
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        endpoint = Served(broker, nursery, config).endpoint
        assert endpoint.topics is not None
        assert endpoint.addresses == [("127.0.0.1", endpoint.listener.port)]
        assert endpoint.others == {"topics": ("127.0.0.1", endpoint.topics.port)}


class Proxy:
    """Carries octets between clients and a broker, and can break the network for the clients alone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[trio.SocketStream] = []
        self._kept: list[trio.SocketStream] = []

    async def run(self, task_status: trio.TaskStatus[int]) -> None:
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            task_status.started(listener.socket.getsockname()[1])
            try:
                async with listener:
                    while True:
                        client = await listener.accept()
                        broker = await trio.open_tcp_stream("127.0.0.1", self._port)
                        self._clients.append(client)
                        self._kept.append(broker)
                        nursery.start_soon(self._carry, client, broker)
                        nursery.start_soon(self._carry, broker, client)
            finally:
                for stream in (*self._clients, *self._kept):
                    stream.socket.close()

    async def _carry(self, source: trio.SocketStream, target: trio.SocketStream) -> None:
        try:
            async for data in source:
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    def break_for_clients(self) -> None:
        """Reset all clients, and leave the broker's side open and silent."""
        for client in self._clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
        self._clients.clear()


def ask(dealer: "zmq.Socket[bytes]", number: int) -> bool:
    """Say INFORM; return whether it is answered in a while."""
    dealer.send_multipart([b"", b"eMQP/1.0", b"INFORM", b"id%d" % number, b"", b"client"])
    while dealer.poll(2000):
        if b"id%d" % number in dealer.recv_multipart():
            return True
    return False


async def test_dealer_of_libzmq_is_served_again_after_a_network_has_broken_for_it_alone(nursery: trio.Nursery) -> None:
    config = EMQP(port=0)
    async with open_broker(config, users=USERS, drain=0.2) as broker, trio.open_nursery() as proxies:
        proxy = Proxy(Served(broker, nursery, config).port)
        port = await proxies.start(proxy.run)
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.setsockopt(zmq.IDENTITY, b"worker-1")
            dealer.connect(f"tcp://127.0.0.1:{port}")
            assert await trio.to_thread.run_sync(ask, dealer, 0)
            proxy.break_for_clients()
            with trio.fail_after(60):
                number = 1
                while not await trio.to_thread.run_sync(ask, dealer, number):
                    number += 1
            assert number < 5
        proxies.cancel_scope.cancel()


async def test_peer_that_answers_nothing_any_more_is_let_go_within_twice_the_heartbeat(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "HEARTBEAT", 0.2)
    config = EMQP(port=0)
    caplog.set_level("INFO")
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        port = Served(broker, nursery, config).port
        async with await Stranger.greeted(port) as silent:
            await silent.hear(b"PING")
            assert await silent.is_ended()
    reasons = [getattr(record, "fields", {}).get("reason") for record in caplog.records]
    assert "the peer says nothing, and answers no PING" in reasons
