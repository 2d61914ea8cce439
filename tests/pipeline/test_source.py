"""The source inside Spark: few tests, since each costs seconds; the rest asks the readers themselves."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from .broker import TapBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def numbered(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


class Runs:
    """Runs of one query into files: what each of them has read, and what its progress says."""

    def __init__(self, frame: "DataFrame", place: Path) -> None:
        self._frame = frame
        self._place = place
        self.counts: list[int] = []
        self.ends: list[tuple[dict[str, list[int]], ...]] = []
        """Of each batch, where it has ended and where the stream did, by partition."""

    def run(self) -> None:
        """Read what there is now."""
        writer = self._frame.selectExpr("topic", "CAST(value AS STRING) value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self._place / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self._place / "rows"))
        query.awaitTermination(120)
        self.counts = [progress["numInputRows"] for progress in query.recentProgress]
        sources = [progress["sources"][0] for progress in query.recentProgress]
        self.ends = [
            tuple(
                next(iter(json.loads(source[name])["streams"].values()), {}) for name in ("endOffset", "latestOffset")
            )
            for source in sources
        ]

    def values(self) -> list[str]:
        rows = self._frame.sparkSession.read.schema("topic string, value string").parquet(str(self._place / "rows"))
        return sorted(row.value for row in rows.collect())


def stream(spark: "SparkSession", broker: TapBroker, **options: str) -> "DataFrame":
    return spark.readStream.format("triomq").options(address=broker.address, **options).load()


def test_a_batch_is_read_side_by_side(spark: "SparkSession", tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name, partitions=2)
    tap_broker.append(name, numbered(0, 1000), numbered(0, 1000))
    frame = spark.read.format("triomq").options(url=tap_broker.url, subscribe=name, includeHeaders=True).load()
    assert frame.rdd.getNumPartitions() == 2
    assert sorted(int(row.value) for row in frame.collect()) == list(range(1000))
    assert frame.where("partition = 1 AND value = key AND headers IS NULL AND timestamp > '2020-01-01'").count() == (
        tap_broker.bounds(name)[1].next
    )
    assert "guest" not in frame._jdf.queryExecution().toString()


def test_a_query_reads_under_its_limit_and_goes_on_from_its_checkpoint(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.append(name, numbered(0, 9))
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4", "group": f"{name}'s"}
    runs = Runs(stream(spark, tap_broker, **options), tmp_path)
    runs.run()
    assert runs.counts == [4, 4, 1]
    assert [(end["0"][1], latest["0"][1]) for end, latest in runs.ends] == [(4, 9), (8, 9), (9, 9)]
    assert tap_broker.bounds(name, f"{name}'s")[0].position == 9
    tap_broker.append(name, numbered(9, 12))
    runs.run()
    assert runs.counts == [3]
    assert runs.values() == sorted(str(number) for number in range(12))


def test_streams_that_appear_between_runs_are_read_from_their_beginning(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    runs = Runs(stream(spark, tap_broker, subscribePattern=f"{name}-.*"), tmp_path)
    runs.run()
    tap_broker.declare_stream(f"{name}-a")
    tap_broker.append(f"{name}-a", [b"new"])
    runs.run()
    assert runs.values() == ["new"]


def test_an_option_that_is_not_known_is_an_error_before_anything_runs(
    spark: "SparkSession", tap_broker: TapBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AnalysisException, match=r"'startingofsets' is not known; did you mean startingOffsets\?"):
        stream(spark, tap_broker, subscribe="orders", startingOfsets="earliest")


def test_another_schema_is_an_error_in_plain_words(spark: "SparkSession", tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name)
    reader = spark.read.format("triomq").options(address=tap_broker.address, subscribe=name)
    with pytest.raises(
        AnalysisException, match=r"WrongSchema: schema\(…\) has the columns value string; the source has key"
    ):
        reader.schema("value string").load().collect()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "not there"}, "NotFound"),
        ({"subscribe": "orders", "user": "ada", "password": "wrong"}, "AccessRefused"),
        ({"subscribe": "orders", "address": "127.0.0.1:1", "retries": "0"}, "Disconnected: the broker at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_read_is_an_error_by_name(
    spark: "SparkSession", tap_broker: TapBroker, options: dict[str, str], text: str
) -> None:
    reader = spark.read.format("triomq").options(**{"address": tap_broker.address, **options})
    with pytest.raises(AnalysisException, match=text):
        reader.load().collect()


def test_a_query_whose_stream_was_declared_anew_ends_with_an_error_by_name(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.append(name, [b"a"])
    runs = Runs(stream(spark, tap_broker, subscribe=name, startingOffsets="earliest"), tmp_path)
    runs.run()
    tap_broker.call("stream.delete", name=name)
    tap_broker.declare_stream(name)
    with pytest.raises(StreamingQueryException, match="OtherStream: the checkpoint is that of another stream"):
        runs.run()
    assert runs.values() == ["a"]
