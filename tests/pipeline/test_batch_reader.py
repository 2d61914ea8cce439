"""Batches that are planned and read without Spark, against a real broker."""

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from triomq.errors import ConfigError, NotFound, OtherStream, RecordsLost
from triomq.pipeline.batch_reader import BatchReader
from triomq.pipeline.ranges import OffsetRange
from triomq.pipeline.source_options import SparkSourceOptions, read_source_options

from .broker import TapBroker


def reader(broker: TapBroker, **given: str) -> BatchReader:
    return BatchReader(options(broker, **given))


def options(broker: TapBroker, **given: str) -> SparkSourceOptions:
    return read_source_options({"address": broker.address, "retries": "0", **given})


def ranges(broker: TapBroker, **given: str) -> list[tuple[str, int, int]]:
    """Return what would be read: where, from which offset, before which."""
    planned: list[OffsetRange | None] = [part.value for part in reader(broker, **given).partitions()]
    return [(str(each.place), each.first, each.stop) for each in planned if each is not None]


def rows(broker: TapBroker, **given: str) -> Iterator[dict[str, Any]]:
    source = reader(broker, **given)
    for part in source.partitions():
        for batch in pickle.loads(pickle.dumps(source)).read(pickle.loads(pickle.dumps(part))):
            yield from batch.to_pylist()


