"""Reading URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.clients import AMQPUrl, parse_amqp_url
from triomq.errors import ConfigError

GOOD = {
    "amqp://": AMQPUrl(),
    "amqp://localhost": AMQPUrl(host="localhost"),
    "amqp://h:1234": AMQPUrl(host="h", port=1234),
    "amqp://guest:guest@127.0.0.1:5672/": AMQPUrl(),
    "amqp://ada:s%40cr%2Fet@h/shop": AMQPUrl(host="h", user="ada", password="s@cr/et", virtual_host="shop"),
    "amqp://h/%2F": AMQPUrl(host="h"),
    "amqp://h/a%2Fb%20c": AMQPUrl(host="h", virtual_host="a/b c"),
    "amqp://ada:@h": AMQPUrl(host="h", user="ada", password=""),
    "amqp://[::1]:99/": AMQPUrl(host="::1", port=99),
    "amqp://h?heartbeat=30&frame_max=4096&timeout=0.5": AMQPUrl(host="h", heartbeat=30, frame_max=4096, timeout=0.5),
    "amqp://h?name=shop%201&channel_max=5": AMQPUrl(host="h", name="shop 1", channel_max=5),
    "amqps://h/shop?auth_mechanism=external": AMQPUrl(
        host="h", port=5671, tls=True, virtual_host="shop", auth_mechanism="external"
    ),
    "amqps://h:5": AMQPUrl(host="h", port=5, tls=True),
    "ws://h": AMQPUrl(host="h", port=80, websocket="/"),
    "ws://ada:x@h:15670/amqp?virtual_host=shop": AMQPUrl(
        host="h", port=15670, user="ada", password="x", virtual_host="shop", websocket="/amqp"
    ),
    "wss://h/amqp": AMQPUrl(host="h", port=443, tls=True, websocket="/amqp"),
    "amqp+unix:///run/triomq.sock": AMQPUrl(host="", path="/run/triomq.sock"),
    "amqp+unix://ada:x@/run/a%20b?virtual_host=shop": AMQPUrl(
        host="", path="/run/a b", user="ada", password="x", virtual_host="shop"
    ),
}


@pytest.mark.parametrize("url", GOOD)
def test_url_says_where_and_as_whom(url: str) -> None:
    assert parse_amqp_url(url) == GOOD[url]


BAD = {
    "": "does not begin with a scheme, and is no AMQP; write amqp://",
    "localhost": "does not begin with a scheme, and is no AMQP",
    "amqp:localhost": "the URL has no // behind its amqp:; write amqp://",
    "http://h": "begins with 'http'",
    "amqp://h:many": "cannot be read",
    "amqp://h:99999": "cannot be read",
    "amqp://[::1": "cannot be read",
    "amqp://h/a/b": "the virtual host 'a/b' has a slash in it; write %2F",
    "amqp://ada:p#w@h": "%23 for #",
    "amqp://h/a#b": "write %23",
    "amqp://h?heart=1": "option 'heart' is not known; there are heartbeat, frame_max, channel_max, timeout",
    "amqp://h?heartbeat=-1": "option heartbeat is '-1'; it must be a whole number from 0 to 65535",
    "amqp://h?frame_max=100": "a whole number from 4096",
    "amqp://h?auth_mechanism=magic": "auth_mechanism is 'magic'; it must be plain or external",
    "amqp://h?channel_max=0": "a whole number from 1 to 65535",
    "amqp://h?timeout=0": "option timeout is '0'; it must be seconds, more than 0",
    "amqp://h?timeout=nan": "seconds",
    "amqp+unix://h/run/x": "no host and an absolute path",
    "amqp+unix://": "no host and an absolute path",
}


@pytest.mark.parametrize("url", BAD)
def test_wrong_url_is_refused_with_what_is_wrong(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_amqp_url(url)
    assert BAD[url] in str(caught.value)


@given(st.text())
def test_any_text_is_read_or_refused(rest: str) -> None:
    try:
        found = parse_amqp_url(f"amqp://{rest}")
    except ConfigError:
        return
    assert found.port <= 65535


@pytest.mark.parametrize(
    "url",
    [
        "amqp://ada:secret@h:many",
        "ada:secret@h",
        "amqps://ada:secret@h:many",
        "amqp://ada:secret/@h",
        "amqp://a:secret@h/b/c",
    ],
)
def test_errors_never_show_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_amqp_url(url)
    assert "secret" not in str(caught.value)


def test_url_is_shown_without_the_password() -> None:
    assert repr(parse_amqp_url("amqp://ada:secret@[::1]/shop")) == "AMQPUrl('ada' at [::1]:5672 in 'shop')"
    assert parse_amqp_url("amqp+unix:///run/x").place == "/run/x"
