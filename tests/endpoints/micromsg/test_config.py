"""The configuration of a MicroMsg2 endpoint: who may be let in without a word, and what is refused."""

from pathlib import Path

import pytest

from triomq import MicroMsg, load_config, open_broker
from triomq.endpoints import TLS, WebSocket
from triomq.errors import ConfigError


@pytest.mark.parametrize(
    ("config", "user"),
    [
        (MicroMsg(), "guest"),
        (MicroMsg(host="127.0.0.1"), "guest"),
        (MicroMsg(host="::1"), "guest"),
        (MicroMsg(path="/somewhere/micromsg.sock"), "guest"),
        (MicroMsg(host="0.0.0.0"), ""),
        (MicroMsg(host="broker.example"), ""),
        (MicroMsg(host=["127.0.0.1", "localhost"]), "guest"),
        (MicroMsg(host=["127.0.0.1", "broker.example"]), ""),
        (MicroMsg(websocket=WebSocket()), ""),
        (MicroMsg(websocket=WebSocket(), user="page"), "page"),
        (MicroMsg(user="till"), "till"),
        (MicroMsg(user=""), ""),
        (MicroMsg(host="0.0.0.0", user=""), ""),
    ],
)
def test_users_who_say_nothing_of_themselves_come_from_this_machine(config: MicroMsg, user: str) -> None:
    assert config.user == user


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ('host = "0.0.0.0"\nuser = "guest"', "user: '0.0.0.0' is open to other machines, and whoever says nothing"),
        ('host = ["localhost", "::"]\nuser = "guest"', "user: '::' is open to other machines"),
        ("window = 40000", "window: found 40000, expected int <= 32767"),
        ("window = 0", "window: found 0, expected int >= 1"),
        ("kept_seconds = -1", "kept_seconds: found -1, expected float >= 0"),
        ('domain = "elsewhere"', "domain: found 'elsewhere', but domains has 'default'"),
        ('default_destination = "topic/"', "default_destination: 'topic/' is no destination"),
        ('pushed = {till = "queue/"}', "pushed.till: 'queue/' is no destination"),
        ('color = "red"', "color"),
    ],
)
def test_wrong_setting_is_named(tmp_path: Path, text: str, trouble: str) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text(f'[[endpoints]]\ntype = "micromsg"\n{text}\n')
    with pytest.raises(ConfigError) as error:
        load_config(file, {})
    assert trouble in str(error.value)


def test_file_says_the_same_as_a_program(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text('[[endpoints]]\ntype = "micromsg"\nport = 7\ndynamic_queues = true\npushed = {"*" = "queue/q"}\n')
    assert load_config(file, {}).endpoints == (MicroMsg(port=7, dynamic_queues=True, pushed={"*": "queue/q"}),)


def test_option_for_micromsg_adds_an_endpoint() -> None:
    assert load_config(environment={}, options={"micromsg": 7}).endpoints[1:] == (MicroMsg(port=7),)


def test_url_names_a_user_where_one_has_to_log_in() -> None:
    credentials = "guest:guest"
    assert MicroMsg().client_url("localhost:8334", credentials) == "micromsg://localhost:8334"
    secure = MicroMsg(user="", tls=TLS("certificate.pem"))
    assert secure.client_url("localhost:8334", credentials) == "micromsgs://guest:guest@localhost:8334"


async def test_endpoint_listens_where_it_says(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    async with open_broker(MicroMsg(host="127.0.0.1", port=0), MicroMsg(path=path)) as broker:
        tcp, unix = broker.listening
        assert (tcp.port > 0, unix.address) == (True, path)
        assert tcp.config.describe() == "MicroMsg2 on 127.0.0.1:0"
