"""What is measured: each function moves all records once, and returns how long that took and what it has cost."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from loadgen.brokers import Broker
from loadgen.flow import percentile
from sparkside.meter import Meter, Seconds
from sparkside.records import Drip, Records, count_of, open_streams, tap_url
from triomq.clients import open_tap

PER_TRIGGER = 200_000
"""Records of a micro-batch, where nothing else is said."""

GROUP = 10
"""Records that are sent at once where their time under way is measured."""

PAUSE = 0.13
"""Seconds between two groups; not the length of a trigger, so that they meet it at all its moments."""


class Cost(msgspec.Struct, frozen=True):
    """What one round has shown: records per second, and microseconds of each record by who had them."""

    rate: float
    microseconds: Seconds


class Trips(msgspec.Struct, frozen=True):
    """What single records have shown.

    Args:
        p50: milliseconds from the sending of half of them to their reading from the sink, at most.
        p95: likewise of 95 %.
        trigger: milliseconds of a micro-batch with so few, the median.
        milliseconds: processor time of each micro-batch, by who had it, in milliseconds.
    """

    p50: float
    p95: float
    trigger: float
    milliseconds: Seconds


class Bench(msgspec.Struct, frozen=True):
    """All that a measurement needs: session, broker, meter and a folder for files."""

    spark: SparkSession
    broker: Broker
    meter: Meter
    folder: Path


Measure = Callable[[Bench, Records], Cost]


# From and to streams, as batches


def batch_to_noop(bench: Bench, records: Records) -> Cost:
    """Read all records and drop them."""
    return _timed(bench, records.count, lambda: _to_noop(_source(bench.spark.read, bench, records).load()))


def batch_to_parquet(bench: Bench, records: Records) -> Cost:
    """Write all records to Parquet files."""
    frame = _source(bench.spark.read, bench, records).load()
    return _timed(bench, records.count, lambda: _to_parquet(frame, _scratch(bench)))


def parquet_to_sink(bench: Bench, records: Records) -> Cost:
    """Append what stands in files to a stream."""
    with open_streams(bench.broker, 1) as [target]:
        frame = _read_files(bench, records).select(*_written(records))
        sink = frame.write.format("triomq").mode("append").option("url", tap_url(bench.broker)).option("topic", target)
        cost = _timed(bench, records.count, sink.save)
        _check(bench, target, records.count)
    return cost


# By micro-batches


def stream_to_noop(bench: Bench, records: Records) -> Cost:
    """Read all records, so many a trigger, and drop them."""
    return _streamed(bench, records, "noop", {})


def stream_to_parquet(bench: Bench, records: Records) -> Cost:
    """Write them to Parquet files."""
    return _streamed(bench, records, "parquet", {"path": str(_scratch(bench)), "compression": "zstd"})


def stream_to_sink(bench: Bench, records: Records) -> Cost:
    """Append them to another stream."""
    with open_streams(bench.broker, 1) as [target]:
        cost = _streamed(bench, records, "triomq", {"url": tap_url(bench.broker), "topic": target})
        _check(bench, target, records.count)
    return cost


# What else does it


def files_to_noop(bench: Bench, records: Records) -> Cost:
    """Have Spark read the same rows from Parquet files."""
    return _timed(bench, records.count, lambda: _to_noop(_read_files(bench, records)))


def files_to_parquet(bench: Bench, records: Records) -> Cost:
    """Have it write them to others."""
    return _timed(bench, records.count, lambda: _to_parquet(_read_files(bench, records), _scratch(bench)))


def pika_to_parquet(bench: Bench, records: Records) -> Cost:
    """Consume over AMQP with pika, write by pyarrow: a process for each stream."""
    each, address = records.count // len(records.streams), bench.broker.address
    url = f"amqp://{address.user}:{address.password}@{address.host}:{address.port}/%2F"
    folder = _scratch(bench)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "sparkside.pika_to_parquet", url]
    end = ["properties"] if records.kind.properties else []
    before = bench.meter.read()
    running = [
        subprocess.Popen(
            [*command, name, str(each), str(folder / f"{number}.parquet"), *end],
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(records.streams)
    ]
    found = [json.loads(process.communicate()[0]) for process in running]
    count = each * len(running)
    broker = bench.meter.read().since(before).broker
    return Cost(
        count / max(seconds for seconds, _ in found),
        Seconds(driver=sum(used for _, used in found), broker=broker).times(1e6 / count),
    )


# Single records


def measure_trips(bench: Bench, seconds: float) -> Trips:
    """Send a few records again and again, and see how long each takes from its sending to a reader of the sink."""
    with open_streams(bench.broker, 2) as [source, target], _running(bench, source, target) as query:
        drip, stopping = Drip(bench.broker, source), threading.Event()
        seen: dict[int, float] = {}
        reader = threading.Thread(target=_watch, args=(tap_url(bench.broker), target, seen, stopping), daemon=True)
        reader.start()
        _send(drip, seconds / 4)
        _await(lambda: len(seen) == len(drip.sent), f"{len(drip.sent)} records are not in the sink")
        first, before, batches = len(drip.sent), bench.meter.read(), _batches(query)
        _send(drip, seconds)
        _await(lambda: len(seen) == len(drip.sent), f"{len(drip.sent)} records are not in the sink")
        used, done = bench.meter.read().since(before), _batches(query) - batches
        stopping.set()
        reader.join()
        drip.close()
        ages = [seen[number] - drip.sent[number] for number in range(first, len(drip.sent))]
        triggers = [
            found["durationMs"]["triggerExecution"] for found in query.recentProgress if found["numInputRows"] > 0
        ]
    trigger = sorted(triggers)[len(triggers) // 2]
    return Trips(percentile(ages, 0.5) * 1e3, percentile(ages, 0.95) * 1e3, trigger, used.times(1e3 / max(done, 1)))


def measure_idle(bench: Bench, seconds: float, *, interval: float = 0.0) -> Seconds:
    """Let a query run with nothing to read; return the processor time of a second.

    Args:
        bench: as ever.
        seconds: how long.
        interval: seconds between its triggers; 0 for as often as Spark likes, a hundred times a second.
    """
    with open_streams(bench.broker, 2) as [source, target], _running(bench, source, target, interval) as query:
        with contextlib.closing(Drip(bench.broker, source)) as drip:
            drip.send(GROUP)
        query.processAllAvailable()
        time.sleep(1.0)  # for what ends behind a batch
        before, began = bench.meter.read(), time.monotonic()
        time.sleep(seconds)
        used, taken = bench.meter.read().since(before), time.monotonic() - began
    return used.times(1 / taken)


# Parts


def _scratch(bench: Bench) -> Path:
    """Return the name of a folder that is not there yet; what the last one got is removed."""
    shutil.rmtree(bench.folder / "scratch", ignore_errors=True)
    return bench.folder / "scratch" / "files"


def files_of(bench: Bench, records: Records) -> Path:
    """Return where the files with these records are; they are written when they are first wanted."""
    path = bench.folder / f"records-{records.kind.name}"
    if not path.exists():
        _to_parquet(_source(bench.spark.read, bench, records).load(), path)
    return path


def _read_files(bench: Bench, records: Records) -> DataFrame:
    return bench.spark.read.parquet(str(files_of(bench, records)))


def _source(reader: Any, bench: Bench, records: Records) -> Any:
    """Set what the source is to read, for a reader of either kind."""
    reader = reader.format("triomq").option("url", tap_url(bench.broker)).option("subscribe", ",".join(records.streams))
    reader = reader.option("startingOffsets", "earliest")
    if records.kind.properties:
        reader = reader.option("includeProperties", True).option("includeHeaders", True)
    return reader


def _written(records: Records) -> list[str]:
    """Return the columns that a sink is given: of the source's, those that records consist of."""
    return ["key", "value", *(["headers", "properties"] if records.kind.properties else [])]


