"""The shapes of settings."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import pytest

from triomq.app.shapes import ListShape, MappingShape, StructShape, ValueShape, choices_of, shape_of, takes_text


class Plain(msgspec.Struct):
    name: str = ""
    loud: bool = False


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    tricks: list[str] = []


def test_struct_is_a_table_with_known_keys() -> None:
    shape = shape_of(Plain)
    assert shape == StructShape({None: Plain}, None)
    assert isinstance(shape, StructShape)
    assert shape.fields(None) == {"name": str, "loud": bool}


def test_union_of_structs_is_decided_by_their_tag() -> None:
    shape = shape_of(Cat | Dog)
    assert shape == StructShape({"cat": Cat, "dog": Dog}, "type")
    assert isinstance(shape, StructShape)
    assert shape.fields("cat") == {"type": str, "lives": int}
    assert shape.fields(None) == {"type": str, "lives": int, "tricks": list[str]}


@pytest.mark.parametrize("kind", [list[Plain], tuple[Plain, ...], Annotated[list[Plain], msgspec.Meta(min_length=1)]])
def test_lists_and_tuples_are_lists(kind: object) -> None:
    assert shape_of(kind) == ListShape(Plain)


@pytest.mark.parametrize("kind", [dict[str, int], Mapping[str, int], dict[str, int] | None])
def test_mappings_are_tables_with_free_keys(kind: object) -> None:
    assert shape_of(kind) == MappingShape(int)


@pytest.mark.parametrize("kind", [int, str, float | None, Literal["a", "b"], Annotated[int, msgspec.Meta(ge=0)]])
def test_types_that_are_neither_list_nor_table_are_values(kind: object) -> None:
    assert shape_of(kind) == ValueShape(kind)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (str, True),
        (str | None, True),
        (Annotated[str, msgspec.Meta(min_length=1)], True),
        (Literal["a", "b"], True),
        (int, False),
        (Literal["a", 1], False),
        (list[str], False),
    ],
)
def test_types_that_take_text_are_known(kind: object, text: bool) -> None:
    assert takes_text(kind) is text


def test_listed_values_are_returned_one_by_one() -> None:
    assert choices_of(Literal["a", "b"]) == ("a", "b")
    assert choices_of(str) == ()
