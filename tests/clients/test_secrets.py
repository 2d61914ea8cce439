"""URLs of all clients: no text has the password of one, wherever in it somebody has written that."""

from collections.abc import Callable

import pytest

from triomq.clients import (
    parse_amqp_url,
    parse_emqp_url,
    parse_micromsg_url,
    parse_mtl_url,
    parse_restms_url,
    parse_tap_url,
)
from triomq.errors import ConfigError

PARSERS: dict[str, Callable[[str], object]] = {
    "amqp": parse_amqp_url,
    "tap": parse_tap_url,
    "emqp": parse_emqp_url,
    "mtl": parse_mtl_url,
    "micromsg": parse_micromsg_url,
    "http": parse_restms_url,
}

URLS = [
    "{}://ada:sesame@host",
    "{}://ada:sesame@host:port",
    "{}://ada:se/sesame@host/x/y",
    "{}://ada:12/sesame/x@host/y",
    "{}://ada:12?sesame@host",
    "{}://ada:12#sesame@host",
    "{}://ada:a@b?sesame=1@host",
    "{}://ada:[sesame]@host",
    "{}+unix://ada:sesame@host/path",
    "nothing://ada:sesame@host",
    "sesame@host:1",
    "ada:sesame@host",
    "{}:ada:sesame@host",
    "//ada:sesame@host",
    "{}://host?password=sesame",
    "{}://host?timeout=tap://ada:sesame@host",
    "{}://host?sasl.jaas.config=password%3Dsesame",
    "{}://host/password=sesame/x",
]


@pytest.mark.parametrize("scheme", PARSERS)
@pytest.mark.parametrize("url", URLS)
def test_password_of_a_url_is_in_no_text(scheme: str, url: str) -> None:
    try:
        text = repr(PARSERS[scheme](url.format(scheme)))
    except ConfigError as error:
        text = str(error)
    assert "sesame" not in text
