"""Settings refuse what cannot be written on the wire, and keep secrets out of logs."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import Login, Settings, plain


@pytest.mark.parametrize(
    "wrong",
    [
        {"frame_max": 4095},
        {"frame_max": 2**32},
        {"channel_max": 0},
        {"channel_max": 65536},
        {"heartbeat": -1},
        {"heartbeat": 65536},
        {"server_properties": {"motd": "x" * 4000}},
        {"client_properties": {"motd": "x" * 4000}},
        {"login": Login("PLAIN", bytes(4000))},
        {"virtual_host": "v" * 256},
        {"locale": "l" * 256},
    ],
)
def test_settings_that_cannot_be_written_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        Settings(**wrong)  # type: ignore[arg-type]  # that is the test


def test_plain_is_identity_user_and_password() -> None:
    assert plain("user", "pässword") == Login("PLAIN", "\0user\0pässword".encode())


def test_login_hides_its_secret() -> None:
    assert "hunter2" not in repr(plain("user", "hunter2"))
    assert "hunter2" not in repr(Settings(login=plain("user", "hunter2")))
