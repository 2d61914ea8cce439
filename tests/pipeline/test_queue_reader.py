"""Micro-batches out of ordinary queues, as Spark asks for them, without Spark; and once with it."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from triomq.core.streams import ledgers
from triomq.errors import ConfigError, NotFound, OtherStream, RecordsLost, Refused
from triomq.pipeline.batch_reader import BatchReader
from triomq.pipeline.queue_reader import QueueReader
from triomq.pipeline.source_options import read_source_options
from triomq.protocols.tap import GroupPosition

from .broker import TapBroker
from .test_stream_reader import Query, all_of
from .threaded import serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueueQuery(Query):
    """The same for a queue."""

    kind = QueueReader


Queries = Callable[..., QueueQuery]


@pytest.fixture
def queue(tap_broker: TapBroker, name: str) -> str:
    tap_broker.call("declare_queue", name=name)
    return name


@pytest.fixture
def open_query(tap_broker: TapBroker, queue: str) -> Iterator[Queries]:
    """What begins a query of the queue."""
    opened: list[QueueQuery] = []

    def begin(broker: TapBroker = tap_broker, **given: str) -> QueueQuery:
        opened.append(QueueQuery(broker, **{"mode": "queue", "subscribe": queue, "group": "etl", **given}))
        return opened[-1]

    yield begin
    for query in opened:
        query.reader.stop()


def ready(broker: TapBroker, queue: str, group: str = "look") -> int:
    """Return how many messages are in the queue."""
    with broker.tap() as tap:
        return tap.lease(queue, group, most_records=0)[1]


def numbers(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


def test_query_reads_what_comes_and_acknowledges_what_is_done(
    tap_broker: TapBroker, open_query: Queries, queue: str
) -> None:
    query = open_query()
    tap_broker.append(queue, numbers(0, 3))
    assert query.trigger() == {f"{queue}/0": numbers(0, 3)}
    assert ready(tap_broker, queue) == 0
    assert not query.plan()
    [bounds] = tap_broker.bounds(queue, "etl")
    assert (bounds.first, bounds.next) == (3, 3)
    tap_broker.append(queue, numbers(3, 5))
    assert all_of(query.trigger()) == numbers(3, 5)


def test_message_of_any_publisher_has_its_key_headers_and_properties(
    tap_broker: TapBroker, open_query: Queries, queue: str
) -> None:
    query = open_query(includeheaders="true", includeproperties="true")
    with pika.BlockingConnection(pika.URLParameters(tap_broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(headers={"trace": "1-a", "n": 5}, message_id="m", timestamp=1767323045)
        for body in (b"", b"a"):
            channel.basic_publish("", queue, body, properties if body else None)
    assert query.plan()
    (part,) = query.reader.partitions(query.reader.initialOffset(), json.loads(query.log[0]))
    empty, full = (row for batch in query.reader.read(part) for row in batch.to_pylist())
    assert (empty["value"], empty["headers"]) == (b"", None)
    assert (full["key"], full["routing_key"], full["exchange"], full["topic"]) == (queue.encode(), queue, "", queue)
    assert full["headers"] == [{"key": "trace", "value": b"1-a"}, {"key": "n", "value": b"5"}]
    assert full["properties"]["message_id"] == "m"
    assert full["properties"]["timestamp"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_batch_is_read_again_with_the_same_messages(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query()
    tap_broker.append(queue, numbers(0, 3))
    assert query.plan()
    tap_broker.append(queue, numbers(3, 4))
    assert all_of(query.run()) == all_of(query.run()) == numbers(0, 3)
    query.restart()
    assert all_of(query.run()) == numbers(0, 3)
    assert all_of(query.trigger()) == numbers(3, 4)


def test_messages_leased_for_a_batch_that_was_not_written_down_are_in_the_next(
    tap_broker: TapBroker, open_query: Queries, queue: str
) -> None:
    query = open_query()
    assert query.trigger() == {}
    tap_broker.append(queue, numbers(0, 4))
    assert query.plan()
    query.log.pop()  # the driver ends before its checkpoint has that
    tap_broker.append(queue, numbers(4, 6))
    query.restart()
    assert all_of(query.trigger()) == numbers(0, 6)


def test_batch_has_as_many_messages_as_the_options_say(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query(maxoffsetspertrigger="2")
    tap_broker.append(queue, numbers(0, 5))
    assert [all_of(query.trigger()) for _ in range(3)] == [numbers(0, 2), numbers(2, 4), numbers(4, 5)]
    assert not query.plan()


def test_all_that_is_ready_is_read_where_all_is_wanted(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query(maxoffsetspertrigger="2")
    tap_broker.append(queue, numbers(0, 50))
    assert all_of(query.trigger(ReadAllAvailable())) == numbers(0, 50)


def test_more_than_one_lease_may_be_in_a_batch(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query(minpartitions="3")
    tap_broker.append(queue, numbers(0, 45_000))
    found = query.trigger()
    assert all_of(found) == numbers(0, 45_000)


def test_bytes_of_a_batch_are_bounded(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query(maxbytespertrigger="10000")
    tap_broker.append(queue, [bytes(1000)] * 25)
    sizes = [len(all_of(query.trigger())) for _ in range(4)]
    assert sum(sizes) == 25
    assert max(sizes) <= 11


def test_bytes_of_a_batch_are_bounded_also_without_options(
    tap_broker: TapBroker, open_query: Queries, queue: str
) -> None:
    query = open_query()
    for _ in range(4):
        tap_broker.append(queue, [bytes(1024 * 1024)] * 10)
    sizes = []
    while sum(sizes) < 40:  # a lease is smaller than it may be where the queue has to read more from its store first
        sizes.append(len(all_of(query.trigger())))
    assert 8 <= sizes[0] <= max(sizes) <= 36
    one_by_one = open_query(group="slow", maxbytespertrigger="1", subscribe=f"{queue}, {queue}-b")
    tap_broker.call("declare_queue", name=f"{queue}-b")
    tap_broker.append(f"{queue}-b", [b"a", b"b"])
    assert all_of(one_by_one.trigger()) == [b"a"]


def test_batch_has_no_more_than_a_group_may_have_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MOST_OUTSTANDING_BYTES", 10_000)
    with serve() as served:
        served.broker.declare_queue("q")
        for _ in range(25):
            served.append("q", bytes(1000))
        given = {"mode": "queue", "subscribe": "q", "group": "etl", "maxoffsetspertrigger": "100", **served.options}
        query = QueueReader(read_source_options(given))
        offset, ends = query.initialOffset(), []
        for _ in range(3):
            offset = query.latestOffset(offset, query.getDefaultReadLimit())
            ends.append(offset["streams"]["q"]["0"][1])
        query.stop()
    assert 0 < ends[0] < ends[1] < ends[2] == 25


def test_several_queues_are_read_together(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    tap_broker.call("declare_queue", name=f"{queue}-b")
    query = open_query(subscribe=f"{queue}, {queue}-b", maxoffsetspertrigger="4")
    tap_broker.append(queue, numbers(0, 6))
    tap_broker.append(f"{queue}-b", numbers(6, 8))
    assert query.trigger() == {f"{queue}/0": numbers(0, 3), f"{queue}-b/0": numbers(6, 7)}
    assert sorted(all_of(query.trigger())) == sorted([*numbers(3, 6), *numbers(7, 8)])


def test_available_now_ends_at_what_was_ready_then(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    tap_broker.append(queue, numbers(0, 3))
    query = open_query(maxoffsetspertrigger="2")
    query.reader.prepareForTriggerAvailableNow()
    assert all_of(query.trigger()) == numbers(0, 2)
    tap_broker.append(queue, numbers(3, 6))
    assert all_of(query.trigger()) == numbers(2, 3)
    assert not query.plan()
    assert ready(tap_broker, queue) == 3


def test_query_survives_the_broker(own_tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    own_tap_broker.call("declare_queue", name=queue)
    query = open_query(own_tap_broker)
    own_tap_broker.append(queue, numbers(0, 3))
    assert query.plan()
    own_tap_broker.kill()
    own_tap_broker.start()
    assert all_of(query.run()) == numbers(0, 3)
    own_tap_broker.append(queue, numbers(3, 4))
    assert all_of(query.trigger()) == numbers(3, 4)


def test_messages_that_were_taken_back_are_an_error_in_their_batch(
    tap_broker: TapBroker, open_query: Queries, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = open_query()
    tap_broker.append(queue, numbers(0, 3))
    assert query.plan()
    with tap_broker.tap() as tap:  # an hour later
        tap.ack(queue, "etl", {0: GroupPosition(None, 2)})
    with pytest.raises(RecordsLost, match=r"2 messages of queue .* went back to it.* failOnDataLoss"):
        query.run()
    query.restart(failondataloss="false")
    assert all_of(query.run()) == numbers(2, 3)


def test_queue_that_was_declared_anew_is_an_error(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query()
    tap_broker.append(queue, numbers(0, 1))
    assert query.trigger()
    tap_broker.call("queue.delete", name=queue)
    query.restart()
    with pytest.raises(OtherStream, match=f"leases of queue '{queue}' by group 'etl'.* another checkpointLocation"):
        query.plan()


def test_query_shows_where_its_queues_end(tap_broker: TapBroker, open_query: Queries, queue: str) -> None:
    query = open_query()
    tap_broker.append(queue, numbers(0, 3))
    assert query.reader.reportLatestOffset()["streams"][queue]["0"][1] == 3


def test_what_is_no_queue_is_an_error(tap_broker: TapBroker, open_query: Queries, name: str) -> None:
    tap_broker.declare_stream(f"{name}-s")
    with pytest.raises(Refused, match="lease is not for stream"):
        open_query(subscribe=f"{name}-s").plan()
    with pytest.raises(NotFound):
        open_query(subscribe="nowhere").plan()


def test_queue_that_is_read_as_a_stream_is_an_error_that_names_the_mode(tap_broker: TapBroker, queue: str) -> None:
    reader = BatchReader(read_source_options({"address": tap_broker.address, "subscribe": queue}))
    with pytest.raises(NotFound, match=f"'{queue}' is a queue and no stream: .* mode=queue"):
        reader.partitions()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscribe": "q"}, "needs the option group"),
        ({"subscribePattern": "q.*", "group": "g"}, "option subscribePattern is for streams"),
        ({"subscribe": "q", "group": "g", "startingOffsets": "earliest"}, "option startingOffsets is for streams"),
    ],
)
def test_options_that_do_not_fit_a_queue_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        QueueReader(read_source_options({"address": "localhost:1", "mode": "queue", **given}))


def test_queue_is_not_read_by_a_batch() -> None:
    with pytest.raises(ConfigError, match="mode is queue, which is for readStream"):
        BatchReader(read_source_options({"address": "localhost:1", "mode": "queue", "subscribe": "q", "group": "g"}))


@pytest.mark.spark
def test_spark_reads_a_queue(spark: "SparkSession", tap_broker: TapBroker, queue: str, tmp_path: Path) -> None:
    place = str(tmp_path / "checkpoint")
    for first, stop in ((0, 500), (500, 700)):
        tap_broker.append(queue, numbers(first, stop))
        options = {"address": tap_broker.address, "mode": "queue", "subscribe": queue, "group": "etl"}
        query = (
            spark.readStream.format("triomq")
            .options(**options, maxOffsetsPerTrigger="200")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        query.awaitTermination(100)
        assert query.exception() is None
    rows = spark.read.parquet(str(tmp_path / "table")).select("value", "topic", "offset").collect()
    assert sorted(int(row.value) for row in rows) == list(range(700))
    assert {row.topic for row in rows} == {queue}
    assert json.dumps(sorted(row.offset for row in rows)) == json.dumps(list(range(700)))
