"""Endpoints that listen: where, for whom, how they come and go."""

import logging
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from endpoints.client import Client
from triomq import AMQP, EMQP, MTL, MicroMsg, RestMS, Tap, open_broker
from triomq.endpoints import EndpointConfig
from triomq.errors import ActorStopped, ConfigError


async def test_endpoints_come_and_go_at_run_time() -> None:
    async with open_broker() as broker:
        first = await broker.listen(AMQP(host="127.0.0.1", port=0))
        second = await broker.listen(AMQP(host="127.0.0.1", port=0))
        assert first.port != second.port
        assert broker.listening == [first, second]
        client = Client(await trio.open_tcp_stream("127.0.0.1", first.port))
        await client.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.aclose)
            assert (await client.closed())[0] == 320
            await client.hang_up()
        assert broker.listening == [second]
        assert first.addresses == []
        other = Client(await trio.open_tcp_stream("127.0.0.1", second.port))
        await other.connect()
        await other.leave()
        await first.aclose()


async def test_log_says_whom_a_drain_cut_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_broker(AMQP(host="127.0.0.1", port=0), drain=0.1) as broker:
        deaf = Client(await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port))
        await deaf.connect()
        polite = Client(await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port))
        await polite.connect()
        await polite.leave()
    await deaf.hang_up()
    logged = [record for record in caplog.records if record.message in ("connection cut", "drained")]
    assert [(record.levelname, record.message) for record in logged] == [
        ("WARNING", "connection cut"),
        ("WARNING", "drained"),
    ]
    cut, drained = (vars(record)["fields"] for record in logged)
    assert (cut["user"], cut["vhost"], cut["reason"]) == ("guest", "/", "the client did not close in time")
    assert drained["cut"] == 1
    assert drained["seconds"] >= 0.1
    caplog.clear()
    async with open_broker(AMQP(host="127.0.0.1", port=0)):
        pass
    (record,) = (record for record in caplog.records if record.message == "drained")
    assert (record.levelname, vars(record)["fields"]["cut"]) == ("INFO", 0)


async def test_port_in_use_is_a_configuration_error_and_the_broker_goes_on() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        port = broker.listening[0].port
        with pytest.raises(ConfigError, match="is in use by another program"):
            await broker.listen(AMQP(host="127.0.0.1", port=port))
        await broker.declare_queue("q")
        assert len(broker.listening) == 1


async def test_port_in_use_comes_out_of_open_broker_bare() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        port = broker.listening[0].port
        with pytest.raises(ConfigError):
            async with open_broker(AMQP(host="127.0.0.1", port=port)):
                raise AssertionError


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", ["localhost", "0.0.0.0"]])
async def test_address_open_to_others_is_refused_for_the_default_user(host: str | list[str]) -> None:
    async with open_broker() as broker:
        with pytest.raises(ConfigError, match="is open to other machines"):
            await broker.listen(AMQP(host=host, port=0))


async def test_address_open_to_others_is_fine_with_users_of_ones_own() -> None:
    async with open_broker(AMQP(host="0.0.0.0", port=0), users={"ada": "secret"}) as broker:
        address = ("127.0.0.1", broker.listening[0].port)
        stranger = Client(await trio.open_tcp_stream(*address))
        await stranger.flush()
        await stranger.next()
        assert (await stranger.closed())[0] == 403
        await stranger.hang_up()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", ["127.0.0.2", "localhost"]])
@pytest.mark.parametrize("kind", [AMQP, EMQP, partial(MTL, old_zeromq=True)])
async def test_loopback_address_is_not_open_to_others(
    kind: Callable[..., EndpointConfig], host: str | list[str]
) -> None:
    async with open_broker(kind(host=host, port=0)) as broker:
        assert broker.listening[0].address[0] in ("127.0.0.1", "127.0.0.2")


async def test_endpoint_that_crashed_listens_again_on_its_port(caplog: pytest.LogCaptureFixture) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        listening = broker.listening[0]
        port = listening.port
        (ref,) = broker.endpoint_refs.values()
        ref.crash(None, ValueError("an endpoint"))
        await ref.wait_running()
        assert listening.port == port
        client = Client(await trio.open_tcp_stream("127.0.0.1", port))
        await client.connect()
        await client.leave()


async def test_leaving_the_block_closes_connections_in_order(nursery: trio.Nursery) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        goodbyes: list[tuple[int, str]] = []

        async def listen() -> None:
            goodbyes.append(await client.closed())
            await client.hang_up()

        nursery.start_soon(listen)
    assert goodbyes == [(320, "CONNECTION_FORCED - the broker is shutting down")]


async def test_endpoint_may_listen_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "broker.sock")
    async with open_broker(AMQP(path=path)) as broker:
        listening = broker.listening[0]
        assert listening.address == path
        with pytest.raises(ValueError, match="is a Unix socket, which has no port"):
            _ = listening.port
        client = Client(await trio.open_unix_socket(path))
        await client.connect()
        await client.leave()
        await listening.aclose()
        assert not await trio.Path(path).exists()


@pytest.mark.parametrize("host", ["::1", "localhost"])
async def test_endpoint_may_listen_on_ipv6(host: str) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    async with open_broker(AMQP(host=host, port=0)) as broker:
        listening = broker.listening[0]
        client = Client(await trio.open_tcp_stream("::1", listening.port))
        await client.connect()
        await client.leave()


ALL = ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    "config",
    [
        AMQP(host=ALL, port=0),
        Tap(host=ALL, port=0),
        RestMS(host=ALL, port=0),
        MicroMsg(host=ALL, port=0),
        EMQP(host=ALL, port=0),
        MTL(host=ALL, port=0, shared=True),
    ],
    ids=lambda config: config.protocol,
)
async def test_endpoint_listens_on_all_its_hosts_at_one_port_again_after_a_crash(config: EndpointConfig) -> None:
    async with open_broker(config) as broker:
        (listening,), (ref,) = broker.listening, broker.endpoint_refs.values()
        addresses = listening.addresses
        assert addresses == [(host, listening.port) for host in ALL]
        ref.crash(None, ValueError("an endpoint"))
        await ref.wait_running()
        assert listening.addresses == addresses
        for host in ALL:
            await (await trio.open_tcp_stream(host, listening.port)).aclose()


async def test_topics_of_emqp_are_not_open_to_others_for_the_default_user() -> None:
    async with open_broker() as broker:
        with pytest.raises(ConfigError, match="is open to other machines"):
            await broker.listen(EMQP(host="0.0.0.0", port=None, topic_port=0, security="plain"))
        listening = await broker.listen(EMQP(host=ALL, port=None, topic_port=0, security="plain"))
        assert listening.addresses == []


async def test_endpoint_that_was_closed_has_no_address() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        listening = broker.listening[0]
        await listening.aclose()
        assert listening.addresses == []
        with pytest.raises(ActorStopped, match="does not listen, any more or just now"):
            _ = listening.address


async def test_socket_file_is_taken_over_by_the_next_incarnation(tmp_path: Path) -> None:
    path = str(tmp_path / "broker.sock")
    async with open_broker(AMQP(path=path)) as broker:
        (ref,) = broker.endpoint_refs.values()
        ref.crash(None, ValueError("an endpoint"))
        await ref.wait_running()
        client = Client(await trio.open_unix_socket(path))
        await client.connect()
        await client.leave()
