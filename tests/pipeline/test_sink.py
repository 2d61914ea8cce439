"""The sink in Spark, against a broker in a process of its own."""

from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from pyspark.errors import PySparkException

from .broker import TapBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def source(spark: "SparkSession", broker: TapBroker, stream: str, **options: object) -> "DataFrame":
    reader = spark.readStream.format("triomq").option("address", broker.address).option("subscribe", stream)
    return reader.options(startingOffsets="earliest", **options).load()


def run(frame: "DataFrame", broker: TapBroker, checkpoint: Path, mode: str = "append", **options: object) -> None:
    """Run a query until it has read all there is."""
    writer = frame.writeStream.format("triomq").option("address", broker.address).options(**options).outputMode(mode)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def test_what_the_source_gives_can_be_written_as_it_is(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    tap_broker.declare_stream(name, partitions=2)
    tap_broker.declare_stream(f"{name}-copy", partitions=2)
    keys, values = [b"key %d" % (n % 7) for n in range(500)], [b"%d" % n for n in range(500)]
    tap_broker.append(name, values, keys)
    frame = source(spark, tap_broker, name, maxOffsetsPerTrigger=300, includeHeaders=True, includeProperties=True)
    run(frame, tap_broker, tmp_path, topic=f"{name}-copy")
    assert sorted(tap_broker.values(f"{name}-copy")) == sorted(values)
    with tap_broker.tap() as tap:
        bounds = tap.offsets(f"{name}-copy")
        found = {
            bytes(key): partition
            for partition in range(2)
            for columns in tap.fetch(f"{name}-copy", partition, 0, bounds[partition].next)
            for key in columns.keys().each()
        }
    assert sorted(found) == sorted(set(keys))


def test_messages_in_a_queue_have_headers_and_properties(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.call("declare_queue", name=f"{name}-out")
    tap_broker.append(name, [b"1", b"2"])
    frame = source(spark, tap_broker, name).selectExpr(
        "value",
        "'a key' AS key",
        "array(named_struct('key', 'colour', 'value', cast('blue' AS binary))) AS headers",
        "named_struct('content_type', 'text/plain', 'priority', 3, 'message_id', string(value),"
        " 'timestamp', timestamp '2026-01-02 03:04:05') AS properties",
    )
    run(frame, tap_broker, tmp_path, topic=f"{name}-out")
    with pika.BlockingConnection(pika.URLParameters(tap_broker.amqp_url)) as connection:
        channel = connection.channel()
        method, properties, body = channel.basic_get(f"{name}-out", auto_ack=True)
        assert (method.exchange, method.routing_key, body) == ("", "a key", b"1")
        assert properties.headers == {"colour": "blue"}
        assert (properties.content_type, properties.priority, properties.message_id) == ("text/plain", 3, "1")
        assert (properties.timestamp, properties.delivery_mode) == (1767323045, 2)
        assert channel.basic_get(f"{name}-out", auto_ack=True)[2] == b"2"
        assert channel.basic_get(f"{name}-out")[0] is None


def test_batch_that_was_refused_is_run_again_and_what_it_had_committed_is_passed_over(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    tap_broker.declare_stream(name)
    tap_broker.declare_stream(f"{name}-a")
    tap_broker.call("declare_queue", name=f"{name}-b", max_length=1, overflow="reject-publish")
    tap_broker.append(name, [b"%d" % n for n in range(10)])
    frame = source(spark, tap_broker, name).selectExpr("value", f"if(offset % 2 = 0, '{name}-a', '{name}-b') AS topic")
    with pytest.raises(PySparkException) as refused:
        run(frame, tap_broker, tmp_path)
    assert f"batch 0 is not committed into stream or queue '{name}-b'" in str(refused.value)
    assert tap_broker.values(f"{name}-a") == [b"0", b"2", b"4", b"6", b"8"]
    tap_broker.call("queue.delete", name=f"{name}-b")
    tap_broker.declare_stream(f"{name}-b")
    run(frame, tap_broker, tmp_path)
    assert tap_broker.values(f"{name}-a") == [b"0", b"2", b"4", b"6", b"8"]
    assert tap_broker.values(f"{name}-b") == [b"1", b"3", b"5", b"7", b"9"]


def test_frames_are_written_with_a_key_once_and_without_one_each_time(
    spark: "SparkSession", tap_broker: TapBroker, name: str
) -> None:
    tap_broker.declare_stream(name)
    frame = spark.range(0, 40_000, 1, 2).selectExpr("string(id) AS value", "string(id % 5) AS key")
    writer = frame.write.format("triomq").mode("append").options(address=tap_broker.address, topic=name)
    writer.save()
    expected = sorted(b"%d" % n for n in range(40_000))
    assert sorted(tap_broker.values(name)) == expected
    writer.save()
    assert len(tap_broker.values(name)) == 80_000
    tap_broker.declare_stream(f"{name}-once")
    for _ in range(2):
        writer.options(topic=f"{name}-once", batchKey="job", batchNumber=1).save()
    assert sorted(tap_broker.values(f"{name}-once")) == expected


def test_batches_of_a_query_are_written_once_to_two_places(
    spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    for each in (name, f"{name}-a", f"{name}-b"):
        tap_broker.declare_stream(each)
    tap_broker.append(name, [b"%d" % n for n in range(10)])

    def write(batch: "DataFrame", number: int) -> None:
        for _ in range(2):
            for topic in ("a", "b"):
                writer = batch.write.format("triomq").mode("append").option("address", tap_broker.address)
                writer.options(topic=f"{name}-{topic}", batchKey=name, batchNumber=number).save()

    frame = source(spark, tap_broker, name, maxOffsetsPerTrigger=5)
    query = frame.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(write)
    query.trigger(availableNow=True).start().awaitTermination()
    expected = [b"%d" % n for n in range(10)]
    assert tap_broker.values(f"{name}-a") == tap_broker.values(f"{name}-b") == expected


def test_columns_that_do_not_fit_are_an_error_in_the_driver(spark: "SparkSession", tap_broker: TapBroker) -> None:
    options = {"address": tap_broker.address, "topic": "a"}
    frame = spark.range(1)
    with pytest.raises(PySparkException, match=r"there is no column value, .*; there are id: make it with select"):
        frame.write.format("triomq").mode("append").options(**options).save()
    with pytest.raises(PySparkException, match="mode overwrite: what was published is not replaced"):
        frame.selectExpr("string(id) AS value").write.format("triomq").mode("overwrite").options(**options).save()


def test_only_append_is_an_output_mode(spark: "SparkSession", tap_broker: TapBroker, name: str, tmp_path: Path) -> None:
    tap_broker.declare_stream(name)
    tap_broker.append(name, [b"1"])
    frame = source(spark, tap_broker, name).groupBy("topic").count().selectExpr("string(count) AS value")
    with pytest.raises(PySparkException, match="output mode complete: what was published is not replaced"):
        run(frame, tap_broker, tmp_path, mode="complete", topic="a")
