"""A job over the rows of a DataFrame: ``job.map_on`` gives it the columns that are called as its arguments.

    df(path: string, width: int, …) ──▶ resize(path: str, width: int) -> str ──▶ df(…, result: string, error: string)

- What does not fit is said when the query is written: a column that is missing, or of another type.
- It is a transformation, as any of Spark's: it runs when the result is used, once for each time that it is.
- Rows run as jobs of a batch do (``job_batches``): in processes that can be killed, so a row that crashes or hangs is
  one row with an error.
"""

import datetime
import inspect
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from triomq.errors import ConfigError, JobFailed, WrongArguments
from triomq.jobs import JobDefinition, JobFunction
from triomq.jobs.worker import LocalCall, LocalOutcome, find_target
from triomq.pipeline.job_batches import result_of, table_function
from triomq.pipeline.job_host import job_host
from triomq.pipeline.job_types import fits, result_type

_NATIVE: Final = (bytes, datetime.datetime, datetime.date, Decimal)
"""What is not turned into text: Arrow takes these as they are."""

_LOOSE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Plan(NamedTuple):
    """What an executor has to know.

    Args:
        target: The registry.
        folder: Where the driver was started.
        job: The job's name.
        arguments: Those for which there is a column.
        result: The type of the new column.
        is_json: Whether it holds the result's JSON.
        names: Of the new columns, the second one empty if errors are raised.
        timeout: Seconds for a row; 0 for the decorator's.
    """

    target: str
    folder: str
    job: str
    arguments: tuple[str, ...]
    result: DataType
    is_json: bool
    names: tuple[str, str]
    timeout: float


def map_on(
    job: JobFunction[..., Any, Any],
    spark: SparkSession,
    table: DataFrame,
    *,
    errors: Literal["column", "raise"],
    names: tuple[str, str],
    timeout: float,
) -> DataFrame:
    """Do what ``JobFunction.map_on`` says."""
    definition = job.definition
    has_errors = errors == "column"
    added = names if has_errors else names[:1]
    if taken := set(added).intersection(table.columns):
        raise ConfigError(f"the table has a column {min(taken)!r} already; choose others by names=(…, …)")
    found = result_type(definition.annotations.get("return", Any))
    plan = _Plan(
        target=find_target(job.registry),
        folder=os.getcwd(),
        job=definition.name,
        arguments=_arguments(definition, table.schema),
        result=found or StringType(),
        is_json=found is None,
        names=(names[0], names[1] if has_errors else ""),
        timeout=timeout,
    )
    fields = [StructField(names[0], plan.result)] + [StructField(names[1], StringType())] * has_errors
    run = table_function(spark, _row_runner(plan), StructType([*table.schema.fields, *fields]))
    return run(table.asTable())


def _arguments(definition: JobDefinition, schema: StructType) -> tuple[str, ...]:
    """Return which arguments have a column, and raise what does not fit."""
    columns = {field.name: field.dataType for field in schema.fields}
    given: list[str] = []
    for name, parameter in definition.signature.parameters.items():
        if parameter.kind in _LOOSE:
            continue
        kind = definition.annotations.get(name, Any)
        if name not in columns:
            if parameter.default is parameter.empty:
                there = ", ".join(columns)
                raise WrongArguments(f"{definition.name}: no column for argument {name!r}; the table has {there}")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise WrongArguments(f"{definition.name}: argument {name!r} has no name for callers; take out the '/'")
        elif fits(kind, columns[name]):
            given.append(name)
        else:
            raise WrongArguments(
                f"{definition.name}: column {name!r} is {columns[name].simpleString()}, and the argument is "
                f"{getattr(kind, '__name__', kind)}; cast the column, or rename it if it is another thing"
            )
    return tuple(given)


def _row_runner(plan: _Plan) -> type:
    """Make the class that Spark sends to executors; it is sent whole, since it is in no module by its name."""

    class RowRunner:
        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            yield run_rows(rows, plan)

    return RowRunner


def run_rows(rows: pa.RecordBatch, plan: _Plan) -> pa.Table:
    """Run a job for each of some rows on an executor.

    Raises:
        JobFailed: One has no result, and there is no column for its error.
    """
    host = job_host(plan.target, plan.folder)
    definition = host.jobs.find(plan.job)
    if definition is None:
        raise ConfigError(f"the registry {plan.target} has no job {plan.job!r} on this executor; is its code older?")
    texts: list[str | None] = [None] * rows.num_rows
    calls: list[LocalCall] = []
    places: list[int] = []
    columns = [rows.column(rows.schema.get_field_index(name)).to_pylist() for name in plan.arguments]
    for place, values in enumerate(zip(*columns, strict=True) if columns else [()] * rows.num_rows):
        try:
            payload = definition.encode((), dict(zip(plan.arguments, values, strict=True)))
        except WrongArguments as error:
            texts[place] = f"WrongArguments: {error}"
        else:
            places.append(place)
            calls.append(LocalCall(str(place), payload, definition.options.timeout or plan.timeout))
    results: list[object] = [None] * rows.num_rows
    for place, outcome in zip(places, host.run(calls), strict=True):
        texts[place], results[place] = _result(definition, outcome, is_json=plan.is_json)
    column = _column(results, texts, to_arrow_type(plan.result, timezone="UTC"))
    if plan.names[1]:
        added = {plan.names[0]: column, plan.names[1]: pa.array(texts, pa.string())}
    else:
        _raise_first(plan.job, texts)
        added = {plan.names[0]: column}
    return pa.table({**{name: rows.column(place) for place, name in enumerate(rows.schema.names)}, **added})


def _result(definition: JobDefinition, outcome: LocalOutcome, *, is_json: bool) -> tuple[str | None, object]:
    """Return the text of an error, and what becomes a value of the column."""
    if outcome.ending is not None:
        return f"{outcome.ending.type}: {outcome.ending.text}", None
    if is_json:
        return None, result_of(outcome)
    try:
        return None, msgspec.to_builtins(definition.decode_result(outcome.message), builtin_types=_NATIVE)
    except Exception as error:  # WrongResult, or what a hook of the user's raises
        return f"{type(error).__name__}: {error}", None


def _column(values: list[object], texts: list[str | None], kind: pa.DataType) -> pa.Array:
    """Return the results as a column; those that it cannot hold, such as a long int, are errors of their rows."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    for place, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            values[place] = None
            texts[place] = f"WrongResult: {value!r:.80} is no {kind}: {error}"
    return pa.array(values, kind)


def _raise_first(job: str, texts: list[str | None]) -> None:
    for text in texts:
        if text is not None:
            kind, _, reason = text.partition(": ")
            raise JobFailed("", job, kind, reason)
