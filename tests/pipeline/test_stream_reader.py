"""Micro-batches as Spark asks for them, without Spark, against a real broker."""

import json
import logging
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from triomq.errors import ConfigError, NotFound, OtherStream, RecordsLost, WrongCheckpoint
from triomq.pipeline.limits import TRIGGER_BYTES
from triomq.pipeline.queue_reader import QueueReader
from triomq.pipeline.source_options import read_source_options
from triomq.pipeline.stream_reader import MicroBatchReader

from .broker import TapBroker

Records = dict[str, list[bytes]]
"""Values by stream and partition."""


class Query:
    """Does with a source what Spark does with it; ``log`` is what stands in its checkpoint."""

    kind: type[MicroBatchReader] | type[QueueReader] = MicroBatchReader

    def __init__(self, broker: TapBroker, **given: str) -> None:
        self._given = {"address": broker.address, "retrybackoffms": "1", **given}
        self.log: list[str] = []
        self.reader = self.kind(read_source_options(self._given))

    def restart(self, **given: str) -> None:
        """Go on in another process, with the same checkpoint."""
        self.reader.stop()  # as the end of its process does
        self._given.update(given)
        self.reader = self.kind(read_source_options(self._given))

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Write down where the next batch ends, if there is one; the first one is made in any case."""
        start = self._start(len(self.log))
        end = json.dumps(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit()))
        if self.log and end == json.dumps(start):
            return False
        self.log.append(end)
        return True

    def _start(self, number: int) -> dict[str, Any]:
        # Spark asks for the initial offset twice, and again whenever no batch is complete.
        offset: dict[str, Any] = json.loads(self.log[number - 1] if number else json.dumps(self._initial()))
        return offset

    def _initial(self) -> dict[str, Any]:
        first = self.reader.initialOffset()
        assert self.reader.initialOffset() == first
        return first

    def run(self) -> Records:
        """Read the batch that was planned last."""
        start, end = self._start(len(self.log) - 1), json.loads(self.log[-1])
        found: Records = {}
        for part in self.reader.partitions(start, end):
            for batch in pickle.loads(pickle.dumps(self.reader)).read(pickle.loads(pickle.dumps(part))):
                for row in batch.to_pylist():
                    found.setdefault(f"{row['topic']}/{row['partition']}", []).append(row["value"])
        return found

    def trigger(self, limit: ReadLimit | None = None) -> Records:
        """Run one batch; it has nothing if there is none."""
        return self.run() if self.plan(limit) else {}


def all_of(found: Mapping[str, list[bytes]]) -> list[bytes]:
    return [value for values in found.values() for value in values]


Queries = Callable[..., Query]


@pytest.fixture
def open_query(tap_broker: TapBroker) -> Iterator[Queries]:
    """What begins a query."""
    opened: list[Query] = []

    def begin(**given: str) -> Query:
        opened.append(Query(tap_broker, **given))
        return opened[-1]

    yield begin
    for query in opened:
        query.reader.stop()


@pytest.fixture
def stream(tap_broker: TapBroker, name: str) -> str:
    tap_broker.declare_stream(name)
    return name


def test_a_query_reads_what_comes_batch_by_batch(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream, startingoffsets="earliest")
    tap_broker.append(stream, [b"a", b"b"])
    assert query.trigger() == {f"{stream}/0": [b"a", b"b"]}
    tap_broker.append(stream, [b"c"])
    assert query.trigger() == {f"{stream}/0": [b"c"]}


def test_a_query_with_nothing_new_has_no_batches(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream)
    assert query.trigger() == {}  # the first one, which says where the query began
    assert not query.plan()
    query.restart()
    assert not query.plan()


def test_nothing_is_read_between_an_offset_and_itself(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream, startingoffsets="earliest")
    tap_broker.append(stream, [b"a"])
    query.trigger()
    query.log.append(query.log[-1])  # as beside another source, which has something new
    assert query.run() == {}


def test_a_query_begins_at_the_end_unless_it_is_told_otherwise(
    tap_broker: TapBroker, open_query: Queries, stream: str
) -> None:
    tap_broker.append(stream, [b"before"])
    query = open_query(subscribe=stream)
    assert query.trigger() == {}
    tap_broker.append(stream, [b"after"])
    assert all_of(query.trigger()) == [b"after"]


def test_a_batch_that_was_planned_before_a_crash_has_the_same_records_after_it(
    tap_broker: TapBroker, open_query: Queries, stream: str
) -> None:
    query = open_query(subscribe=stream, startingoffsets="latest")
    query.reader.initialOffset()  # the query has begun
    tap_broker.append(stream, [b"a", b"b", b"c"])
    assert query.plan()
    tap_broker.append(stream, [b"d"])
    query.restart()  # where the latest offset is another one
    assert all_of(query.run()) == [b"a", b"b", b"c"]
    assert all_of(query.trigger()) == [b"d"]


def test_a_query_that_had_no_records_yet_goes_on_where_it_began(
    tap_broker: TapBroker, open_query: Queries, stream: str
) -> None:
    query = open_query(subscribe=stream, startingoffsets="latest")
    assert query.trigger() == {}
    tap_broker.append(stream, [b"while it was down"])
    query.restart()
    assert query.run() == {}
    assert all_of(query.trigger()) == [b"while it was down"]


def test_a_limit_of_records_is_shared_out_in_proportion(tap_broker: TapBroker, open_query: Queries, name: str) -> None:
    streams = {f"{name}-{size}": size for size in (1, 20, 60)}
    for each, size in streams.items():
        tap_broker.declare_stream(each)
        tap_broker.append(each, [b"%d" % number for number in range(size)])
    query = open_query(subscribe=",".join(streams), startingoffsets="earliest", maxoffsetspertrigger="8")
    counts = []
    while found := query.trigger():
        counts.append([len(found.get(f"{each}/0", [])) for each in streams])
    assert counts[0] == [1, 1, 5]  # at least one of each
    assert [sum(column) for column in zip(*counts, strict=True)] == list(streams.values())
    assert max(map(sum, counts)) <= 8 + len(streams)


def test_all_that_is_available_is_read_whatever_the_limits(
    tap_broker: TapBroker, open_query: Queries, stream: str
) -> None:
    tap_broker.append(stream, [b"x"] * 50)
    query = open_query(subscribe=stream, startingoffsets="earliest", maxoffsetspertrigger="5")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(5)
    assert len(all_of(query.trigger(ReadAllAvailable()))) == 50


def test_a_query_without_limits_has_one(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream)
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(TRIGGER_BYTES)


def test_a_limit_of_bytes_is_kept_to_what_chunks_show(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    for size in (100, 100, 1000, 1000):
        tap_broker.append(stream, [b"x" * size] * 1000)
    query = open_query(subscribe=stream, startingoffsets="earliest", maxbytespertrigger="200000")
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(200_000)
    sizes = []
    while found := query.trigger():
        sizes.append(sum(map(len, all_of(found))))
    assert sum(sizes) == 2_200_000
    assert all(100_000 < size < 300_000 for size in sizes[:-1]), sizes
    both = open_query(
        subscribe=stream, startingoffsets="earliest", maxbytespertrigger="20000", maxoffsetspertrigger="900"
    )
    assert 50 < len(all_of(both.trigger())) < 250
    both.restart(maxbytespertrigger="2000000")
    assert len(all_of(both.trigger())) == 900


def test_a_record_that_is_larger_than_the_limit_is_read_all_the_same(
    tap_broker: TapBroker, open_query: Queries, stream: str
) -> None:
    tap_broker.append(stream, [b"x" * 1000] * 3)
    query = open_query(subscribe=stream, startingoffsets="earliest", maxbytespertrigger="10")
    assert [len(all_of(query.trigger())) for _ in range(4)] == [1, 1, 1, 0]


def test_available_now_reads_what_was_there_under_the_limits_and_then_ends(
    tap_broker: TapBroker, open_query: Queries, name: str
) -> None:
    tap_broker.declare_stream(f"{name}-a")
    tap_broker.append(f"{name}-a", [b"x"] * 9)
    query = open_query(subscribepattern=f"{name}-.", startingoffsets="earliest", maxoffsetspertrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    tap_broker.append(f"{name}-a", [b"late"])
    tap_broker.declare_stream(f"{name}-b")
    tap_broker.append(f"{name}-b", [b"late"])
    counts = []
    while found := query.trigger():
        assert b"late" not in all_of(found)
        counts.append(len(all_of(found)))
    assert counts == [3, 3, 3]
    query.restart(maxoffsetspertrigger="100")
    query.reader.prepareForTriggerAvailableNow()
    assert all_of(query.trigger()) == [b"late", b"late"]


def test_a_stream_that_appears_during_a_query_is_read_from_its_beginning(
    tap_broker: TapBroker, open_query: Queries, name: str
) -> None:
    query = open_query(subscribepattern=f"{name}-.")
    assert query.trigger() == {}
    tap_broker.declare_stream(f"{name}-a")
    assert not query.plan()
    tap_broker.append(f"{name}-a", [b"first", b"second"])
    assert query.plan()
    tap_broker.append(f"{name}-a", [b"third"])
    query.restart()
    assert query.run() == {f"{name}-a/0": [b"first", b"second"]}
    assert query.trigger() == {f"{name}-a/0": [b"third"]}


def test_a_stream_that_is_deleted_during_a_query_is_an_error_or_left_out_with_a_warning(
    tap_broker: TapBroker, open_query: Queries, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for each in "ab":
        tap_broker.declare_stream(f"{name}-{each}")
        tap_broker.append(f"{name}-{each}", [b"x"])
    query = open_query(subscribepattern=f"{name}-.", startingoffsets="earliest")
    query.trigger()
    tap_broker.call("stream.delete", name=f"{name}-b")
    with pytest.raises(RecordsLost, match=f"the stream '{name}-b' was deleted"):
        query.plan()
    query.restart(failondataloss="false")
    with caplog.at_level(logging.WARNING, "triomq.pipeline"):
        query.trigger()
        assert not query.plan()
    assert len(caplog.records) == 1
    assert all_of(query.run()) == []
    named = open_query(subscribe=f"{name}-b", failondataloss="false")
    with pytest.raises(NotFound):
        named.plan()


def test_a_batch_whose_stream_was_deleted_since_it_was_planned_can_be_done_without_it(
    tap_broker: TapBroker, open_query: Queries, name: str
) -> None:
    for each in "ab":
        tap_broker.declare_stream(f"{name}-{each}")
        tap_broker.append(f"{name}-{each}", [each.encode()])
    query = open_query(subscribepattern=f"{name}-.", startingoffsets="earliest")
    assert query.plan()
    tap_broker.call("stream.delete", name=f"{name}-b")
    with pytest.raises(
        RecordsLost, match=f"records 0 to 0 of {name}-b/0 .* cannot be read: .* set the option failOnDataLoss"
    ):
        query.run()
    query.restart(failondataloss="false")
    assert query.run() == {f"{name}-a/0": [b"a"]}
    query.trigger()
    assert not query.plan()


def test_a_stream_that_is_subscribed_no_more_goes_on_where_it_was_when_it_is_again(
    tap_broker: TapBroker, open_query: Queries, name: str
) -> None:
    for each in "ab":
        tap_broker.declare_stream(f"{name}-{each}")
        tap_broker.append(f"{name}-{each}", [b"old"])
    query = open_query(subscribe=f"{name}-a,{name}-b", startingoffsets="earliest")
    query.trigger()
    query.restart(subscribe=f"{name}-a")
    tap_broker.append(f"{name}-a", [b"new"])
    assert query.trigger() == {f"{name}-a/0": [b"new"]}
    query.restart(subscribe=f"{name}-a,{name}-b")
    assert query.trigger() == {}


def test_a_checkpoint_of_another_stream_is_refused(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream, startingoffsets="earliest")
    tap_broker.append(stream, [b"a"])
    query.trigger()
    tap_broker.call("stream.delete", name=stream)
    tap_broker.declare_stream(stream)
    tap_broker.append(stream, [b"b"] * 5)
    query.restart()
    with pytest.raises(
        OtherStream, match=f"'{stream}' was deleted and declared anew since.*another checkpointLocation"
    ):
        query.plan()


@pytest.mark.parametrize("found", [{"orders": {"0": 5}}, {"version": 2, "streams": {}, "group": "g"}])
def test_a_checkpoint_of_another_source_is_refused(
    tap_broker: TapBroker, open_query: Queries, stream: str, found: dict[str, Any]
) -> None:
    query = open_query(subscribe=stream)
    with pytest.raises(WrongCheckpoint, match="which this version of triomq cannot read"):
        query.reader.latestOffset(found, ReadAllAvailable())


def test_records_that_retention_has_dropped_are_an_error_or_left_out_with_one_warning(
    tap_broker: TapBroker, open_query: Queries, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tap_broker.declare_stream(name, max_bytes=100_000)
    query = open_query(subscribe=name, startingoffsets="earliest", maxoffsetspertrigger="10")
    tap_broker.append(name, [b"x"])
    query.trigger()
    while (first := tap_broker.bounds(name)[0].first) < 2:
        tap_broker.append(name, [b"x" * 1000] * 100)
    with pytest.raises(RecordsLost, match=f"records 1 to {first - 1} of {name}/0 were dropped"):
        query.plan()
    query.restart(failondataloss="false")
    with caplog.at_level(logging.WARNING, "triomq.pipeline"):
        assert query.plan()
        query.restart()
        assert len(all_of(query.run())) == 10
        assert len(all_of(query.trigger())) == 10
    assert [each.message for each in caplog.records] == [
        f"records 1 to {first - 1} of {name}/0 were dropped before they could be read; going on without them, since "
        "failOnDataLoss is false"
    ]


def test_the_broker_shows_how_far_a_query_is(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream, startingoffsets="earliest", group="totals")
    tap_broker.append(stream, [b"a", b"b"])
    query.trigger()
    tap_broker.append(stream, [b"c", b"d", b"e"])
    assert tap_broker.bounds(stream, "totals")[0].position is None  # the first batch may yet be run again
    query.plan()
    (bounds,) = tap_broker.bounds(stream, "totals")
    assert (bounds.position, bounds.next) == (2, 5)
    query.plan()  # as Spark asks at the end, when it has never called commit for the last batch
    assert tap_broker.bounds(stream, "totals")[0].position == 5


def test_a_query_keeps_its_group_over_restarts(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream)
    query.trigger()
    group = json.loads(query.log[0])["group"]
    assert group.startswith("spark-")
    query.restart()
    tap_broker.append(stream, [b"a"])
    query.trigger()
    assert json.loads(query.log[-1])["group"] == group
    assert tap_broker.bounds(stream, group)[0].position == 0


def test_a_reader_that_was_never_stopped_holds_nothing(tap_broker: TapBroker, stream: str) -> None:
    tap_broker.append(stream, [b"a"])
    ended, next_run = (Query(tap_broker, subscribe=stream, startingoffsets="earliest", group="g") for _ in range(2))
    ended.trigger()
    ended.plan()
    next_run.log = ended.log
    tap_broker.append(stream, [b"b"])
    assert all_of(next_run.trigger()) == [b"b"]
    tap_broker.call("stream.delete", name=stream)
    for query in (ended, next_run):
        query.reader.stop()


def test_the_progress_shows_where_the_streams_end(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    query = open_query(subscribe=stream, startingoffsets="earliest", maxoffsetspertrigger="1")
    tap_broker.append(stream, [b"a", b"b", b"c"])
    query.trigger()
    identity = tap_broker.bounds(stream)[0].identity
    assert json.loads(query.log[-1])["streams"] == {stream: {"0": [identity, 1]}}
    assert query.reader.reportLatestOffset()["streams"] == {stream: {"0": [identity, 3]}}


def test_a_query_lives_through_restarts_of_the_broker(own_tap_broker: TapBroker, name: str) -> None:
    own_tap_broker.declare_stream(name)
    own_tap_broker.append(name, [b"a"])
    query = Query(own_tap_broker, subscribe=name, startingoffsets="earliest")
    assert all_of(query.trigger()) == [b"a"]
    own_tap_broker.append(name, [b"b"])
    own_tap_broker.kill()
    own_tap_broker.start()
    assert query.plan()
    own_tap_broker.restart()
    assert all_of(query.run()) == [b"b"]
    query.reader.stop()


def test_a_broker_that_was_set_back_to_a_backup_is_an_error_or_gone_on_with(
    own_tap_broker: TapBroker, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_tap_broker.declare_stream(name)
    own_tap_broker.append(name, [b"a"])
    own_tap_broker.stop()
    shutil.copytree(own_tap_broker.data, tmp_path / "backup")
    own_tap_broker.start()
    own_tap_broker.append(name, [b"b", b"c"])
    query = Query(own_tap_broker, subscribe=name, startingoffsets="earliest")
    assert query.plan()
    own_tap_broker.stop()
    shutil.rmtree(own_tap_broker.data)
    shutil.copytree(tmp_path / "backup", own_tap_broker.data)
    own_tap_broker.start()
    text = f"{name}/0 had records up to 2, and ends with 0 now"
    with pytest.raises(RecordsLost, match=text):
        query.run()
    with pytest.raises(RecordsLost, match=text):
        query.plan()
    query.restart(failondataloss="false")
    with caplog.at_level(logging.WARNING, "triomq.pipeline"):
        assert all_of(query.run()) == [b"a"]
        own_tap_broker.append(name, [b"new"])
        query.plan()
        own_tap_broker.append(name, [b"newer"])
        assert all_of(query.trigger()) == [b"newer"]
    assert text in caplog.text
    query.reader.stop()


def test_what_is_for_batches_is_refused(tap_broker: TapBroker, open_query: Queries, stream: str) -> None:
    with pytest.raises(ConfigError, match=r"endingOffsets is for spark\.read: a stream does not end"):
        open_query(subscribe=stream, endingoffsets="latest")
    with pytest.raises(ConfigError, match=r"endingTimestamp is for spark\.read"):
        open_query(subscribe=stream, endingtimestamp="0")
