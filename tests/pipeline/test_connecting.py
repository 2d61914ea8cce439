"""Requests to a broker that comes and goes."""

from pathlib import Path

import pytest

from triomq.clients import TapConnection
from triomq.errors import AccessRefused, ConfigError, Disconnected, NotFound
from triomq.pipeline.connecting import BrokerLink, urls_of
from triomq.pipeline.options import ConnectionOptions, read_options

from .broker import TapBroker

NOBODY = "127.0.0.1:1"
"""A port where nobody listens: those below 1024 are the system's."""


def options(**given: str) -> ConnectionOptions:
    return read_options(ConnectionOptions, given)


def test_a_broker_that_was_restarted_is_asked_again(tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name)
    link = BrokerLink(options(address=tap_broker.address, retrybackoffms="1"))
    for count in range(2):
        tap_broker.append(name, [b"x"])
        assert link.call(lambda connection: connection.offsets(name))[0].next == count + 1
        tap_broker.restart()
    link.close()


def test_a_range_goes_on_where_it_was_when_the_connection_was_lost(tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name)
    for value in (b"a", b"b", b"c"):
        tap_broker.append(name, [value])
    link = BrokerLink(options(address=tap_broker.address, retrybackoffms="1"))
    chunks = link.fetch(name, 0, 0, 3, identity=tap_broker.bounds(name)[0].identity, most_bytes=1)
    found = next(chunks).values.each()
    tap_broker.restart()
    assert found + [value for columns in chunks for value in columns.values.each()] == [b"a", b"b", b"c"]
    link.close()


def test_addresses_are_tried_in_turn(tap_broker: TapBroker) -> None:
    link = BrokerLink(options(address=f"{NOBODY}, {tap_broker.address}", retries="0"))
    link.call(TapConnection.ping)
    link.close()


def test_a_broker_that_is_not_there_is_an_error_that_says_how_often_it_was_tried() -> None:
    link = BrokerLink(options(address=f"{NOBODY},127.0.0.1:2", retries="2", retrybackoffms="0"))
    with pytest.raises(
        Disconnected, match=r"the broker at 127.0.0.1:1, 127.0.0.1:2 was tried 3 times .* raise the option"
    ):
        link.call(TapConnection.ping)


def test_what_would_be_no_better_in_a_second_is_not_tried_again(tap_broker: TapBroker, name: str) -> None:
    more = {"address": tap_broker.address, "retrybackoffms": "600000"}
    with pytest.raises(AccessRefused):
        BrokerLink(options(user="ada", password="wrong", **more)).call(TapConnection.ping)
    link = BrokerLink(options(**more))
    with pytest.raises(NotFound):
        link.call(lambda connection: connection.offsets(name))
    link.close()


def test_an_address_has_the_credentials_beside_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pass word\n")
    given = options(address="a:1,[::1]", user="ada", passwordfile=str(tmp_path / "secret"), domain="shop", tls="true")
    first, second = urls_of(given)
    assert (first.place, first.user, first.password, first.domain, first.tls) == (
        "a:1",
        "ada",
        "pass word",
        "shop",
        True,
    )
    assert second.place == "[::1]:47281"
    assert "pass word" not in repr(first)


def test_a_url_has_them_in_itself() -> None:
    (url,) = urls_of(options(url="taps://ada:secret@broker/shop", connecttimeout="3"))
    assert (url.place, url.user, url.password, url.domain, url.tls) == ("broker:47281", "ada", "secret", "shop", True)
    assert url.timeout == 3.0
    assert urls_of(options(url="tap://broker?timeout=7"))[0].timeout == 7.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"address": "tap://host"}, "option address has 'tap:…'; it is host:port.*a URL stands in the option url"),
        ({"address": "host,"}, "option address has ''"),
        ({"address": "host:port"}, "option address has 'host:…'; it is host:port"),
        ({"address": "host", "user": "ada"}, "the option user without a password"),
        ({"address": "host", "passwordfile": "/nowhere"}, "option passwordFile is '/nowhere', and that cannot be read"),
        ({"address": "host", "tls.ca": "/ca.pem"}, "the option tls.ca without TLS; set tls to true"),
        ({"url": "tap://host", "tls.ca": "/ca.pem"}, "a url without TLS; begin it with taps://"),
        (
            {"address": "host", "tls": "true", "tls.ca": "/nowhere"},
            "option tls.ca is '/nowhere', and that cannot be used",
        ),
        ({"url": "amqp://host"}, "option url: the URL begins with 'amqp', which is no tap"),
    ],
)
def test_a_place_that_is_none_is_an_error(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerLink(options(**given))
