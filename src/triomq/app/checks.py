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

from triomq.core import Properties

_MOST_COMPARED = 1000
"""Names that a word is compared with, 10 µs each: looking for what may be meant must not hold the loop."""

E = TypeVar("E", bound=Enum)

_LONGEST_SHOWN = 60
"""Characters of a wrong value that an error repeats: enough to recognise it, and a line stays a line."""


def shown(value: object) -> str:
    """Show a value in an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def close_to(word: str, known: Iterable[str]) -> str:
    """Give the known word that may be meant; empty if none is close."""
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
    """Give the member of an enumeration that a text names.

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


def explain_publish(key: object, body: object, properties: object, delay: object) -> None:
    """Find out why something could not be published: one of the arguments is not what it has to be.

    Raises:
        TypeError: That is so; the text has the way out.
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
