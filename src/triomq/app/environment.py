"""Environment variables that change settings of a configuration file.

The rule: ``TRIOMQ_`` and the path of the setting in capitals, its parts joined by underscores, with an underscore for
all that is neither letter nor digit. So ``endpoints[0].port`` is ``TRIOMQ_ENDPOINTS_0_PORT``, and the password of the
user ada ``TRIOMQ_USERS_ADA_PASSWORD``. Where a text is expected the value is that text; anywhere else it is read as
TOML reads it, so that a whole list or table may be in one variable.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from triomq.app.shapes import ListShape, MappingShape, StructShape, ValueShape, list_in, shape_of, takes_text
from triomq.app.validation import inside, nearest
from triomq.errors import ConfigError

PREFIX = "TRIOMQ_"


def overlay(
    data: dict[str, object], kind: object, environment: Mapping[str, str], *, leave: Iterable[str] = ()
) -> dict[str, str]:
    """Write the environment's settings into data, and return which variable each setting came from, by path.

    Args:
        data: The file's settings; changed in place.
        kind: The Struct that will be made of them.
        environment: All variables; those without the prefix are ignored.
        leave: Variables with the prefix that are ignored too.

    Raises:
        ConfigError: A variable names no setting.
    """
    sources: dict[str, str] = {}
    # TRIOMQ_ENDPOINTS_1_TYPE decides which keys TRIOMQ_ENDPOINTS_1_… can name, so it comes before all of them.
    for name in sorted(environment, key=lambda name: name.removesuffix("TYPE")):
        if name.startswith(PREFIX) and name not in leave:
            sources[_Variable(name, environment[name]).write(data, kind)] = name
    return sources


class _Variable:
    """One variable; follows its name through the data to the setting that it names."""

    def __init__(self, name: str, value: str) -> None:
        self._name = name
        self._value = value
        self._path = ""

    def write(self, data: dict[str, object], kind: object) -> str:
        """Write the value, and return its path."""
        self._into_structure(data, kind, self._name.removeprefix(PREFIX))
        return self._path

    def _into(self, place: object, kind: object, rest: str) -> None:
        """Follow the rest of the name into a value."""
        shape = shape_of(kind)
        if isinstance(shape, StructShape) and isinstance(place, dict):
            self._into_structure(place, kind, rest)
        elif isinstance(shape, ListShape) and isinstance(place, list):
            self._into_list(place, shape.item, rest)
        elif isinstance(shape, MappingShape) and isinstance(place, dict):
            self._into_table(place, shape.item, rest)
        else:
            raise ConfigError(f"{self._name}: {self._path} has nothing inside that could be called {rest!r}")

    def _into_structure(self, place: dict[str, object], kind: object, rest: str) -> None:
        shape = shape_of(kind)
        assert isinstance(shape, StructShape)
        fields = self._fields(shape, place)
        key = _longest(fields, rest)
        if key is None:
            advice = nearest(rest, map(_capitals, fields), start=self._name.removesuffix(rest))
            raise ConfigError(f"{self._name} is not known; {advice}")
        self._step(place, key, fields[key], rest[len(key) + 1 :])

    def _fields(self, shape: StructShape, place: dict[str, object]) -> dict[str, object]:
        """Return the keys that a table can have, by its type where that is known."""
        chosen = place.get(shape.tag) if shape.tag is not None else None
        try:
            return shape.fields(chosen if isinstance(chosen, str) and chosen in shape.kinds else None)
        except ConfigError as error:  # from a package that brings the type
            raise ConfigError(f"{self._name}: {error}") from None

    def _into_list(self, place: list[object], kind: object, rest: str) -> None:
        number, _, rest = rest.partition("_")
        if not number.isdecimal() or int(number) > len(place):
            raise ConfigError(
                f"{self._name}: {self._path} has {len(place)} entries; a number from 0 to {len(place)} is to follow, "
                f"not {number!r}"
            )
        index = int(number)
        if index == len(place):
            place.append({} if rest else None)
        self._path = inside(self._path, index)
        if rest:
            self._into(place[index], kind, rest)
        else:
            place[index] = self._read(kind)

    def _into_table(self, place: dict[str, object], kind: object, rest: str) -> None:
        """Find the key: the part of the name before the field of the value."""
        shape = shape_of(kind)
        key, inner = rest, ""
        if isinstance(shape, StructShape):
            ends = [field for field in shape.fields(None) if rest.endswith(f"_{_capitals(field)}")]
            if not ends:
                advice = nearest("", map(_capitals, shape.fields(None)), start=f"{self._name}_")
                raise ConfigError(f"{self._name} is not known; {advice}")
            inner = _capitals(max(ends, key=len))
            key = rest.removesuffix(f"_{inner}")
        existing = [name for name in place if _capitals(name) == key]
        self._step(place, existing[0] if existing else key.lower(), kind, inner)

    def _step(self, place: dict[str, object], key: str, kind: object, rest: str) -> None:
        self._path = inside(self._path, key)
        if not rest:
            place[key] = self._read(kind)
            return
        if key not in place:
            place[key] = [] if isinstance(shape_of(kind), ListShape) else {}
        self._into(place[key], kind, rest)

    def _read(self, kind: object) -> object:
        """Read the value: a text where a text is expected, else TOML."""
        is_list = self._value.startswith("[") and list_in(kind) is not None
        if isinstance(shape_of(kind), ValueShape) and takes_text(kind) and not is_list:
            return self._value
        try:
            table: dict[str, object] = msgspec.toml.decode(f"value = {self._value}")
        except msgspec.DecodeError:
            return self._value
        return table["value"] if len(table) == 1 else self._value


def _longest(fields: Iterable[str], rest: str) -> str | None:
    """Return the longest field that the rest of a name begins with."""
    fits = [field for field in fields if rest == _capitals(field) or rest.startswith(f"{_capitals(field)}_")]
    return max(fits, key=len, default=None)


def _capitals(word: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", word.upper())
