"""Where a RestMS broker is, read from a URL."""

from base64 import b64encode

import pytest

from triomq.clients import RestMSUrl, parse_restms_url
from triomq.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://localhost", RestMSUrl(host="localhost")),
        ("http://ada:s%40@[::1]:80/", RestMSUrl(host="::1", port=80, user="ada", password="s@")),
        ("https://h/restms/domain/%C3%B6", RestMSUrl(host="h", port=8443, tls=True, domain="ö")),
        ("http://h:9?timeout=2.5&silence=6", RestMSUrl(host="h", port=9, timeout=2.5, silence=6.0)),
        ("http+unix://ada:x@/run/triomq.sock", RestMSUrl(host="", path="/run/triomq.sock", user="ada", password="x")),
    ],
)
def test_url_says_where_and_as_whom(url: str, found: RestMSUrl) -> None:
    assert parse_restms_url(url) == found


@pytest.mark.parametrize(
    "url",
    ["amqp://h", "h:80", "http://h/restms/feed/x", "http://h/x", "http://h?x=1", "http://h?timeout=0", "http+unix://h/x",
     "http+unix:///", "http://h:x", "http://u:p#w@h"],
)  # fmt: skip
def test_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_restms_url(url)
    assert "p#w" not in str(raised.value)


def test_password_goes_in_a_field_and_never_into_a_text() -> None:
    url = parse_restms_url("http://ada:sécret@h:80")
    basic = b64encode("ada:sécret".encode()).decode()
    assert url.headers == {"Host": "h:80", "Authorization": f"Basic {basic}"}
    assert "sécret" not in repr(url)
    assert "Authorization" not in RestMSUrl().headers
