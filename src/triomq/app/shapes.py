"""The shapes of settings: what the types of the configuration's Structs allow in data from TOML or the environment."""

import types
import typing
from collections.abc import Mapping, Sequence

import msgspec

from triomq.endpoints import EndpointConfig, EndpointTypes


class StructShape(msgspec.Struct, frozen=True):
    """A table with known keys; if it can be one of several Structs, one key decides which.

    Args:
        kinds: The Structs by the value of that key; by None if there is one Struct alone and no such key.
        tag: That key, such as ``type``.
    """

    kinds: Mapping[str | None, type[msgspec.Struct]]
    tag: str | None

    def fields(self, chosen: str | None) -> dict[str, object]:
        """Return the keys and their types; those of all Structs if none is chosen."""
        kinds = self.kinds.values() if chosen is None else [self.kinds[chosen]]
        found: dict[str, object] = {} if self.tag is None else {self.tag: str}
        for kind in kinds:
            found.update({field.encode_name: field.type for field in msgspec.structs.fields(kind)})
        return found


class ListShape(msgspec.Struct, frozen=True):
    """A list of values of one type."""

    item: object


class MappingShape(msgspec.Struct, frozen=True):
    """A table whose keys are free."""

    item: object


class ValueShape(msgspec.Struct, frozen=True):
    """A value that is neither a list nor a table."""

    kind: object


SettingShape = StructShape | ListShape | MappingShape | ValueShape


def shape_of(kind: object) -> SettingShape:
    """Return the shape of a type."""
    members = [member for member in _members(kind) if member is not type(None)]
    if members == [EndpointConfig]:
        # No union, since installed packages bring further types: the registry knows which Structs there are.
        return StructShape(typing.cast("Mapping[str | None, type[msgspec.Struct]]", EndpointTypes()), "type")
    if all(isinstance(member, type) and issubclass(member, msgspec.Struct) for member in members):
        return _structure([typing.cast("type[msgspec.Struct]", member) for member in members])
    origin, arguments = typing.get_origin(members[0]), typing.get_args(members[0])
    if origin in (list, tuple, Sequence):
        return ListShape(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MappingShape(arguments[1])
    return ValueShape(kind)


def takes_text(kind: object) -> bool:
    """Return whether a type is text, or one of several texts."""
    choices = choices_of(kind)
    return str in _members(kind) or (bool(choices) and all(isinstance(choice, str) for choice in choices))


def list_in(kind: object) -> ListShape | None:
    """Return the shape of lists where a type is one, or takes one in place of something else, as of a text."""
    shapes = [shape_of(member) for member in _members(kind) if member is not type(None)]
    return next((shape for shape in shapes if isinstance(shape, ListShape)), None)


def choices_of(kind: object) -> tuple[object, ...]:
    """Return the values that a type lists one by one; none if it lists none."""
    (first, *others) = [member for member in _members(kind) if member is not type(None)]
    return () if others or typing.get_origin(first) is not typing.Literal else typing.get_args(first)


def _members(kind: object) -> list[object]:
    """Return the members of a union, without their constraints."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [member for part in typing.get_args(kind) for member in _members(part)]
    return [kind]


def _structure(kinds: list[type[msgspec.Struct]]) -> StructShape:
    tag = kinds[0].__struct_config__.tag_field
    if tag is None:
        return StructShape({None: kinds[0]}, None)
    return StructShape({str(kind.__struct_config__.tag): kind for kind in kinds}, tag)
