# ruff: noqa: PT012, SIM117 (what leaves a block, and where it ends, is the point)
"""Connections: how they begin, what they carry, how they end."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trustme

from clients.peer import HungUp, open_peer, open_speaker, silent
from peers.served import open_served
from triomq.clients import AMQPConnection, BasicProperties, Reconnect, open_amqp, parse_amqp_url
from triomq.errors import AccessRefused, ConfigError, Disconnected, LimitExceeded, RemoteProtocolError
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    BasicRecoverOk,
    ChannelClosed,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    Event,
    PublishRun,
    QueuePurge,
    Received,
)


async def test_connection_describes_its_broker(connection: AMQPConnection, broker: str, is_rabbitmq: bool) -> None:
    assert connection.server_properties["product"] == ("RabbitMQ" if is_rabbitmq else "triomq")
    assert repr(connection) == f"<AMQPConnection to {parse_amqp_url(broker).place}>"
    statistics = connection.statistics()
    assert (statistics.is_connected, statistics.channels, statistics.reconnects) == (True, 0, 0)


async def test_wishes_of_a_url_are_agreed_on(broker: str) -> None:
    async with open_amqp(f"{broker}?heartbeat=7&frame_max=8192&channel_max=3&name=n") as connection:
        async with connection.open_channel() as one, connection.open_channel(), connection.open_channel():
            with pytest.raises(LimitExceeded, match=r"3 channels are open.*share them"):
                async with connection.open_channel():
                    pass
            queue = await one.declare_queue(exclusive=True)
            await one.publish("", queue.name, bytes(30_000))
            fetched = await one.get(queue)
            assert fetched is not None
            assert fetched.body == bytes(30_000)


async def test_wrong_password_is_refused(broker: str) -> None:
    with pytest.raises(AccessRefused, match="403"):
        async with open_amqp(broker.replace("guest@", "wrong@")):
            pass


async def test_unknown_virtual_host_is_refused(broker: str) -> None:
    with pytest.raises(AccessRefused, match="nope"):
        async with open_amqp(broker.rstrip("/") + "/nope"):
            pass


async def test_missing_broker_is_named_in_the_error(broker: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Disconnected, match=rf"no broker can be reached at 127.0.0.1:{port}: .*see whether it runs"):
        async with open_amqp(f"amqp://127.0.0.1:{port}"):
            pass
    async with open_amqp([f"amqp://127.0.0.1:{port}", broker]) as connection:
        assert connection.url == parse_amqp_url(broker)


async def test_wrong_url_raises() -> None:
    for wrong in ("http://h", []):
        with pytest.raises(ConfigError):
            async with open_amqp(wrong):
                pass


async def test_error_of_the_block_comes_out_as_it_is(broker: str) -> None:
    for kind in (KeyError, KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            async with open_amqp(broker):
                raise kind


async def test_cancelled_block_ends_at_once(broker: str) -> None:
    with trio.move_on_after(0.05) as scope:
        async with open_amqp(broker) as connection, connection.open_channel():
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_secret_can_be_renewed(connection: AMQPConnection) -> None:
    await connection.update_secret("guest", reason="test")
    async with connection.open_channel():
        pass


async def test_heartbeats_keep_a_quiet_connection(broker: str) -> None:
    async with open_amqp(f"{broker}?heartbeat=1") as connection:
        await trio.sleep(3.2)
        assert connection.statistics().is_connected
        async with connection.open_channel():
            pass


# With a peer that does as the test says

Script = Callable[[AMQPEngine, Event], None]


def confirming(engine: AMQPEngine, event: Event) -> None:
    match event:
        case Received(channel, ConfirmSelect()):
            engine.send_method(channel, ConfirmSelectOk())
        case ChannelClosed(channel):
            engine.send_method(channel, ChannelCloseOk())


async def test_broker_that_falls_silent_is_given_up() -> None:
    stop = threading.Event()

    def stuck(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        if isinstance(event, Received) and isinstance(event.method, QueuePurge):
            stop.wait(100)
            raise HungUp

    with open_peer(stuck) as url:
        async with open_amqp(f"{url}&heartbeat=1") as connection, connection.open_channel() as channel:
            with pytest.raises(Disconnected, match="fallen silent"):
                await channel.purge("q")
            stop.set()


async def test_broker_that_hangs_up_is_named_in_the_error() -> None:
    def hang_up(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        if isinstance(event, Received) and isinstance(event.method, QueuePurge):
            raise HungUp

    with open_peer(hang_up) as url:
        async with open_amqp(url) as connection, connection.open_channel() as channel:
            with pytest.raises(Disconnected, match="without a word"):
                await channel.purge("q")
            with pytest.raises(Disconnected, match="without a word"):
                await channel.publish("", "q", b"x")


async def test_broker_that_sends_nonsense_is_named_in_the_error() -> None:
    for words, text in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not keep to AMQP"), (b"", "during the log-in")):
        with open_speaker(words) as url:
            with pytest.raises((RemoteProtocolError, Disconnected), match=text):
                async with open_amqp(url):
                    pass


async def test_broker_that_never_answers_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        with pytest.raises(Disconnected, match=r"within 0\.1 s; .*\?timeout="):
            async with open_amqp(f"amqp://127.0.0.1:{deaf.getsockname()[1]}?timeout=0.1"):
                pass


async def test_reply_without_a_request_ends_the_connection() -> None:
    def confused(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        if isinstance(event, Received) and isinstance(event.method, QueuePurge):
            engine.send_method(event.channel, BasicRecoverOk())

    with open_peer(confused) as url:
        async with open_amqp(url) as connection, connection.open_channel() as channel:
            with pytest.raises(RemoteProtocolError, match="BasicRecoverOk without a request"):
                await channel.purge("q")


async def test_publishing_waits_while_it_is_blocked() -> None:
    engines: list[AMQPEngine] = []
    published: list[int] = []

    def block(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        match event:
            case Received(_, ConfirmSelect()):
                engine.send_method(0, ConnectionBlocked("memory"))
            case Received(_, QueuePurge()):
                engine.send_method(0, ConnectionUnblocked())
            case PublishRun(channel):
                published.append(1)
                engine.send_method(channel, BasicAck(1))
        engines.append(engine)

    with open_peer(block) as url:
        async with open_amqp(url) as connection, connection.open_channel() as channel:
            with trio.fail_after(60):
                while connection.blocked is None:  # noqa: ASYNC110 (no event to wait for)
                    await trio.sleep(0.001)
            assert connection.blocked == "memory"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.publish, "", "q", b"x")
                await trio.testing.wait_all_tasks_blocked(0.02)
                assert published == []
                with trio.move_on_after(0.2):
                    await channel.purge("q")  # the peer takes this for a sign to unblock
            assert (published, connection.blocked) == ([1], None)


async def test_publishing_waits_while_the_broker_wants_no_flow() -> None:
    flows: list[bool] = []

    def stop(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        match event:
            case Received(channel, ConfirmSelect()):
                engine.send_method(channel, ChannelFlow(False))
            case Received(channel, ChannelFlowOk(active)):
                flows.append(active)
            case Received(channel, QueuePurge()):
                engine.send_method(channel, ChannelFlow(True))
            case PublishRun(channel):
                engine.send_method(channel, BasicAck(1))

    with open_peer(stop) as url:
        async with open_amqp(url) as connection, connection.open_channel() as channel:
            with trio.fail_after(60):
                while not flows:  # noqa: ASYNC110 (no event to wait for)
                    await trio.sleep(0.001)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.publish, "", "q", b"x")
                await trio.testing.wait_all_tasks_blocked(0.02)
                assert channel.statistics().unconfirmed == 0
                with trio.move_on_after(0.2):
                    await channel.purge("q")
    assert flows == [False, True]


async def test_broker_that_takes_no_octets_holds_publishers_back() -> None:
    stop = threading.Event()

    def deaf(engine: AMQPEngine, event: Event) -> None:
        confirming(engine, event)
        if isinstance(event, PublishRun):
            stop.wait(100)
            raise HungUp

    with open_peer(deaf) as url:
        async with open_amqp(url) as connection, connection.open_channel(confirms=False) as channel:
            sent = 0
            with trio.move_on_after(1):
                while True:
                    await channel.publish("", "q", bytes(10_000))
                    sent += 10_000
            assert sent < 20_000_000
            stop.set()
            with pytest.raises(Disconnected):
                while True:
                    await channel.publish("", "q", bytes(10_000))


# TLS and Unix sockets


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def tls_port(broker: str, authority: trustme.CA) -> "Iterator[int]":
    """A door of TLS in front of the broker."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    url = parse_amqp_url(broker)

    async def pump(source: trio.abc.Stream, target: trio.abc.Stream) -> None:
        try:
            while data := await source.receive_some(65536):
                await target.send_all(data)
            await target.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(target)

    async def serve(client: trio.abc.Stream) -> None:
        async with await trio.open_tcp_stream(url.host, url.port) as target, trio.open_nursery() as nursery:
            nursery.start_soon(pump, client, target)
            nursery.start_soon(pump, target, client)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield listener.transport_listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_tls_carries_everything(tls_port: int, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    url = f"amqps://guest:guest@localhost:{tls_port}/"
    async with open_amqp(url, ssl_context=context) as connection, connection.open_channel() as channel:
        queue = await channel.declare_queue(exclusive=True)
        async with channel.open_pipeline() as pipeline:
            for _ in range(2000):
                await pipeline.publish("", queue.name, bytes(1000), BasicProperties(type="t"))
        count = 0
        async with channel.consume(queue) as deliveries:
            async for delivery in deliveries:
                with delivery:
                    assert delivery.body == bytes(1000)
                    count += 1
                if count == 2000:
                    break


async def test_certificate_that_is_not_trusted_is_refused(tls_port: int) -> None:
    with pytest.raises(Disconnected, match=r"TLS with localhost:\d+ failed: .*ssl_context trusts it"):
        async with open_amqp(f"amqps://localhost:{tls_port}"):
            pass


async def test_tls_with_a_broker_that_has_none_is_said(broker: str) -> None:
    with pytest.raises(Disconnected, match="TLS with"):
        async with open_amqp(broker.replace("amqp://", "amqps://")):
            pass


async def test_unix_socket_does_as_well(tmp_path: Path) -> None:
    with open_peer(confirming, path=tmp_path / "s") as url:
        async with open_amqp(url) as connection, connection.open_channel():
            assert connection.url.place == str(tmp_path / "s")


async def test_no_unix_socket_is_said(tmp_path: Path) -> None:
    with pytest.raises(Disconnected, match="no broker can be reached at"):
        async with open_amqp(f"amqp+unix://{tmp_path}/nothing"):
            pass


async def test_connection_that_is_left_in_the_middle_of_a_peer_s_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.clients.amqp.link.CLOSE_TIMEOUT", 0.1)
    with open_speaker(b"") as url:
        with pytest.raises(Disconnected):
            async with open_amqp(url):
                pass
    with open_peer(silent) as url, trio.fail_after(60):
        async with open_amqp(url):
            pass


async def test_broker_that_stops_says_so() -> None:
    with open_served() as served:
        async with open_amqp(served.url) as connection, connection.open_channel() as channel:
            queue = await channel.declare_queue(exclusive=True)
            async with channel.consume(queue) as deliveries:
                await trio.to_thread.run_sync(served.terminate)
                with pytest.raises(Disconnected, match="320 CONNECTION_FORCED"):
                    await anext(deliveries)
            with pytest.raises(Disconnected, match="320 CONNECTION_FORCED"):
                await channel.publish("", queue.name, b"x")
            await connection.wait_disconnected()
            assert not connection.statistics().is_connected


async def test_broker_that_is_killed_is_found_again_at_its_place() -> None:
    with open_served() as served, open_served() as other:
        policy = Reconnect(delay=0.01)
        async with (
            open_amqp([served.url, other.url], reconnect=policy) as connection,
            connection.open_channel() as channel,
        ):
            queue = await channel.declare_queue("q")
            async with channel.consume(queue) as deliveries:
                await trio.to_thread.run_sync(served.terminate)
                with trio.fail_after(60):
                    await channel.publish("", "q", b"x", mandatory=True)
                    with await anext(deliveries) as delivery:
                        assert delivery.body == b"x"
            assert connection.url.port == parse_amqp_url(other.url).port