def _to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _to_parquet(frame: DataFrame, path: Path) -> None:
    frame.write.option("compression", "zstd").parquet(str(path))


def _timed(bench: Bench, count: int, move: Callable[[], object]) -> Cost:
    before, began = bench.meter.read(), time.monotonic()
    move()
    seconds = time.monotonic() - began
    return Cost(count / seconds, bench.meter.read().since(before).times(1e6 / count))


def _streamed(bench: Bench, records: Records, sink: str, options: dict[str, str]) -> Cost:
    """Run a query to the end of what there is; the rate is that of all triggers but the first, which starts workers."""
    frame = _source(bench.spark.readStream, bench, records).option("maxOffsetsPerTrigger", PER_TRIGGER).load()
    if sink == "triomq":
        frame = frame.select(*_written(records))
    checkpoint = tempfile.mkdtemp(dir=bench.folder)
    before = bench.meter.read()
    writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    used = bench.meter.read().since(before)
    triggers = [found for found in query.recentProgress if found["numInputRows"]]
    if (read := sum(found["numInputRows"] for found in triggers)) != records.count:
        raise RuntimeError(f"the query has read {read:,} of {records.count:,} records")
    counted = triggers[1:] or triggers
    seconds = sum(found["batchDuration"] for found in counted) / 1000
    return Cost(sum(found["numInputRows"] for found in counted) / seconds, used.times(1e6 / records.count))


def _check(bench: Bench, target: str, count: int) -> None:
    if (found := count_of(bench.broker, [target])) != count:
        raise RuntimeError(f"{found:,} records are in the sink, and not {count:,}")


@contextlib.contextmanager
def _running(bench: Bench, source: str, target: str, interval: float = 0.0) -> Iterator[Any]:
    """Run a query from one stream into another one."""
    url, checkpoint = tap_url(bench.broker), tempfile.mkdtemp(dir=bench.folder)
    reader = bench.spark.readStream.format("triomq").option("url", url).option("subscribe", source)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    writer = frame.writeStream.format("triomq").option("url", url).option("topic", target)
    query = (
        writer.option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{interval * 1000:.0f} milliseconds")
        .start()
    )
    try:
        yield query
        query.processAllAvailable()  # raises if the query has failed meanwhile
    finally:
        query.stop()


def _send(drip: Drip, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        drip.send(GROUP)
        time.sleep(PAUSE)


def _watch(url: str, stream: str, seen: dict[int, float], stopping: threading.Event) -> None:
    """Read a stream as it grows; write down when each record came."""
    first = 0
    with open_tap(url) as tap:
        while not stopping.is_set():
            for columns in tap.fetch(stream, 0, first, wait=1.0):
                now = time.monotonic()
                for value in columns.values.each():
                    seen.setdefault(int(value), now)
                first = columns.head.stop


def _batches(query: Any) -> int:
    """Return how many micro-batches a query has ended."""
    found = query.lastProgress
    return 0 if found is None else int(found["batchId"]) + 1


def _await(condition: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(otherwise)
        time.sleep(0.01)