def values(broker: TapBroker, **given: str) -> list[bytes]:
    return [row["value"] for row in rows(broker, **given)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.fixture
def stream(tap_broker: TapBroker, name: str) -> str:
    """A stream of ten records."""
    tap_broker.declare_stream(name)
    tap_broker.append(name, numbered(10))
    return name


def test_a_stream_is_read_from_end_to_end(tap_broker: TapBroker, stream: str) -> None:
    found = list(rows(tap_broker, subscribe=stream))
    assert [row["value"] for row in found] == numbered(10)
    assert [row["offset"] for row in found] == list(range(10))
    assert {(row["topic"], row["partition"], row["key"], row["exchange"]) for row in found} == {
        (stream, 0, stream.encode(), "")
    }


def test_partitions_are_read_each_by_a_task_of_its_own(tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name, partitions=3)
    tap_broker.append(name, numbered(50), [b"key %d" % number for number in range(50)])
    found = list(rows(tap_broker, subscribe=name))
    assert sorted(row["value"] for row in found) == sorted(numbered(50))
    counts = [bounds.next for bounds in tap_broker.bounds(name)]
    assert ranges(tap_broker, subscribe=name) == [(f"{name}/{n}", 0, count) for n, count in enumerate(counts)]
    assert ranges(tap_broker, assign=f'{{"{name}": [2, 0]}}') == [(f"{name}/{n}", 0, counts[n]) for n in (0, 2)]


def test_streams_are_found_by_a_pattern(tap_broker: TapBroker, name: str) -> None:
    for each in (f"{name}-a", f"{name}-b", f"{name}-ab"):
        tap_broker.declare_stream(each)
        tap_broker.append(each, [each.encode()])
    assert values(tap_broker, subscribepattern=f"{name}-.") == [f"{name}-a".encode(), f"{name}-b".encode()]
    assert values(tap_broker, subscribe=f"{name}-ab, {name}-a") == [f"{name}-ab".encode(), f"{name}-a".encode()]


def test_a_batch_may_have_nothing(tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name)
    assert values(tap_broker, subscribe=name) == []
    assert values(tap_broker, subscribepattern=f"{name}-nothing") == []


def test_offsets_say_where_a_batch_begins_and_ends(tap_broker: TapBroker, stream: str) -> None:
    at = f"{stream}/0"

    def of(offset: int) -> str:
        return f'{{"{stream}": {{"0": {offset}}}}}'

    assert ranges(tap_broker, subscribe=stream, startingoffsets=of(3), endingoffsets=of(7)) == [(at, 3, 7)]
    assert ranges(tap_broker, subscribe=stream, startingoffsets=of(-2), endingoffsets=of(-1)) == [(at, 0, 10)]
    assert ranges(tap_broker, subscribe=stream, startingoffsets="earliest", endingoffsets="latest") == [(at, 0, 10)]
    assert ranges(tap_broker, subscribe=stream, startingoffsets="latest") == []
    assert ranges(tap_broker, subscribe=stream, startingoffsets=of(7), endingoffsets=of(3)) == []
    assert values(tap_broker, subscribe=stream, startingoffsets=of(8)) == [b"8", b"9"]


def test_times_say_where_a_batch_begins_and_ends(tap_broker: TapBroker, stream: str) -> None:
    tap_broker.append(stream, [b"later"])
    found = [(int(row["timestamp"].timestamp() * 1000), row["value"]) for row in rows(tap_broker, subscribe=stream)]
    at = found[-1][0]  # the beginning of the millisecond in which the last one was appended
    late = [value for time, value in found if time >= at]
    assert values(tap_broker, subscribe=stream, startingtimestamp=str(at)) == late
    assert values(tap_broker, subscribe=stream, endingtimestamp=str(at)) == [*numbered(10), b"later"][: -len(late)]
    assert values(tap_broker, subscribe=stream, startingtimestamp="99999999999999") == []


def test_ranges_are_cut_for_more_tasks(tap_broker: TapBroker, stream: str) -> None:
    at = f"{stream}/0"
    assert ranges(tap_broker, subscribe=stream, minpartitions="3") == [(at, 0, 3), (at, 3, 6), (at, 6, 10)]
    assert ranges(tap_broker, subscribe=stream, maxrecordsperpartition="4") == [(at, 0, 3), (at, 3, 6), (at, 6, 10)]
    assert len(ranges(tap_broker, subscribe=stream, minpartitions="100")) == 10
    assert values(tap_broker, subscribe=stream, minpartitions="4") == numbered(10)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({}, ConfigError, "one of the options subscribe, subscribePattern and assign says what to read; found none"),
        ({"subscribe": "a", "assign": "{}"}, ConfigError, "found subscribe and assign"),
        ({"subscribe": " ,"}, ConfigError, "option subscribe is ',', which names no stream"),
        ({"assign": "{}"}, ConfigError, "option assign is '{}', which names no stream"),
        ({"subscribepattern": "("}, ConfigError, r"subscribePattern is '\(', no regular expression"),
        ({"assign": "[1]"}, ConfigError, r"option assign is '\[1\]'; it is partitions by stream, as JSON"),
        ({"subscribe": "no stream"}, NotFound, "no stream"),
        ({"startingoffsets": "sometime"}, ConfigError, "startingOffsets is 'sometime'; it is earliest, latest, or"),
        ({"endingoffsets": "earliest"}, ConfigError, "endingOffsets is 'earliest'; it is latest, or offsets by stream"),
        ({"endingoffsets": '{"a": {"0": -2}}'}, ConfigError, "endingOffsets has -2 for a/0; that is no place"),
        ({"startingoffsets": '{"a": {"0": 1}}'}, ConfigError, "names partition 0 of 'a'; what is read is .*/0"),
        (
            {"startingoffsets": "earliest", "startingtimestamp": "0"},
            ConfigError,
            "startingOffsets and startingTimestamp",
        ),
        ({"maxoffsetspertrigger": "5"}, ConfigError, "option maxOffsetsPerTrigger is for readStream"),
        ({"mode": "que"}, ConfigError, "option mode is 'que'; it is stream or queue"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    tap_broker: TapBroker, stream: str, given: dict[str, str], error: type[Exception], text: str
) -> None:
    chosen = {} if {"subscribe", "subscribepattern", "assign"} & given.keys() or not given else {"subscribe": stream}
    with pytest.raises(error, match=text):
        ranges(tap_broker, **chosen, **given)


def test_offsets_beyond_the_end_and_partitions_that_are_not_there_are_errors(
    tap_broker: TapBroker, stream: str
) -> None:
    with pytest.raises(ConfigError, match=r"startingOffsets has 11 for .*/0, whose last record is 9"):
        ranges(tap_broker, subscribe=stream, startingoffsets=f'{{"{stream}": {{"0": 11}}}}')
    with pytest.raises(NotFound, match=r"assign names partition 4 of .*, which has 1, from 0 on"):
        ranges(tap_broker, assign=f'{{"{stream}": [4]}}')


def drop_the_oldest(broker: TapBroker, name: str) -> int:
    """Fill a stream that keeps little, until some of it is dropped; return what its first offset is then."""
    while not (first := broker.bounds(name)[0].first):
        broker.append(name, [b"x" * 1000] * 100)
    return first


def test_records_that_are_gone_are_an_error_or_left_out_with_a_warning(
    tap_broker: TapBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tap_broker.declare_stream(name, max_bytes=100_000)
    strict, lax = (
        reader(tap_broker, subscribe=name, startingoffsets=f'{{"{name}": {{"0": 0}}}}', failondataloss=each)
        for each in ("true", "false")
    )
    tap_broker.append(name, [b"x" * 1000] * 100)
    planned = strict.partitions()
    first = drop_the_oldest(tap_broker, name)
    text = f"records 0 to {first - 1} of {name}/0 were dropped"
    with pytest.raises(RecordsLost, match=text + ".*; to go on without them, set the option failOnDataLoss to false"):
        strict.partitions()
    with pytest.raises(RecordsLost, match=text.replace(str(first - 1), r"\d+")):
        list(strict.read(planned[0]))
    with caplog.at_level(logging.WARNING, "triomq.pipeline"):
        assert [part.value.first for part in lax.partitions()] == [first]
        assert [each.message for each in caplog.records] == [
            f"{text} before they could be read; going on without them, since failOnDataLoss is false"
        ]
        assert [row["offset"] for batch in lax.read(planned[0]) for row in batch.to_pylist()] == list(range(first, 100))


def test_a_stream_that_was_declared_anew_meanwhile_is_another_one(tap_broker: TapBroker, stream: str) -> None:
    source = reader(tap_broker, subscribe=stream)
    planned = source.partitions()
    tap_broker.call("stream.delete", name=stream)
    tap_broker.declare_stream(stream)
    tap_broker.append(stream, numbered(10))
    with pytest.raises(OtherStream):
        list(source.read(planned[0]))


def test_a_task_loads_neither_trio_nor_tls(tap_broker: TapBroker, stream: str) -> None:
    source = reader(tap_broker, subscribe=stream)
    task = pickle.dumps((source, source.partitions()[0]))
    program = (
        "import pickle, sys, pyspark.sql.worker.plan_data_source_read\n"
        "before = set(sys.modules)\n"
        f"source, part = pickle.loads({task!r})\n"
        "rows = sum(batch.num_rows for batch in source.read(part))\n"
        "print(rows, sorted({'trio', 'ssl', 'asyncio', 'zmq'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "10 []"
