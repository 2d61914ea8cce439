"""Options as Spark hands them over: lower-cased texts."""

import pytest

from triomq.errors import ConfigError
from triomq.pipeline.options import ConnectionOptions, read_options
from triomq.pipeline.source_options import read_source_options


def read(**given: str) -> ConnectionOptions:
    return read_options(ConnectionOptions, {"address": "localhost", **given})


def test_options_are_found_whatever_case_their_names_have() -> None:
    assert read(retrybackoffms="5").retry_backoff_ms == 5
    assert read(RetryBackoffMs="5").retry_backoff_ms == 5
    assert read_options(ConnectionOptions, {"address": "h", "tls": "true", "tls.ca": "/ca.pem"}).tls_ca == "/ca.pem"


def test_an_option_that_is_not_known_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(
        ConfigError, match=r"'retrybackofms' is not known; did you mean retryBackoffMs\? There are addr"
    ):
        read(retrybackofms="5")
    with pytest.raises(ConfigError, match=r"'zzz' is not known; there are address, connectTimeout"):
        read(zzz="5")


def test_options_of_spark_itself_are_passed_over() -> None:
    given = {"address": "localhost", "checkpointlocation": "/tmp"}
    assert read_options(ConnectionOptions, given, besides=["checkpointLocation"]).address == "localhost"


def test_a_value_of_another_type_is_an_error_that_shows_it() -> None:
    with pytest.raises(ConfigError, match="option retries is 'many': Expected int"):
        read(retries="many")
    with pytest.raises(ConfigError, match="option tls is 'perhaps': Expected bool"):
        read(tls="perhaps")
    with pytest.raises(ConfigError, match="option retries is '-1': Expected int >= 0"):
        read(retries="-1")


def test_secrets_are_in_no_representation() -> None:
    assert "sesame" not in repr(read(user="ada", password="sesame"))
    found = read_source_options({"url": "tap://ada:sesame@localhost", "subscribe": "orders"})
    assert "sesame" not in repr(found)
    assert repr(found).startswith("SparkSourceOptions(address='', user='guest', ")


def test_a_place_is_named_once() -> None:
    with pytest.raises(ConfigError, match="neither of the options url and address"):
        read_options(ConnectionOptions, {})
    with pytest.raises(ConfigError, match="both of the options url and address"):
        read(url="tap://localhost")
    with pytest.raises(ConfigError, match="the options url and user; a url has that in itself"):
        read_options(ConnectionOptions, {"url": "tap://localhost", "user": "ada"})
    with pytest.raises(ConfigError, match="the options password and passwordFile"):
        read(password="a", passwordfile="/b")
