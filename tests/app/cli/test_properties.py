"""Properties on a command line, and shown."""

from decimal import Decimal

import pytest
import typer

from triomq.app.cli.properties import plain_properties, read_given
from triomq.protocols import BasicProperties, Timestamp, Typed, encode_properties


def test_message_is_persistent_by_default() -> None:
    assert read_given([], []) == BasicProperties(delivery_mode=2)
    assert read_given(["delivery-mode=1"], []) == BasicProperties(delivery_mode=1)


def test_properties_are_pairs() -> None:
    given = ["content-type=text/plain; a=b", "priority=5", "expiration=1000", "app_id="]
    assert read_given(given, []) == BasicProperties(
        content_type="text/plain; a=b", priority=5, expiration="1000", app_id="", delivery_mode=2
    )


def test_headers_are_texts_or_json() -> None:
    given = ["a=1", "b:=1", 'c:={"d": [true, null, 1.5]}', "e=x=y"]
    headers = {"a": "1", "b": 1, "c": {"d": [True, None, 1.5]}, "e": "x=y"}
    assert read_given([], given).headers == headers


WRONG = [
    (["colour=blue"], [], "there is no property 'colour'; there are content_type, "),
    (["headers=x"], [], "there is no property 'headers'"),
    (["priority"], [], "'priority' is no property; write name=value"),
    (["priority=high"], [], "property priority is 'high'; it must be a whole number"),
    (["priority=256"], [], "property priority cannot be 256"),
    (["type=" + "x" * 300], [], "255"),
    ([], ["=x"], "'=x' is no header"),
    ([], ["a:={"], "header 'a' is '{', which is no JSON"),
    ([], ["a:=99999999999999999999"], "99999999999999999999"),
]


@pytest.mark.parametrize(("properties", "headers", "text"), WRONG)
def test_errors_name_the_property(properties: list[str], headers: list[str], text: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        read_given(properties, headers)
    assert text in str(caught.value)


def test_shown_properties_can_be_written_as_json() -> None:
    encoded = encode_properties(
        BasicProperties(
            type="t\udcff",
            timestamp=7,
            headers={
                "when": Timestamp(5),
                "typed": Typed("B", 7),
                "price": Decimal("1.50"),
                "octets": b"\xff",
                "list": [1, {"a": None}],
            },
        )
    )
    assert plain_properties(encoded) == {
        "type": r"t\xff",
        "timestamp": 7,
        "headers": {
            "when": 5,
            "typed": 7,
            "price": "1.50",
            "octets": {"base64": "/w=="},
            "list": [1, {"a": None}],
        },
    }
