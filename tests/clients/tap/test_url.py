"""URLs of tap."""

import pytest

from triomq.clients import TapUrl, parse_tap_url
from triomq.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("tap://", TapUrl()),
        ("tap://ada:s%2Fe@h:7/shop", TapUrl(user="ada", password="s/e", host="h", port=7, domain="shop")),
        ("taps://h", TapUrl(host="h", port=47281, tls=True)),
        ("tap://[::1]:5?timeout=2.5&name=x", TapUrl(host="::1", port=5, timeout=2.5, name="x")),
        ("tap+unix:///run/t.sock?domain=shop", TapUrl(host="", path="/run/t.sock", domain="shop")),
        ("taps://h?auth_mechanism=external", TapUrl(host="h", port=47281, tls=True, auth_mechanism="external")),
    ],
)
def test_url_says_where_and_as_whom(url: str, found: TapUrl) -> None:
    assert parse_tap_url(url) == found


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("amqp://h", "begins with 'amqp', which is no tap"),
        ("tap://h:port", "cannot be read"),
        ("tap://h#x", "has a '#'"),
        ("tap://h?colour=red", "'colour' is not known"),
        ("tap://h?timeout=0", "timeout is '0'"),
        ("tap+unix://h/x", "no host and an absolute path"),
    ],
)
def test_wrong_url_is_explained(url: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_tap_url(url)


def test_place_is_shown_without_the_password() -> None:
    url = parse_tap_url("tap://ada:secret@[::1]:5/shop")
    assert url.place == "[::1]:5"
    assert "secret" not in repr(url)
    assert parse_tap_url("tap+unix:///run/t.sock").place == "/run/t.sock"
