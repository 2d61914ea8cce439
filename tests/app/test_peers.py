"""Peers in programs, configurations and reloads."""

import logging
from pathlib import Path

import pytest
import trio
import trustme

from triomq import AMQP, TLS, Config, Peer, Synchronise, load_config, open_broker
from triomq.app.reload import change_to
from triomq.errors import ConfigError

HERE = AMQP(host="127.0.0.1", port=0)


def write(folder: Path, text: str) -> Path:
    path = folder / "triomq.toml"
    path.write_text(text)
    return path


def test_file_may_name_peers_and_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pass\n")
    text = '[[peers]]\nurl = "amqp://ada@there:5673/shop"\npassword_file = "secret"\norigin = "here"\n'
    (peer,) = load_config(write(tmp_path, text), {}).peers
    url = peer.place()
    assert (url.user, url.password, url.host, url.virtual_host) == ("ada", "pass", "there", "shop")
    assert (peer.name, peer.origin) == ("there:5673", "here")


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ('url = "http://ada:secret@there"', r"peers\[0\]\.url: .*no AMQP"),
        ('url = "amqp://ada:secret@there"\ndomain = "shop"', r"peers\[0\]\.domain: found 'shop'"),
        ('url = "amqps://there"\nca = "missing"', r"peers\[0\]\.cannot read the certificates"),
        ('url = "amqp://there"\npassword_file = "missing"', r"peers\[0\]\.password_file: cannot read"),
        ("url = 5672", r"peers\[0\]\.url: found something \(not shown"),
        ('url = "amqp://there"\npipe_type = "queue"', "pipe, fifo|'pipe', 'fifo'"),
    ],
)
def test_errors_name_the_mistake_and_no_password(tmp_path: Path, text: str, trouble: str) -> None:
    with pytest.raises(ConfigError, match=trouble) as caught:
        load_config(write(tmp_path, f"[[peers]]\n{text}\n"), {})
    assert "secret" not in str(caught.value)


async def test_peers_come_and_go_with_the_configuration(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="triomq.serve")
    async with open_broker(HERE, drain=0.1) as there, open_broker() as here:
        await here.declare_queue("q")
        url = f"amqp://127.0.0.1:{there.listening[0].port}"
        stays, comes = Synchronise(url, origin="stays"), Synchronise(url, origin="comes")
        old, new = Config(endpoints=(), peers=(stays,)), Config(endpoints=(), peers=(stays, comes))
        await change_to(here, Config(endpoints=()), old)
        (first,) = here.peers
        await change_to(here, old, new)
        assert here.peers[0] is first
        assert here.peers[1].name == f"{first.name}.2"
        with trio.fail_after(60):
            await here.peers[1].wait_announced()
        assert "q" in there.directory.queues
        await change_to(here, new, Config(endpoints=()))
        assert here.peers == []
        events = [record.getMessage() for record in caplog.records if record.name == "triomq.serve"]
        assert events == ["peer added", "peer added", "peer removed", "peer removed"]


async def test_peer_is_reached_over_tls_and_only_if_it_is_to_be_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "s.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    secure = AMQP(host="127.0.0.1", port=0, tls=TLS(certificate=str(tmp_path / "s.pem")))
    async with open_broker(secure, drain=0.1) as there, open_broker() as here:
        await here.declare_queue("q")
        url = f"amqps://127.0.0.1:{there.listening[0].port}"
        with trio.fail_after(60):
            wrong = await here.synchronise(Synchronise(url, ca=str(tmp_path / "other.pem"), retry=0.01))
            right = await here.synchronise(Synchronise(url, ca=str(tmp_path / "ca.pem"), origin="here"))
            await right.wait_announced()
        assert there.directory.queues["q"].origin == "guest@here"
        assert not wrong.statistics().is_connected


async def test_peer_shows_where_it_is() -> None:
    async with open_broker() as here:
        peer = await here.synchronise(Synchronise("amqp://guest:secret@127.0.0.1:1"))
        assert isinstance(peer, Peer)
        assert repr(peer) == "<Peer '127.0.0.1:1'>"


async def test_forget_origin_deletes_what_a_peer_has_made() -> None:
    async with open_broker(HERE, drain=0.1) as there, open_broker() as here:
        await here.declare_queue("q")
        peer = await here.synchronise(Synchronise(f"amqp://127.0.0.1:{there.listening[0].port}", origin="here"))
        with trio.fail_after(60):
            await peer.wait_announced()
        await peer.aclose()
        assert await there.forget_origin("guest@here") == 1
        assert not there.directory.queues
