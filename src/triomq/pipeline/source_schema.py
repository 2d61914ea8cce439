"""The columns of the source: Kafka's seven, then where a record was published to; the last two by option.

Spark compares the first batch with what it was told when the query was analysed, nullability and all; so Arrow's types
are made of Spark's. Spark does that by a function of its own, whose arguments change from version to version.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from triomq.errors import WrongSchema
from triomq.pipeline.source_options import SparkSourceOptions

LOG_APPEND_TIME: Final = 1
"""Kafka's ``timestampType`` of times that a broker gives."""

_ARROW: Final = {
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}

_COLUMNS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
    StructField("exchange", StringType()),
    StructField("routing_key", StringType()),
)
_HEADERS: Final = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
_PROPERTIES: Final = StructField(
    "properties",
    StructType(
        [
            StructField("content_type", StringType()),
            StructField("content_encoding", StringType()),
            StructField("priority", IntegerType()),
            StructField("correlation_id", StringType()),
            StructField("reply_to", StringType()),
            StructField("message_id", StringType()),
            StructField("timestamp", TimestampType()),
            StructField("type", StringType()),
            StructField("user_id", StringType()),
            StructField("app_id", StringType()),
        ]
    ),
)


def source_schema(options: SparkSourceOptions) -> StructType:
    """Return the columns of the source."""
    more = [_HEADERS] * options.include_headers + [_PROPERTIES] * options.include_properties
    return StructType([*_COLUMNS, *more])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the same columns as Spark expects them in batches."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType), field.nullable) for field in schema])


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct(arrow_schema(kind))
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType), kind.containsNull))
    return _ARROW[type(kind)]


def check_source_schema(schema: StructType, options: SparkSourceOptions) -> None:
    """Refuse columns that a user has given with ``schema(…)`` and that the source does not have.

    Raises:
        WrongSchema: There is one, or one is missing; Spark would find that in its executors alone, and not say which.
    """
    there = source_schema(options)
    if schema != there:
        raise WrongSchema(
            f"schema(…) has the columns {_text(schema)}; the source has {_text(there)}, all of which may be null. "
            "Leave schema(…) out, and choose with select(…)"
        )


def _text(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
