"""Annotations of jobs as types of Spark's columns: what a column must be for an argument, and what a result becomes.

    int → bigint · float → double · bool · str → string · bytes → binary · datetime → timestamp · date · Decimal
    list[T] → array<T> · dict[str, T] → map<string, T> · a dataclass, a Struct, a TypedDict → struct<…> · T | None → T

A result of any other type, or of none, is its JSON in a column of strings. An argument of any other type takes any
column, and what does not fit fails in its row.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec.inspect as kinds
from pyspark.sql import types

_Fields: TypeAlias = tuple[kinds.Field, ...]

_SIMPLE: Final[Mapping[type[kinds.Type], types.DataType]] = {
    kinds.BoolType: types.BooleanType(),
    kinds.IntType: types.LongType(),
    kinds.FloatType: types.DoubleType(),
    kinds.StrType: types.StringType(),
    kinds.BytesType: types.BinaryType(),
    kinds.DateTimeType: types.TimestampType(),
    kinds.DateType: types.DateType(),
    kinds.DecimalType: types.DecimalType(38, 18),
}
_LISTS: Final = (kinds.ListType, kinds.VarTupleType, kinds.SetType, kinds.FrozenSetType)

_ACCEPTED: Final[Mapping[type[kinds.Type], tuple[type[types.DataType], ...]]] = {
    kinds.BoolType: (types.BooleanType,),
    kinds.IntType: (types.IntegralType,),
    kinds.FloatType: (types.IntegralType, types.FractionalType),
    kinds.StrType: (types.StringType,),
    kinds.BytesType: (types.BinaryType,),
    kinds.DateTimeType: (types.TimestampType, types.TimestampNTZType),
    kinds.DateType: (types.DateType,),
    kinds.DecimalType: (types.DecimalType, types.IntegralType),
}
"""The columns that an argument takes."""


def result_type(annotation: Any) -> types.DataType | None:
    """Return the type of the column for a result; None for one that is its JSON."""
    try:
        return _column(kinds.type_info(annotation))
    except TypeError:  # a class of pydantic's, or a path
        return None


def _column(kind: kinds.Type) -> types.DataType | None:
    kind = _without_none(kind)
    if (simple := _SIMPLE.get(type(kind))) is not None:
        return simple
    if isinstance(kind, _LISTS):
        item = _column(kind.item_type)
        return None if item is None else types.ArrayType(item)
    if isinstance(kind, kinds.DictType) and isinstance(kind.key_type, kinds.StrType):
        value = _column(kind.value_type)
        return None if value is None else types.MapType(types.StringType(), value)
    if own := _fields_of(kind):
        columns = [(field.encode_name, _column(field.type)) for field in own]
        fields = [types.StructField(name, column) for name, column in columns if column is not None]
        return types.StructType(fields) if len(fields) == len(columns) else None
    return None


def fits(annotation: Any, column: types.DataType) -> bool:
    """Return whether values of a column may be what an annotation says; a null is looked at in its row."""
    try:
        return _fits(kinds.type_info(annotation), column)
    except TypeError:
        return True


def _fits(kind: kinds.Type, column: types.DataType) -> bool:
    kind = _without_none(kind)
    if (accepted := _ACCEPTED.get(type(kind))) is not None:
        return isinstance(column, (*accepted, types.NullType))
    if isinstance(kind, _LISTS):
        return isinstance(column, types.ArrayType) and _fits(kind.item_type, column.elementType)
    if isinstance(kind, kinds.DictType):
        if isinstance(column, types.StructType):
            return all(_fits(kind.value_type, field.dataType) for field in column.fields)
        return isinstance(column, types.MapType) and _fits(kind.value_type, column.valueType)
    if own := _fields_of(kind):
        return isinstance(column, types.StructType) and _fields_fit(own, column)
    return True


def _fields_fit(fields: _Fields, column: types.StructType) -> bool:
    there = {field.name: field.dataType for field in column.fields}
    return all(
        _fits(field.type, there[field.encode_name]) if field.encode_name in there else not field.required
        for field in fields
    )


def _fields_of(kind: kinds.Type) -> _Fields:
    """Return the fields of what is an object in JSON, if their names are known."""
    if isinstance(kind, kinds.StructType):
        return () if kind.array_like else kind.fields
    return kind.fields if isinstance(kind, kinds.DataclassType | kinds.TypedDictType) else ()


def _without_none(kind: kinds.Type) -> kinds.Type:
    if isinstance(kind, kinds.Metadata):
        return _without_none(kind.type)
    if isinstance(kind, kinds.UnionType):
        left = [each for each in kind.types if not isinstance(each, kinds.NoneType)]
        if len(left) == 1:
            return _without_none(left[0])
    return kind
