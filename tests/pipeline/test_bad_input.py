"""What users see in the driver when something is wrong: the error by its name and text, and nothing half written."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ports import free_port

from .broker import TapBroker

pytestmark = pytest.mark.spark

AT_ONCE = {"retries": "0", "connectTimeout": "5"}
"""Options of those who do not wait for a broker."""


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("triomq").options(**options).load()


def read_stream(spark: SparkSession, **options: str) -> DataFrame:
    return spark.readStream.format("triomq").options(**options).load()


def failure_of_batch(frame: DataFrame) -> str:
    """Return what a user reads who counts rows."""
    with pytest.raises(PySparkException) as caught:
        frame.count()
    return str(caught.value)


def failure_of_query(frame: DataFrame, place: Path, target: Mapping[str, str] | None = None) -> str:
    """Return what a user reads who lets a query write files below ``place``, or to a target of a broker."""
    own = {"path": str(place / "files")} if target is None else dict(target)
    writer = frame.writeStream.format("parquet" if target is None else "triomq").options(**own)
    with pytest.raises(PySparkException) as caught:
        writer.option("checkpointLocation", str(place / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
    return str(caught.value)


def files(place: Path) -> list[str]:
    """Return the names of all files that a query has written for readers."""
    return [path.name for path in place.glob("files/*.parquet")]


def test_broker_that_is_gone_is_named_with_its_address(spark: SparkSession, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    text = failure_of_batch(read(spark, address=address, subscribe="orders", **AT_ONCE))
    assert f"Disconnected: the broker at {address} was tried 1 times" in text
    assert "Connection refused; see whether it runs, or raise the options retries and retryBackoffMs" in text
    text = failure_of_query(read_stream(spark, address=address, subscribe="orders", **AT_ONCE), tmp_path)
    assert f"Disconnected: the broker at {address} was tried 1 times" in text
    assert files(tmp_path) == []


def test_wrong_password_is_refused_and_shown_nowhere(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path
) -> None:
    login = {"address": tap_broker.address, "user": "guest", "password": "sesame"}
    text = failure_of_batch(read(spark, subscribe="orders", **login))
    text += failure_of_query(read_stream(spark, subscribe="orders", **login), tmp_path)
    assert text.count("AccessRefused: ") == 2
    assert tap_broker.address in text
    assert "sesame" not in text


def test_unknown_stream_is_named(spark: SparkSession, tap_broker: TapBroker, tmp_path: Path) -> None:
    text = failure_of_batch(read(spark, url=tap_broker.url, subscribe="ordres"))
    assert "NotFound: " in text
    assert "'ordres'" in text
    text = failure_of_query(read_stream(spark, url=tap_broker.url, subscribe="ordres"), tmp_path)
    assert "'ordres'" in text


def test_unknown_target_is_named_and_other_targets_of_the_batch_get_nothing(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path, name: str
) -> None:
    for each in (name, f"{name}-a"):
        tap_broker.declare_stream(each)
    tap_broker.append(name, [b"a", b"b", b"c", b"d"])
    rows = read_stream(spark, url=tap_broker.url, subscribe=name, startingOffsets="earliest")
    chosen = rows.selectExpr("value", f"concat('{name}-', if(offset % 2 = 0, 'a', 'b')) as topic")
    text = failure_of_query(chosen, tmp_path, {"url": tap_broker.url})
    assert f"{name}-b" in text
    assert "declare it before" in text
    assert tap_broker.values(f"{name}-a") == []
    tap_broker.declare_stream(f"{name}-b")
    own = {"url": tap_broker.url, "checkpointLocation": str(tmp_path / "checkpoint")}
    chosen.writeStream.format("triomq").options(**own).trigger(availableNow=True).start().awaitTermination()
    assert (tap_broker.values(f"{name}-a"), tap_broker.values(f"{name}-b")) == ([b"a", b"c"], [b"b", b"d"])


def test_offsets_below_retention_are_named_unless_they_are_to_be_passed_over(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path, name: str
) -> None:
    tap_broker.declare_stream(name, max_bytes=40_000, segment_bytes=10_000)
    options = {"url": tap_broker.url, "subscribe": name}
    tap_broker.append(name, [b"%04d" % number * 20 for number in range(100)])
    query = read_stream(spark, startingOffsets="earliest", **options).writeStream.format("parquet")
    query = query.options(path=str(tmp_path / "files"), checkpointLocation=str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    there = files(tmp_path)
    for _ in range(30):
        tap_broker.append(name, [b"%04d" % number * 20 for number in range(100)])
    (bounds,) = tap_broker.bounds(name)
    assert bounds.first > 100
    lost = f"RecordsLost: records 100 to {bounds.first - 1} of {name}/0 were dropped before they could be read"
    text = failure_of_query(read_stream(spark, **options), tmp_path)
    assert lost in text
    assert "set the option failOnDataLoss to false" in text
    assert files(tmp_path) == there
    starting = f'{{"{name}": {{"0": 100}}}}'
    assert lost in failure_of_batch(read(spark, startingOffsets=starting, **options))
    rows = read(spark, startingOffsets=starting, failOnDataLoss="false", **options)
    assert rows.count() == bounds.next - bounds.first


def test_schema_that_the_source_does_not_have_is_compared_with_its_own(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path
) -> None:
    options = {"url": tap_broker.url, "subscribe": "orders"}
    frame = spark.read.format("triomq").options(**options).schema("value string").load()
    text = failure_of_batch(frame)
    assert "WrongSchema: schema(…) has the columns value string; the source has key binary, value" in text
    frame = spark.readStream.format("triomq").options(**options).schema("value string").load()
    assert "Leave schema(…) out" in failure_of_query(frame, tmp_path)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (["offset"], "there is no column value, which is the body of a message; there are offset"),
        (["offset as value"], "column value is of type bigint; it must be string or binary"),
        (
            ["value", "map('a', 'b') as headers"],
            "column headers is of type map<string,string>; it must be array<struct<",
        ),
        (["value", "struct(1 as colour) as properties"], "column properties has a field 'colour'"),
    ],
)
def test_rows_that_are_no_messages_are_refused_before_anything_is_read(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path, name: str, columns: list[str], reason: str
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.append(name, [b"a"])
    options = {"url": tap_broker.url, "topic": name}
    rows = read(spark, url=tap_broker.url, subscribe=name).selectExpr(*columns)
    with pytest.raises(PySparkException) as caught:
        rows.write.format("triomq").mode("append").options(**options).save()
    assert reason in str(caught.value)
    rows = read_stream(spark, url=tap_broker.url, subscribe=name, startingOffsets="earliest")
    assert reason in failure_of_query(rows.selectExpr(*columns), tmp_path, options)
    assert tap_broker.values(name) == [b"a"]


def test_checkpoint_of_another_stream_of_that_name_is_refused(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path, name: str
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.append(name, [b"a", b"b"])
    rows = read_stream(spark, url=tap_broker.url, subscribe=name, startingOffsets="earliest")
    query = rows.writeStream.format("parquet").option("path", str(tmp_path / "files"))
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    there = files(tmp_path)
    tap_broker.call("stream.delete", name=name)
    tap_broker.declare_stream(name)
    tap_broker.append(name, [b"c", b"d", b"e"])
    text = failure_of_query(rows, tmp_path)
    assert f"OtherStream: the checkpoint is that of another stream: '{name}' was deleted and declared anew" in text
    assert "another checkpointLocation" in text
    assert files(tmp_path) == there


def test_unknown_option_is_an_error_with_the_nearest_name(
    spark: SparkSession, tap_broker: TapBroker, tmp_path: Path, name: str
) -> None:
    with pytest.raises(PySparkException, match=r"'startingoffset' is not known; did you mean startingOffsets\?"):
        read(spark, url=tap_broker.url, subscribe=name, startingOffset="earliest").count()
    with pytest.raises(PySparkException, match=r"did you mean maxOffsetsPerTrigger\?"):
        read_stream(spark, url=tap_broker.url, subscribe=name, maxOffsetPerTrigger="10")
    frame = spark.createDataFrame([("a",)], "value string")
    with pytest.raises(PySparkException, match=r"'topics' is not known; here it is topic"):
        frame.write.format("triomq").mode("append").options(url=tap_broker.url, topics=name).save()


def test_plan_shows_no_password(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "tap://ada:sesame@127.0.0.1:1"
    hidden = [{"url": url}, {"address": "h", "user": "ada", "password": "sesame"}]
    hidden.append({"address": "h", "user": "ada", "passwordFile": str(tmp_path / "sesame")})
    for options in hidden:
        for load in (spark.read, spark.readStream):
            load.format("triomq").options(**options, subscribe="orders").load().explain(extended=True)
    told = capsys.readouterr().out
    assert "triomq" in told
    assert "sesame" not in told
    for options in ({"address": "ada:sesame@h"}, {"address": "h", "passwrd": "sesame"}):
        with pytest.raises(PySparkException) as caught:
            spark.read.format("triomq").options(**options, subscribe="orders").load()
        assert "sesame" not in str(caught.value)
