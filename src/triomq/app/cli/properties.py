"""Properties of messages as they are written on a command line, and as they are shown."""

import base64
from collections.abc import Iterable
from decimal import Decimal

import msgspec
import typer

from triomq.errors import LocalProtocolError
from triomq.protocols import BasicProperties, FieldValue, Timestamp, Typed, decode_properties, encode_properties

_NUMBERS = ("delivery_mode", "priority", "timestamp")
_NAMES = tuple(name for name in BasicProperties.__struct_fields__ if name != "headers")
_PERSISTENT = 2


def read_given(properties: Iterable[str], headers: Iterable[str]) -> BasicProperties:
    """Read ``name=value`` pairs; a message is persistent unless they say otherwise.

    Raises:
        typer.BadParameter: A pair has no "=", there is no such property, or its value does not fit.
    """
    found: dict[str, str | int | dict[str, FieldValue]] = {"delivery_mode": _PERSISTENT}
    for pair in properties:
        name, value = _split(pair, "property")
        name = name.replace("-", "_")
        if name not in _NAMES:
            raise typer.BadParameter(f"there is no property {name!r}; there are {', '.join(_NAMES)}")
        found[name] = _number(name, value) if name in _NUMBERS else value
    parsed = dict(_header(pair) for pair in headers)
    if parsed:
        found["headers"] = parsed
    try:
        given = BasicProperties(**found)  # type: ignore[arg-type]  # a number where one is due
        encode_properties(given)
        return given
    except LocalProtocolError as error:
        raise typer.BadParameter(str(error)) from None


def _split(pair: str, what: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{pair!r} is no {what}; write name=value")
    return name, value


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise typer.BadParameter(f"property {name} is {value!r}; it must be a whole number")
    return int(value)


def _header(pair: str) -> tuple[str, FieldValue]:
    """Read ``name=text``, or ``name:=JSON`` for anything that is no text."""
    name, value = _split(pair, "header")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], msgspec.json.decode(value, type=_Json)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise typer.BadParameter(f"header {name[:-1]!r} is {value!r}, which is no JSON: {error}") from None


_Json = None | bool | int | float | str | list[object] | dict[str, object]


def plain_properties(properties: bytes) -> dict[str, object]:
    """Return the properties that are set, by name, as JSON can express them."""
    decoded = msgspec.structs.asdict(decode_properties(properties))
    return {name: _plain(value) for name, value in decoded.items() if value is not None}


def _plain(value: object) -> object:
    match value:
        case Timestamp(seconds):
            return seconds
        case Typed(_, inner):
            return _plain(inner)
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case Decimal():
            return str(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {_unicode(str(name)): _plain(item) for name, item in value.items()}
        case str():
            return _unicode(value)
        case _:
            return value


def _unicode(text: str) -> str:
    """Escape bytes that are no UTF-8, which AMQP's short strings may have."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
