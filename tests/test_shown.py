"""Values in texts: what is shown of them, and what is not."""

import pytest

from triomq.shown import shown, shown_address


@pytest.mark.parametrize(
    "text",
    [
        "tap://ada:sesame@host:47280",
        "tap://ada:ses@me/sesame@host",
        "ada:a:b,sesame@host,eve:sesame@other",
        "sesame@host",
        'org.apache.kafka.ScramLoginModule required username="ada" password="sesame";',
        "org.apache.kafka.ScramLoginModule required username=ada password='sesame, \\'sesame';",
        '{"password": "sesame", "user": "ada"}',
        "sasl.jaas.config=sesame",
        "api-key: sesame",
        "apiKey=sesame&x=1",
        "secret_token => sesame",
        "Authorization: Bearer sesame",
        "Basic sesame",
        "-----BEGIN PRIVATE KEY-----\nsesame\n-----END",
    ],
)
def test_secret_in_a_value_is_not_shown(text: str) -> None:
    for value in (text, {"x": text}, [text], text.encode()):
        assert "sesame" not in shown(value, 1000)


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "h1:47280,h2",
        '{"orders": {"0": 23, "1": -1}}',
        "/etc/triomq/ca.pem",
        "passive=1",
        "orders-.*",
        "key=a",
    ],
)
def test_value_without_a_secret_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == repr(text)


def test_long_value_is_cut() -> None:
    assert shown("x" * 100) == f"'{'x' * 59}…"
    assert shown(123) == "123"


def test_what_stands_behind_the_colon_of_an_address_is_shown_if_it_is_a_port() -> None:
    assert shown_address("h:1;h:2") == "'h:1;h:2'"
    assert shown_address("ada:sesame") == "'ada:…'"
    assert shown_address("ada:sesame,h:1") == "'ada:…,h:1'"
    assert shown_address("ada:sesame@h:1") == "'…@h:1'"
