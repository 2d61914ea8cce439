"""What the URLs of all protocols have in common: who logs in, and the options behind the question mark."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote

from triomq.errors import ConfigError

T = TypeVar("T")


def read_credentials(parts: SplitResult) -> dict[str, str]:
    """Return the user and the password, those of them that the URL has."""
    found = {"user": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in found.items() if value is not None}


def read_options(query: str, readers: Mapping[str, Callable[[str], T]]) -> dict[str, T]:
    """Read what stands behind the question mark.

    Args:
        query: That.
        readers: For each option a function that returns its value, or raises ValueError with what it must be.

    Raises:
        ConfigError: An option is not known, or its value is wrong.
    """
    found: dict[str, T] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in readers:
            raise ConfigError(f"the URL's option {name!r} is not known; there are {', '.join(readers)}")
        try:
            found[name] = readers[name](text)
        except ValueError as error:
            raise ConfigError(f"the URL's option {name} is {text!r}; it must be {error}") from None
    return found


def read_seconds(text: str) -> float:
    """Return a time; raises ValueError as ``read_options`` wants it."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("seconds, more than 0")
    return seconds


def one_of(*words: str) -> Callable[[str], str]:
    """Make a reader of an option that is one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return read
