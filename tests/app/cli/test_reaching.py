"""What commands say when they cannot reach a broker."""

import pytest
import typer

from triomq.app.cli.reaching import DEFAULT_URL, reaching, telling
from triomq.clients import parse_amqp_url
from triomq.errors import ConfigError, NotFound


def test_the_default_is_a_broker_on_this_machine() -> None:
    assert parse_amqp_url(DEFAULT_URL).place == "127.0.0.1:5672"


def test_it_connects_for_a_block(url: str) -> None:
    with reaching(url) as connection:
        assert connection.has_control


def test_an_unreachable_broker_is_a_line_and_a_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, reaching("amqp+unix:///nowhere.sock"):
        pass
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == (
        "triomq: no broker can be reached at /nowhere.sock: No such file or directory; see whether it runs there\n"
    )


def test_what_a_broker_refuses_is_a_line_and_a_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, telling():
        raise NotFound("no such thing")
    assert (caught.value.exit_code, capsys.readouterr().err) == (1, "triomq: no such thing\n")


def test_a_wrong_url_is_a_wrong_command_line() -> None:
    with pytest.raises(typer.BadParameter, match="amqps"), telling():
        raise ConfigError("amqps needs TLS")
