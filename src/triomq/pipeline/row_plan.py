"""How rows become records: found once for a query from its columns and options, before the first row is there.

The columns are those of Kafka's sink, and ours behind them. Others are passed over, as Kafka's sink does: so what the
source gives can be written as it is, whose columns ``offset``, ``timestamp`` and ``partition`` mean nothing here. Which
partition a record goes to follows from its key.

    ============= =============================================== =====================================================
    column        type                                            what it is
    ============= =============================================== =====================================================
    value         string or binary; required, never null          the body
    key           string or binary                                the record's key; null is the name of its target
    topic         string, never null                              the stream or the queue that it goes to
    exchange      string, never null                              in place of topic: the exchange it is published to
    routing_key   string                                          its routing key there; without it that is ``key``
    headers       array<struct<key string, value binary>>         its headers
    properties    struct of any of the fields in ``PROPERTIES``   its properties
    ============= =============================================== =====================================================
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from triomq.errors import ConfigError
from triomq.pipeline.sink_options import SparkSinkOptions

_TEXT: Final = (StringType,)
_BYTES: Final = (StringType, BinaryType)
_INTEGER: Final = (ByteType, ShortType, IntegerType, LongType)

PROPERTIES: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "priority": _INTEGER,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "expiration": (*_INTEGER, FloatType, DoubleType),
    "message_id": _TEXT,
    "timestamp": (TimestampType,),
    "type": _TEXT,
    "user_id": _TEXT,
    "app_id": _TEXT,
}
"""Fields of the column ``properties``, each with the types that it may have; ``expiration`` is in seconds."""

_COLUMNS: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": _TEXT,
    "exchange": _TEXT,
    "routing_key": _TEXT,
}

_HEADERS: Final = "array<struct<key: string, value: binary>>"


class RowTarget(NamedTuple):
    """Where records go: a stream or a queue by its name, or, if it ``is_sink``, a sink."""

    name: str
    is_sink: bool = False

    def __str__(self) -> str:
        return f"{'exchange' if self.is_sink else 'stream or queue'} {self.name!r}"


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How rows become records; goes to every task.

    Args:
        target: Where all rows go; None if each row says it.
        target_column: The column that says it.
        is_sink: Whether targets are sinks (AMQP's exchanges), not streams and queues.
        key: The key of all rows; None if each has its own, or the name of its target.
        key_column: The column with the key; empty if there is none.
        has_headers: Whether there is a column ``headers``.
        has_properties: Whether there is a column ``properties``.
    """

    target: str | None
    target_column: str
    is_sink: bool
    key: str | None
    key_column: str
    has_headers: bool
    has_properties: bool


def plan_rows(schema: StructType, options: SparkSinkOptions) -> RowPlan:
    """Return how rows with these columns become records.

    Raises:
        ConfigError: A column is missing, has a type that does not fit, or says what an option or another column says.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise ConfigError(
            f"there is no column value, which is the body of a message; there are {', '.join(columns) or 'none'}: make "
            "it with select, for example to_json(struct(*)) AS value"
        )
    for name, types in _COLUMNS.items():
        if name in columns:
            _check(f"column {name}", columns[name], types)
    _check_headers(columns.get("headers"))
    _check_properties(columns.get("properties"))
    is_sink, target, column = _target(columns, options)
    keys = [name for name in (("routing_key", "key") if is_sink else ("key",)) if name in columns]
    return RowPlan(
        target=target,
        target_column=column,
        is_sink=is_sink,
        key=options.routing_key,
        key_column=keys[0] if keys and options.routing_key is None else "",
        has_headers="headers" in columns,
        has_properties="properties" in columns,
    )


def _target(columns: Mapping[str, DataType], options: SparkSinkOptions) -> tuple[bool, str | None, str]:
    """Return whether rows go to sinks, to which target all of them go, and which column says it otherwise."""
    if options.exchange is not None:
        return True, options.exchange, ""
    if options.topic is not None:
        return False, options.topic, ""
    named = [name for name in ("topic", "exchange") if name in columns]
    if len(named) == 2:
        raise ConfigError(
            "the rows have both of the columns topic and exchange; say by the option topic or the option exchange "
            "where they go, or drop one of the columns"
        )
    if not named:
        raise ConfigError(
            "nothing says where the rows go: set the option topic to the name of a stream or a queue, or the option "
            "exchange, or add one of them as a column"
        )
    return named == ["exchange"], None, named[0]


def _check(what: str, found: DataType, types: tuple[type[DataType], ...]) -> None:
    if not isinstance(found, types):
        allowed = " or ".join(dict.fromkeys(kind().simpleString() for kind in types))
        raise ConfigError(f"{what} is of type {found.simpleString()}; it must be {allowed}")


def _check_headers(found: DataType | None) -> None:
    if found is None:
        return
    item = found.elementType if isinstance(found, ArrayType) else None
    fields = {field.name: field.dataType for field in item.fields} if isinstance(item, StructType) else {}
    is_right = list(fields) == ["key", "value"] and isinstance(fields["key"], StringType)
    if not is_right or not isinstance(fields["value"], _BYTES):
        raise ConfigError(f"column headers is of type {found.simpleString()}; it must be {_HEADERS}")


def _check_properties(found: DataType | None) -> None:
    if found is None:
        return
    if not isinstance(found, StructType):
        raise ConfigError(
            f"column properties is of type {found.simpleString()}; it must be a struct with any of the fields "
            f"{', '.join(PROPERTIES)}"
        )
    for field in found.fields:
        if field.name not in PROPERTIES:
            raise ConfigError(
                f"column properties has a field {field.name!r}; there are {', '.join(PROPERTIES)}, and what is the "
                "application's own goes into the column headers"
            )
        _check(f"field {field.name} of column properties", field.dataType, PROPERTIES[field.name])
