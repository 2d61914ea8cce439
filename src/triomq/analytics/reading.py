"""Rows of a trace log as a DataFrame: all of a time, or as they come.

Beside its columns a row has ``process``: when the process that wrote it had started, which stands in the file's name.
``(process, seq)`` is the order in which things happened on a node. ``ts`` is not: clocks are set back.
"""

from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, LongType, ShortType, StringType, StructField, StructType, TimestampType

from triomq.analytics.files import PHYSICAL_TYPES, TraceFiles, check_directory, find_files

_TYPES: Final = {"INT64": LongType(), "INT32": IntegerType(), "BYTE_ARRAY": StringType()}
_OTHER_TYPES: Final = {"ts": TimestampType(), "attempt": ShortType()}

SCHEMA: Final = StructType(
    [StructField(name, _OTHER_TYPES.get(name, _TYPES[stored])) for name, stored in PHYSICAL_TYPES.items()]
)
"""What files have; columns that an older file lacks are empty."""

TRACE: Final = StructType([*SCHEMA.fields, StructField("process", LongType())])
"""What ``read_trace`` and ``stream_trace`` return."""


def read_trace(
    spark: SparkSession,
    directory: Path | str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    strict: bool = False,
) -> DataFrame:
    """Return the rows of a trace log, or those of a time; none if there are none.

    Args:
        spark: The session; its executors find the folder under the same path.
        directory: The trace log.
        since: The first moment, with a time zone; None for the log's beginning.
        until: The moment after the last one, with a time zone; None for the log's end.
        strict: A file that cannot be read is an error; else it is passed over. ``find_files`` says which these are.

    Raises:
        TraceLogError: There is no such folder; or a file cannot be read, and that is an error.
    """
    return read_files(spark, find_files(Path(directory), since, until, strict=strict), since, until)


def read_files(
    spark: SparkSession, found: TraceFiles, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """Return the rows of a time out of files that were found."""
    if not found.files:
        return spark.createDataFrame([], TRACE)
    # Each file by its name: Spark would look for more columns in the names of the folders.
    paths = [_without_patterns(path) for path in found.files]
    rows = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true").parquet(*paths)
    return _within(_with_process(rows), since, until)


def stream_trace(spark: SparkSession, directory: Path | str, *, files_at_once: int = 1000) -> DataFrame:
    """Return the rows of a trace log as they come, first those that are there: a streaming DataFrame.

    A file that cannot be read is passed over, since it would end every query at each start, and so is one that was
    removed since it was found: somebody removes those of old days. A report in the same folder is no part of it.

    Args:
        spark: The session.
        directory: The trace log.
        files_at_once: The most files that a micro-batch reads.

    Raises:
        TraceLogError: There is no such folder.
    """
    check_directory(Path(directory))
    stream = spark.readStream.schema(SCHEMA).options(
        recursiveFileLookup="true",
        pathGlobFilter="trace-*.parquet",
        ignoreCorruptFiles="true",
        ignoreMissingFiles="true",
        maxFilesPerTrigger=str(files_at_once),
    )
    return _with_process(stream.parquet(_without_patterns(Path(directory))))


def _with_process(rows: DataFrame) -> DataFrame:
    name = sf.regexp_extract(sf.col("_metadata.file_name"), r"-(\d+)-\d+\.parquet$", 1)
    return rows.select(*SCHEMA.names, name.try_cast("bigint").alias("process"))


def _within(rows: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    if since is not None:
        rows = rows.where(sf.col("ts") >= _moment(since))
    if until is not None:
        rows = rows.where(sf.col("ts") < _moment(until))
    return rows


def _moment(time: datetime) -> Column:
    # Not the object itself, of which Spark takes the numbers on the clock of this machine's time zone.
    return sf.timestamp_micros(sf.lit(round(time.timestamp() * 1_000_000)))


def _without_patterns(path: Path) -> str:
    """Return a path in which Spark sees no patterns, as in the names of shells."""
    return "".join(f"\\{letter}" if letter in "[]{}*?\\" else letter for letter in str(path.absolute()))
