"""Structs from the data of a file, with errors that a person can act on: where, what was found, what is allowed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from triomq.app.shapes import MappingShape, StructShape, choices_of, list_in, shape_of
from triomq.endpoints import GROUP, EndpointTypes, decode_endpoint
from triomq.errors import ConfigError
from triomq.shown import names_secret, shown

T = TypeVar("T")

_SECRET = re.compile(r"(^|\.)users(\.|$)|(^|\.)peers\b")
"""Paths whose values are never shown, beside those that are called as secrets: passwords, perhaps at a wrong key."""


class SettingSources:
    """Where each setting came from, for errors.

    Args:
        file: The file's name; empty if there is none.
        others: Other sources, such as an environment variable, by the path of their setting.
    """

    def __init__(self, file: str, others: Mapping[str, str]) -> None:
        self._file = file
        self._others = others

    def name(self, path: str) -> str:
        """Return where the value at a path came from."""
        for start in sorted(self._others, key=len, reverse=True):
            if path == start or path.startswith((f"{start}.", f"{start}[")):
                return self._others[start]
        return self._file or "the configuration"


def build(data: object, kind: type[T], sources: SettingSources) -> T:
    """Convert data to a Struct.

    Raises:
        ConfigError: The data do not fit; each line of the text has one mistake.
    """
    troubles = [f"{sources.name(path)}: {text}" for path, text in _troubles(data, kind, "")]
    if troubles:
        raise ConfigError("\n".join(troubles))
    return msgspec.convert(data, kind, dec_hook=decode_endpoint)


def inside(path: str, key: str | int) -> str:
    """Extend a path: ``endpoints[0].port``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    word = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else msgspec.json.encode(key).decode()
    return f"{path}.{word}" if path else word


def nearest(word: str, known: Iterable[str], *, start: str = "") -> str:
    """Return advice: which known word may be meant, or which there are; all of them begin with ``start``."""
    words = list(known)
    close = get_close_matches(word, words, n=1)
    if close:
        return f"did you mean {start + close[0]!r}?"
    return f"known are {', '.join(repr(start + other) for other in words)}"


def _troubles(data: object, kind: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each mistake."""
    found = list(_troubles_inside(data, kind, path))
    yield from found
    if not found:
        try:
            msgspec.convert(data, kind, dec_hook=decode_endpoint)
        except msgspec.ValidationError as error:
            yield path, _text(path, data, kind, str(error))
        except ConfigError as error:  # from a Struct that looks at several of its fields
            yield path, f"{path}: {error}"


def _troubles_inside(data: object, kind: object, path: str) -> Iterator[tuple[str, str]]:
    shape = shape_of(kind)
    if isinstance(shape, StructShape) and isinstance(data, dict):
        yield from _structure_troubles(data, shape, path)
    elif isinstance(data, list) and (items := list_in(kind)) is not None:
        for number, item in enumerate(data):
            yield from _troubles(item, items.item, inside(path, number))
    elif isinstance(shape, MappingShape) and isinstance(data, dict):
        for key, item in data.items():
            yield from _troubles(item, shape.item, inside(path, key))


def _structure_troubles(data: dict[str, object], shape: StructShape, path: str) -> Iterator[tuple[str, str]]:
    chosen: str | None = None
    if shape.tag is not None:
        tag = data.get(shape.tag)
        if shape.tag not in data:
            yield path, f"{path} has no {shape.tag!r}, which says what it is; allowed are {_types(shape)}"
            return
        if not isinstance(tag, str) or tag not in shape.kinds:
            where = inside(path, shape.tag)
            yield where, f"{where}: found {_shown(where, tag)}, allowed are {_types(shape)}"
            return
        chosen = tag
    try:
        fields = shape.fields(chosen)
    except ConfigError as error:  # from a package that brings the type
        yield inside(path, str(shape.tag)), f"{inside(path, str(shape.tag))}: {error}"
        return
    for key, item in data.items():
        where = inside(path, key)
        if key not in fields:
            yield where, f"{where} is not known; {nearest(key, fields)}"
        elif key != shape.tag:
            yield from _troubles(item, fields[key], where)


def _types(shape: StructShape) -> str:
    """List the types of a table."""
    types = ", ".join(map(repr, shape.kinds))
    if isinstance(shape.kinds, EndpointTypes):
        return f"{types}; an installed package brings others by an entry point of the group {GROUP!r}"
    return types


def _text(path: str, data: object, kind: object, message: str) -> str:
    """Return msgspec's message about a value in our order: where, found, allowed."""
    message = message.partition(" - at `")[0]
    expected = re.match(r"Expected (.*?)(, got .*)?$", message)
    where = f"{path}: " if path else ""
    if allowed := choices_of(kind):
        return f"{where}found {_shown(path, data)}, allowed are {', '.join(map(repr, allowed))}"
    if expected is not None:
        return f"{where}found {_shown(path, data)}, expected {expected[1].replace('`', '')}"
    return f"{where}{message}"


def _shown(path: str, data: object) -> str:
    if names_secret(path) or _SECRET.search(path):
        return "something (not shown, since passwords stand here)"
    return shown(data)
