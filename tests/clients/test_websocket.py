"""The clients for Trio over WebSocket: as over TCP, through TLS too, and what they say where there is none."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from triomq.app import Broker, open_broker
from triomq.clients import Reconnect, open_amqp, open_blocking, open_dmp_feed, open_dmp_sink, open_micromsg
from triomq.endpoints import AMQP, TLS, EndpointConfig, MicroMsg, WebSocket
from triomq.errors import AccessRefused, ConfigError, Disconnected

PATIENCE = 60.0


@asynccontextmanager
async def served(*configs: EndpointConfig) -> AsyncIterator[Broker]:
    with trio.fail_after(PATIENCE):
        async with open_broker(*configs) as broker:
            yield broker


def amqp(**options: object) -> AMQP:
    usual = {"host": "127.0.0.1", "port": 0, "websocket": WebSocket(path="/amqp")}
    return AMQP(**{**usual, **options})  # type: ignore[arg-type]


def url_of(broker: Broker, path: str = "/amqp", credentials: str = "guest:guest") -> str:
    return f"ws://{credentials}@127.0.0.1:{broker.listening[0].port}{path}"


async def test_client_publishes_and_consumes_bodies_of_any_size() -> None:
    bodies = [b"", b"small", bytes(range(256)) * 40_000]
    async with served(amqp()) as broker, open_amqp(url_of(broker)) as connection:
        async with connection.open_channel() as channel:
            await channel.declare_queue("q")
            for body in bodies:
                await channel.publish("", "q", body)
            found = []
            async with channel.consume("q") as deliveries:
                async for delivery in deliveries:
                    found.append(delivery.body)
                    if len(found) == len(bodies):
                        break
        assert found == bodies


async def test_client_comes_back_when_the_listener_does() -> None:
    async with served(amqp()) as broker:
        port = broker.listening[0].port
        policy = Reconnect(delay=0.01, max_delay=0.05)
        async with open_amqp(url_of(broker), reconnect=policy) as connection, connection.open_channel() as channel:
            await channel.declare_queue("q")
            await broker.listening[0].aclose()
            await broker.listen(amqp(port=port))
            await channel.publish("", "q", b"again")
            assert (await broker.queue("q").statistics()).ready == 1


@pytest.mark.parametrize(
    ("path", "said"), [("/other", "404 Not Found, there is nothing but WebSocket at /amqp"), ("/%20", "404")]
)
async def test_client_says_what_the_broker_has_answered(path: str, said: str) -> None:
    async with served(amqp()) as broker:
        with pytest.raises(Disconnected, match=said):
            async with open_amqp(url_of(broker, path)):
                pass


async def test_client_that_finds_no_websocket_says_so() -> None:
    async with served(amqp(websocket=None)) as broker:
        with pytest.raises(Disconnected, match=r"no WebSocket at 127\.0\.0\.1:.*; see whether the broker listens"):
            async with open_amqp(url_of(broker)):
                pass


async def test_wrong_password_is_refused() -> None:
    async with served(amqp()) as broker:
        with pytest.raises(AccessRefused):
            async with open_amqp(url_of(broker, credentials="guest:wrong")):
                pass


async def test_direct_connections_go_over_websocket_too() -> None:
    async with (
        served(amqp()) as broker,
        open_amqp(url_of(broker)) as connection,
        connection.open_channel() as channel,
    ):
        await channel.declare_queue("prices", exclusive=True)
        await channel.bind("prices", "amq.topic", "stock.*")
        async with open_dmp_feed(channel, "prices") as feed:
            async with open_dmp_sink(channel, "amq.topic") as sink:
                for price in range(1000):
                    await sink.publish("stock.ACME", b"%d" % price)
            # Here the broker has read them all.
            assert [(await anext(feed)).body for _ in range(1000)] == [b"%d" % price for price in range(1000)]


async def test_client_goes_through_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    tls = TLS(str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))
    async with served(AMQP(port=0, tls=tls, websocket=WebSocket())) as broker:
        url = f"wss://localhost:{broker.listening[0].port}"
        async with open_amqp(url, ssl_context=context) as connection, connection.open_channel() as channel:
            await channel.declare_queue("q")
            await channel.publish("", "q", bytes(200_000))
            delivery = await channel.get("q")
            assert delivery is not None
            assert len(delivery.body) == 200_000


async def test_micromsg_goes_over_websocket() -> None:
    async with served(MicroMsg(host="127.0.0.1", port=0, websocket=WebSocket())) as broker:
        await broker.declare_queue("q")
        async with open_micromsg(url_of(broker, "/")) as micromsg:
            await micromsg.publish("queue/q", b"hello")
        message = await broker.queue("q").get()
        assert message is not None
        assert message.body == b"hello"


def test_blocking_client_says_that_it_speaks_none() -> None:
    with pytest.raises(ConfigError, match="speaks no WebSocket; use open_amqp"):
        open_blocking("ws://localhost:15670/")
