"""A job over the rows of a DataFrame, and the types of its columns."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from triomq.errors import ConfigError, WrongArguments
from triomq.pipeline.job_types import fits, result_type

from .pooled_jobs import Order, anything, huge, price


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors find the jobs where they are: the folder in which the driver was started."""
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.fixture
def table(spark: SparkSession) -> DataFrame:
    rows = "named_struct('id', id, 'amount', double(id), 'tags', array('a')) AS order", "double(id - 1) AS factor", "id"
    return spark.range(0, 4, 1, 2).selectExpr(*rows)


@pytest.mark.spark
def test_rows_have_results_of_the_annotated_type_or_a_text_of_the_error(spark: SparkSession, table: DataFrame) -> None:
    found = price.map_on(spark, table)
    assert found.columns == ["order", "factor", "id", "result", "error"]
    assert found.schema["result"].dataType.simpleString() == "struct<id:bigint,amount:double,tags:array<string>>"
    rows = sorted(found.select("id", "result.*", "error").collect())
    assert rows[0].error == "ValueError: a factor below nothing"
    assert [(row.id, row.amount, row.tags, row.error) for row in rows[1:]] == [
        (place, place * (place - 1), ["EUR"], None) for place in range(1, 4)
    ]


@pytest.mark.spark
def test_result_that_spark_has_no_type_for_is_json_and_one_that_is_too_large_is_an_error(
    spark: SparkSession, table: DataFrame
) -> None:
    one = table.where("id = 2")
    (row,) = anything.map_on(spark, one, names=("json", "why")).select("json", "why").collect()
    assert row == ('[{"id":2,"amount":2.0,"tags":["a"]},1.0]', None)
    (row,) = huge.map_on(spark, one).select("result", "error").collect()
    assert row.result is None
    assert row.error.startswith("WrongResult: 10000000000000000")


@pytest.mark.spark
def test_error_of_a_row_ends_the_query_where_that_is_wanted(spark: SparkSession, table: DataFrame) -> None:
    found = price.map_on(spark, table, errors="raise")
    assert found.columns == ["order", "factor", "id", "result"]
    with pytest.raises(PySparkException, match="price failed: ValueError: a factor below nothing"):
        found.collect()


@pytest.mark.spark
def test_what_does_not_fit_is_said_before_anything_runs(spark: SparkSession, table: DataFrame) -> None:
    with pytest.raises(WrongArguments, match="no column for argument 'factor'; the table has order, id"):
        price.map_on(spark, table.drop("factor"))
    with pytest.raises(WrongArguments, match="column 'factor' is string, and the argument is float; cast the column"):
        price.map_on(spark, table.selectExpr("order", "string(factor) AS factor"))
    with pytest.raises(ConfigError, match="the table has a column 'id' already"):
        price.map_on(spark, table, names=("id", "error"))


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (int, "bigint"),
        (float | None, "double"),
        (list[bytes], "array<binary>"),
        (dict[str, datetime.datetime], "map<string,timestamp>"),
        (tuple[datetime.date, ...], "array<date>"),
        (Decimal, "decimal(38,18)"),
        (Order, "struct<id:bigint,amount:double,tags:array<string>>"),
    ],
)
def test_annotation_has_a_type_of_spark(annotation: Any, name: str) -> None:
    found = result_type(annotation)
    assert found is not None
    assert found.simpleString() == name
    assert fits(annotation, found)


@pytest.mark.parametrize("annotation", [Any, None, object, int | str, dict[int, str], Path, list[Any]])
def test_other_results_are_json(annotation: Any) -> None:
    assert result_type(annotation) is None


def test_columns_of_another_type_do_not_fit() -> None:
    assert not fits(int, StringType())
    assert not fits(Order, LongType())
    assert not fits(list[int], LongType())
    assert fits(int | str, LongType())
    assert fits(float, LongType())
