"""Connecting to a broker, and the end of commands that cannot."""

import pytest
import typer

from triomq.app.cli.connecting import DEFAULT_URL, connected, failing
from triomq.clients import parse_amqp_url
from triomq.errors import ConfigError, NotFound


def test_default_is_a_broker_on_this_machine() -> None:
    assert parse_amqp_url(DEFAULT_URL).place == "127.0.0.1:5672"


def test_connection_lasts_for_a_block(url: str) -> None:
    with connected(url) as connection:
        assert connection.has_control


def test_unreachable_broker_is_a_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, connected("amqp+unix:///nowhere.sock"):
        pass
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == (
        "triomq: no broker can be reached at /nowhere.sock: No such file or directory; see whether it runs there\n"
    )


def test_refusal_is_a_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, failing():
        raise NotFound("no such thing")
    assert (caught.value.exit_code, capsys.readouterr().err) == (1, "triomq: no such thing\n")


def test_wrong_url_is_a_wrong_command_line() -> None:
    with pytest.raises(typer.BadParameter, match="amqps"), failing():
        raise ConfigError("amqps needs TLS")
