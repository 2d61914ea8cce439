"""Where and how tap is listened for."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from endpoints.tap.client import TapParty, append, declare_stream, values
from triomq.app import open_broker
from triomq.clients import open_tap
from triomq.endpoints import TLS, Tap
from triomq.errors import ConfigError

LEAST = 64 * 1024


def test_port_is_the_one_that_clients_expect() -> None:
    tls = TLS("certificate.pem")
    assert (Tap().port, Tap(tls=tls).port, Tap(port=5, tls=tls).port, Tap(port=0).port) == (47280, 47281, 5, 0)


def test_names_say_where_it_listens() -> None:
    assert (Tap().name, Tap(path="/run/t.sock").name) == ("tap-localhost-47280", "tap-run-t.sock")
    assert (Tap().place, Tap(path="/run/t.sock").place) == ("localhost:47280", "/run/t.sock")
    assert (Tap().hosts, Tap(path="/run/t.sock").hosts) == (("localhost",), ())
    assert Tap().client_url("h:5", "ada:pw") == "tap://ada:pw@h:5"
    assert Tap(tls=TLS("c.pem")).client_url("h:5", "ada:pw") == "taps://ada:pw@h:5"
    assert Tap(port=0).bound_to(7).port == 7


def test_domain_must_be_there() -> None:
    with pytest.raises(ConfigError, match="domain: found 'shop', but domains has 'default'"):
        Tap(domain="shop").check(["default"])


def test_frames_have_room_for_requests_however_short_memory_is() -> None:
    assert Tap().settings(("PLAIN",), 1 << 30).max_frame == 16 * 1024 * 1024
    assert Tap().settings(("PLAIN",), 1000).max_frame == LEAST


async def test_clients_come_over_tcp_and_unix_sockets(tmp_path: Path) -> None:
    path = str(tmp_path / "tap.sock")
    async with open_broker(Tap(host="127.0.0.1", port=0), Tap(path=path)) as broker:
        declare_stream(broker)
        await append(broker, b"x")
        for stream in (
            await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port),
            await trio.open_unix_socket(path),
        ):
            async with stream:
                tap = await TapParty(stream).open()
                assert values(await tap.ask(tap.fetch(0))) == [b"x"]


async def test_blocking_client_comes_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    tls = TLS(str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with open_broker(Tap(host="127.0.0.1", port=0, tls=tls)) as broker:
        declare_stream(broker)
        await append(broker, *[b"%d" % number for number in range(300)])
        port = broker.listening[0].port

        def read() -> list[int]:
            with open_tap(f"taps://127.0.0.1:{port}", ssl_context=context) as tap:
                assert len(tap.offsets("orders")) == 1
                assert tap.offsets("orders", since=1.5)[0].position == 0
                return [int(value) for each in tap.fetch("orders", 0, 7, 250) for value in each.values.each()]

        assert await trio.to_thread.run_sync(read) == list(range(7, 250))
