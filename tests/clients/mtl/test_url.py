"""What may stand in the URL of an MTL broker."""

from pathlib import Path

import pytest

from triomq.clients import MTLUrl, parse_mtl_url
from triomq.errors import ConfigError


def test_all_parts_are_read() -> None:
    url = parse_mtl_url("mtl://ada:a%23b@[::1]:7000/shop%2Ftest?profile=restms&auth_mechanism=plain&timeout=2")
    assert url == MTLUrl(
        host="::1", port=7000, user="ada", password="a#b", virtual_host="shop/test", profile="restms",
        auth_mechanism="plain", timeout=2.0,
    )  # fmt: skip
    assert url.address() == "tcp://[::1]:7000"
    assert url.address(7001) == "tcp://[::1]:7001"
    assert "a#b" not in repr(url)


def test_what_is_left_out_has_its_usual_value() -> None:
    assert parse_mtl_url("mtl://") == MTLUrl(host="127.0.0.1", port=5975, virtual_host="/", profile="queue")


def test_keys_are_files_and_need_each_other(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch()
    assert parse_mtl_url(f"mtl://h?keys={keys}&server_key={keys}").keys == str(keys)
    with pytest.raises(ConfigError, match="each needs the other"):
        parse_mtl_url(f"mtl://h?keys={keys}")
    with pytest.raises(ConfigError, match="a file that is there"):
        parse_mtl_url(f"mtl://h?keys={keys}&server_key={keys}.pub")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://h", "begins with 'amqp'"),
        ("mtl://h/a/b", "write %2F"),
        ("mtl://h?profil=x", "'profil' is not known"),
        ("mtl://h?auth_mechanism=kerberos", "it must be plain or"),
        ("mtl://h?heartbeat=20", "silence is 15 s; it must be longer than heartbeat, 20 s"),
    ],
)
def test_mistake_is_named(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_mtl_url(url)
