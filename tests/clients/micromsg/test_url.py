"""URLs of MicroMsg2 peers."""

import pytest

from triomq.clients import MicroMsgUrl, parse_micromsg_url
from triomq.clients.micromsg.url import with_identity
from triomq.errors import ConfigError


def test_url_says_where_and_as_whom() -> None:
    assert parse_micromsg_url("micromsg://") == MicroMsgUrl()
    assert parse_micromsg_url("micromsg://a%40b:p%23w@broker:99/?identity=shop-3&window=50&timeout=2") == MicroMsgUrl(
        user="a@b", password="p#w", host="broker", port=99, identity="shop-3", window=50, timeout=2.0
    )
    assert parse_micromsg_url("micromsg://[::1]").place == "[::1]:8334"
    assert parse_micromsg_url("micromsgs://broker") == MicroMsgUrl(host="broker", port=8335, tls=True)
    unix = parse_micromsg_url("micromsg+unix://ada:x@/run/mm.sock?heartbeat=0&max_message=1000&auth_mechanism=plain")
    assert unix == MicroMsgUrl(
        host="", path="/run/mm.sock", user="ada", password="x", heartbeat=0, max_message=1000, auth_mechanism="plain"
    )
    assert parse_micromsg_url("micromsg://x?peer=sharpmessaging").is_sharpmessaging
    assert not MicroMsgUrl().is_sharpmessaging


def test_password_is_never_shown() -> None:
    assert "secret" not in repr(parse_micromsg_url("micromsg://ada:secret@broker"))


def test_identity_is_made_up_where_none_is_given() -> None:
    first, second = with_identity(MicroMsgUrl()), with_identity(MicroMsgUrl())
    assert first.identity != second.identity
    assert first.identity.startswith("triomq-")
    assert with_identity(MicroMsgUrl(identity="x")).identity == "x"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("amqp://host", "is no MicroMsg2; write micromsg://"),
        ("micromsg://host/shop", "MicroMsg2 has none"),
        ("micromsg://host?window=32768", "from 0 .no acks. to 32767"),
        ("micromsg://host?window=-1", "from 0"),
        ("micromsg://host?identity=", "1 to 255 printable"),
        ("micromsg://host?identity=%C3%B6", "1 to 255 printable"),
        ("micromsg://host?heartbeat=0.01", "from 0.1 to 86400"),
        ("micromsg://host?heartbeat=often", "from 0.1 to 86400"),
        ("micromsg://host?max_message=1", "from 256"),
        ("micromsg://host?timeout=0", "more than 0"),
        ("micromsg://host?auth_mechanism=magic", "plain or scram-sha-256"),
        ("micromsg://host?peer=telnet", "micromsg or sharpmessaging"),
        ("micromsg://host?vhost=x", "not known"),
        ("micromsg+unix://host/run/x", "has no host"),
        ("micromsg+unix:///", "an absolute path"),
    ],
)
def test_what_is_wrong_is_named(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_micromsg_url(url)
