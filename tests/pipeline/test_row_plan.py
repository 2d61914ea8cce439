"""How rows become records, found from columns and options, and what is wrong with them in plain words."""

from collections.abc import Mapping

import pytest
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from triomq.errors import ConfigError
from triomq.pipeline.options import read_options
from triomq.pipeline.row_plan import RowPlan, plan_rows
from triomq.pipeline.sink_options import SparkSinkOptions

HEADERS = StructType().add("key", "string").add("value", "binary")

SOURCE = (
    "key binary, value binary, topic string, partition integer, offset long, timestamp timestamp, "
    "timestampType integer, exchange string, routing_key string"
)


def plan(columns: str, nested: Mapping[str, DataType] | None = None, **given: str) -> RowPlan:
    """Plan rows with columns of plain types, as Spark names them in JSON, and with others."""
    schema = StructType()
    for column in columns.split(", "):
        schema.add(*column.split(" "))
    for name, kind in (nested or {}).items():
        schema.add(name, kind)
    return plan_rows(schema, read_options(SparkSinkOptions, {"address": "localhost", **given}))


def test_option_says_where_all_rows_go_whatever_their_columns_say() -> None:
    found = plan(SOURCE, topic="copies")
    assert (found.target, found.is_sink, found.key_column) == ("copies", False, "key")
    found = plan(SOURCE, exchange="letters")
    assert (found.target, found.is_sink, found.key_column) == ("letters", True, "routing_key")
    found = plan(SOURCE, exchange="", routingKey="audit")
    assert (found.target, found.is_sink, found.key, found.key_column) == ("", True, "audit", "")


def test_columns_say_where_rows_go_without_an_option() -> None:
    found = plan("value string, topic string, routing_key string")
    assert (found.target, found.target_column, found.is_sink, found.key_column) == (None, "topic", False, "")
    found = plan("value string, exchange string, key string")
    assert (found.target, found.target_column, found.is_sink, found.key_column) == (None, "exchange", True, "key")


def test_columns_that_mean_nothing_here_are_passed_over() -> None:
    assert plan("value binary, topic string, partition integer, colour string").target_column == "topic"


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("body binary, topic string", {}, "there is no column value, .*; there are body, topic"),
        ("value integer", {"topic": "a"}, "column value is of type int; it must be string or binary"),
        ("value string, key integer", {"topic": "a"}, "column key is of type int; it must be string or binary"),
        ("value string, topic binary", {}, "column topic is of type binary; it must be string"),
        ("value string", {}, "nothing says where the rows go: set the option topic"),
        (SOURCE, {}, "both of the columns topic and exchange"),
    ],
)
def test_columns_that_do_not_fit_are_an_error(columns: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plan(columns, **options)


@pytest.mark.parametrize(
    ("nested", "text"),
    [
        ({"headers": MapType(StringType(), StringType())}, r"must be array<struct<key: string, value: binary>>"),
        ({"headers": ArrayType(StructType().add("value", "binary").add("key", "string"))}, "column headers is of type"),
        ({"properties": StringType()}, "must be a struct with any of the fields content_type, "),
        ({"properties": StructType().add("colour", "string")}, "has a field 'colour'; there are content_type, "),
        (
            {"properties": StructType().add("priority", "string")},
            "field priority of column properties is of type string; it must be tinyint or smallint or int or bigint",
        ),
    ],
)
def test_headers_and_properties_that_do_not_fit_are_an_error(nested: dict[str, DataType], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plan("value string", nested, topic="a")


def test_headers_and_properties_are_found() -> None:
    nested = {"headers": ArrayType(HEADERS), "properties": StructType().add("priority", "byte")}
    found = plan("value string", nested, topic="a")
    assert found.has_headers
    assert found.has_properties
