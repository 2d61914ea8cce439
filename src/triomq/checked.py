"""The base of configuration Structs, which check their fields also when a program makes them.

msgspec checks types and constraints only when it decodes. ``Checked`` checks the same annotations when a Struct is made
in Python, so what is allowed is written in one place.
"""

import re
import typing
from functools import cache

import msgspec

from triomq.errors import ConfigError
from triomq.shown import names_secret, shown

_SECRET = re.compile("url|users|verifiers")
"""Fields whose values are never shown, beside those that are called as secrets are."""


class Checked(msgspec.Struct, frozen=True):
    """Base of Structs that programs make as configuration; a ``__post_init__`` of their own calls this one first.

    Raises:
        ConfigError: A field is not of its type, or out of its range; the text has what was found and what is allowed.
    """

    def __post_init__(self) -> None:
        """Check each field against its annotation; keep a list as a tuple, since a configuration does not change."""
        for name, kind in _kinds_of(type(self)):
            value = getattr(self, name)
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                raise ConfigError(_text(name, value, kind, str(error))) from None
            if isinstance(value, list):
                msgspec.structs.force_setattr(self, name, tuple(value))


@cache
def _kinds_of(struct: type[Checked]) -> tuple[tuple[str, typing.Any], ...]:
    """Return the fields and their types; those of any type are left out."""
    return tuple((field.name, field.type) for field in msgspec.structs.fields(struct) if field.type is not object)


def _text(name: str, value: object, kind: object, message: str) -> str:
    """Return msgspec's message in our order: where, found, allowed."""
    message, _, inside = message.partition(" - at `$")
    where = f"{name}{inside.rstrip('`')}"
    found = _shown(name, value) if not inside else "something in it"
    choices = [choice for member in _members(kind) for choice in typing.get_args(member) if _is_literal(member)]
    listed = ", ".join(map(repr, choices))
    others = [member for member in _members(kind) if not _is_literal(member) and member is not type(None)]
    if choices and not others:
        return f"{where}: found {found}, allowed are {listed}"
    expected = re.match(r"Expected (.*?)(, got .*)?$", message)
    if expected is None:
        return f"{where}: found {found}: {message}"
    wanted = expected[1].replace("`", "")
    if wanted.startswith("object"):
        wanted = " or ".join(member.__name__ for member in others if isinstance(member, type))
    return f"{where}: found {found}, expected {wanted}{f' or {listed}' if choices else ''}"


def _shown(name: str, value: object) -> str:
    if names_secret(name) or _SECRET.search(name):
        return f"something of type {type(value).__name__} (not shown, since passwords stand here)"
    if isinstance(value, type):
        return f"the class {value.__name__} (write {value.__name__}(…) for one of it)"
    return shown(value)


def _is_literal(kind: object) -> bool:
    return typing.get_origin(kind) is typing.Literal


def _members(kind: object) -> list[object]:
    """Return the types that a union, a list or a table consists of, without constraints."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if _is_literal(kind) or not typing.get_args(kind):
        return [kind]
    return [member for part in typing.get_args(kind) if part is not ... for member in _members(part)]
