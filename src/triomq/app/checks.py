"""Checks of what programs pass in: an error says what was found, what is allowed, and what to do.

A wrong type is a ``TypeError``, a wrong value a ``ValueError``. What is published is looked at only once something
about it has failed (``explain_publish``), so that publishing right costs nothing more.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from itertools import islice
from math import inf
from typing import TypeVar

from triomq.core import HASHABLE, Properties, QueueOptions
from triomq.shown import shown

_MOST_COMPARED = 1000
"""Names that a word is compared with, 10 µs each: guessing what may be meant must not hold the loop."""

E = TypeVar("E", bound=Enum)

_MOST_PRIORITY = 255
"""The highest priority of a queue: a priority is one octet (AMQP 0-9-1, basic.properties)."""

_LEAST_EXPIRES = 0.001
"""Seconds; a queue that is deleted at once cannot be used."""


def close_to(word: str, known: Iterable[str]) -> str:
    """Return the known word that may be meant; empty if none is close."""
    return next(iter(get_close_matches(word, islice(known, _MOST_COMPARED), n=1)), "")


def check_text(what: str, value: object) -> None:
    """Refuse what is no text.

    Raises:
        TypeError: It is not a str.
    """
    if isinstance(value, str):
        return
    if isinstance(value, bytes):
        raise TypeError(f"{what} is {shown(value)}; it is a str: decode it")
    raise TypeError(f"{what} is {shown(value)}, of type {type(value).__name__}; it is a str")


def check_flag(what: str, value: object) -> None:
    """Refuse what is neither True nor False, such as the text "no", which would count as true.

    Raises:
        TypeError: It is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}; it is True or False")


def check_whole(what: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number in a range.

    Raises:
        TypeError: It is not an int.
        ValueError: It is out of the range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}; it is a whole number {_range(least, most)}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{what} is {value!r}; it is a whole number {_range(least, most)}")


def check_number(what: str, value: object, least: float, most: float = inf) -> None:
    """Refuse what is no number in a range.

    Raises:
        TypeError: It is neither an int nor a float.
        ValueError: It is out of the range.
    """
    bounds = _range(least, None if most == inf else most)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}; it is a number {bounds}")
    if not least <= value <= most:
        raise ValueError(f"{what} is {value!r}; it is a number {bounds}")


def _range(least: float, most: float | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"


def check_choice(what: str, value: object, choices: type[E]) -> E:
    """Return the member of an enumeration that a text names.

    Raises:
        ValueError: There is none.
    """
    try:
        return choices(value)
    except ValueError:
        known = [str(choice.value) for choice in choices]
        close = close_to(str(value).replace("_", "-"), known)
        allowed = ", ".join(map(repr, known))
        raise ValueError(
            f"{what} is {shown(value)}, allowed are {allowed}{f'; did you mean {close!r}?' if close else ''}"
        ) from None


def check_flags(**flags: bool) -> None:
    for flag, value in flags.items():
        check_flag(flag, value)


def check_hashed(header: str | None, hashed: str | None) -> None:
    """Refuse a header or a property that no consistent-hash sink can choose by.

    Raises:
        ValueError: It is no such property, or there is a header as well.
    """
    if hashed is not None and hashed not in HASHABLE:
        raise ValueError(f"hash_property is {hashed!r}; it is one of {', '.join(map(repr, HASHABLE))}")
    if header is not None and hashed is not None:
        raise ValueError(f"choose by the header {header!r} or by the property {hashed!r}, not by both")


def check_ranges(options: QueueOptions) -> None:
    """Refuse numbers that no queue can use.

    Raises:
        TypeError: An option is no number.
        ValueError: A number is out of its range, or a key is given to no sink.
    """
    for name in ("max_length", "max_bytes", "delivery_limit"):
        if (value := getattr(options, name)) is not None:
            check_whole(name, value, 0)
    if options.message_ttl is not None:
        check_number("message_ttl", options.message_ttl, 0)
    if options.expires is not None:
        check_number("expires", options.expires, _LEAST_EXPIRES)
    check_whole("max_priority", options.max_priority, 0, _MOST_PRIORITY)
    if options.dead_letter_key is None:
        return
    check_text("dead_letter_key", options.dead_letter_key)
    if options.dead_letter_sink is None:
        raise ValueError(
            f"dead_letter_key is {options.dead_letter_key!r}, but there is no dead_letter_sink to use it at"
        )


def explain_publish(key: object, body: object, properties: object, delay: object) -> None:
    """Check the arguments of a publish that has failed, and raise a clear error if one of them is the cause.

    Raises:
        TypeError: An argument is of a wrong type; the text says which type it has to be.
        ValueError: The delay is out of its range.
    """
    check_text("the key", key)
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"the body is {shown(body)}, of type {type(body).__name__}; a body is bytes: {_to_bytes(body)}")
    if isinstance(properties, Mapping):
        raise TypeError(
            f"the properties are the dict {shown(properties)}; write Properties(content_type=…), and "
            "Properties(headers={…}) for headers of your own"
        )
    if properties is not None and not isinstance(properties, Properties):
        raise TypeError(
            f"the properties are {shown(properties)}, a {type(properties).__name__}; they are a Properties or None"
        )
    check_number("delay", delay, 0)


def _to_bytes(body: object) -> str:
    if isinstance(body, str):
        return "encode it, body.encode()"
    if body is None:
        return 'an empty one is b""'
    return "write it as such, for instance with json.dumps(…).encode()"
