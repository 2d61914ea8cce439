"""Endpoints that speak TLS: the handshake has a deadline, and certificates are renewed while clients stay."""

import logging
import ssl
from pathlib import Path

import pytest
import trio
import trustme

from endpoints.client import Client
from triomq.app import Broker, Config, User, open_broker
from triomq.app.config import load_config
from triomq.app.reload import change_to
from triomq.endpoints import AMQP, TLS
from triomq.errors import ConfigError

AUTHORITY = trustme.CA()


def issue(folder: Path, name: str = "localhost") -> TLS:
    certificate = AUTHORITY.issue_cert(name)
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    return TLS(str(folder / "certificate.pem"), str(folder / "key.pem"))


async def connect(broker: Broker) -> tuple[Client, int]:
    """Connect a client, past its handshakes; give it and the number of the certificate that it saw."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    stream = trio.SSLStream(
        await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port),
        context,
        server_hostname="localhost",
        https_compatible=True,
    )
    await stream.do_handshake()
    client = Client(stream)
    await client.connect()
    await client.open_channel()
    return client, int(stream.getpeercert()["serialNumber"], 16)


def test_the_port_is_the_one_that_clients_expect() -> None:
    tls = TLS("certificate.pem")
    assert (AMQP().port, AMQP(tls=tls).port, AMQP(port=5672, tls=tls).port, AMQP(port=0).port) == (5672, 5671, 5672, 0)
    assert AMQP(tls=tls).name == "amqp-localhost-5671"


async def test_clients_work_over_tls_and_are_closed_in_order(tmp_path: Path) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, tls=issue(tmp_path))) as broker:
        client, _ = await connect(broker)
        await client.declare("q")
        await client.leave()
        second, _ = await connect(broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.listening[0].aclose)
            assert (await second.closed())[0] == 320
            await second.hang_up()


async def test_client_that_never_finishes_the_handshake_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("triomq.endpoints.base.stream_listener._HANDSHAKE", 0.1)
    async with open_broker(AMQP(host="127.0.0.1", port=0, tls=issue(tmp_path))) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
        with trio.fail_after(60):
            assert await stream.receive_some() == b""
        await stream.aclose()
        caplog.set_level(logging.INFO)
        stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
        await stream.send_all(b"AMQP\0\0\x09\x01")
        with trio.fail_after(60):
            while await stream.receive_some():
                pass
        await stream.aclose()
        assert [record.fields["reason"] for record in caplog.records if "TLS" in record.getMessage()] == [  # type: ignore[attr-defined]
            "wrong version number"
        ]
        client, _ = await connect(broker)
        await client.leave()


async def test_broker_ends_while_clients_shake_hands(tmp_path: Path) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, tls=issue(tmp_path))) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
        await stream.send_all(b"\x16\x03\x01")
    with trio.fail_after(60):
        try:
            assert await stream.receive_some() == b""
        except trio.BrokenResourceError:
            pass
    await stream.aclose()


async def test_certificates_are_renewed_and_clients_that_are_there_stay(tmp_path: Path) -> None:
    config = Config(endpoints=(AMQP(host="127.0.0.1", port=0, tls=issue(tmp_path)),))
    async with open_broker(*config.endpoints) as broker:
        client, first = await connect(broker)
        await change_to(broker, config, config)
        again, same = await connect(broker)
        issue(tmp_path)
        await change_to(broker, config, config)
        other, second = await connect(broker)
        assert (first == same, first == second) == (True, False)
        (tmp_path / "key.pem").write_text("nonsense", encoding="utf-8")
        with pytest.raises(ConfigError, match="it takes PEM"):
            await change_to(broker, config, config)
        for one in (client, again, other, (await connect(broker))[0]):
            await one.declare("q")
            await one.leave()


async def test_certificate_that_cannot_be_read_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tls: cannot read nowhere"):
        async with open_broker(AMQP(port=0, tls=TLS("nowhere"))):
            pass
    path = tmp_path / "triomq.toml"
    path.write_text('[[endpoints]]\ntype = "amqp"\n[endpoints.tls]\ncertificate = "nowhere"', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"endpoints\[0\]\.tls: cannot read .*/nowhere"):
        load_config(path, {})


async def test_to_be_open_without_tls_is_worth_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tls = issue(tmp_path)
    wide, secure, near = AMQP(host="0.0.0.0", port=0), AMQP(host="0.0.0.0", port=0, tls=tls), AMQP(port=0)
    async with open_broker(wide, secure, near, users={"ada": User("secret")}) as broker:
        said = [record for record in caplog.records if "can be read on the network" in record.getMessage()]
        assert [record.fields["endpoint"] for record in said] == [broker.listening[0].name]  # type: ignore[attr-defined]
