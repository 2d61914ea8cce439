"""The sinks, as Spark calls them, against a broker: what happens when tasks, driver, connection or broker fail."""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ports import free_port
from triomq.clients import TapConnection
from triomq.errors import AccessRefused, ConfigError, Disconnected, LimitExceeded, NotFound, Refused, UnknownStage
from triomq.pipeline import batch_writer as batch_module
from triomq.pipeline.batch_writer import BatchWriter, batch_writer
from triomq.pipeline.stream_writer import StreamWriter, stream_writer

from .threaded import Served, serve

QUERY = "2f2e1c1c-0000-4000-8000-000000000000"


class Context(TaskContext):
    """What Spark tells a task."""

    def __new__(cls, part: int = 0, batch: int = 0) -> "Context":
        return object.__new__(cls)

    def __init__(self, part: int = 0, batch: int = 0) -> None:
        self._partitionId = part
        self._localProperties = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)}


@pytest.fixture(autouse=True)
def _no_context() -> Iterator[None]:
    yield
    TaskContext._taskContext = None


@pytest.fixture
def served() -> Iterator[Served]:
    with serve() as broker:
        yield broker


def schema(*columns: str) -> StructType:
    found = StructType()
    for column in columns or ("value",):
        found.add(column, "string")
    return found


def streaming(served: Served, *columns: str, **options: str) -> StreamWriter:
    """Return a writer as a task or the driver has it: it has come in a pickle."""
    writer = stream_writer(schema(*columns), {**served.options, **options}, overwrite=False)
    return pickle.loads(pickle.dumps(writer))


def batch_of(*columns: str, **options: Any) -> BatchWriter:
    served: Served = options.pop("served")
    return pickle.loads(pickle.dumps(batch_writer(schema(*columns), {**served.options, **options}, overwrite=False)))


def rows(*values: str, **columns: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(values), *(pa.array(each, pa.string()) for each in columns.values())], names=["value", *columns]
    )


def write(writer: StreamWriter | BatchWriter, *batches: pa.RecordBatch, part: int = 0, batch: int = 0) -> Any:
    """Run a task, and return its message as the driver gets it."""
    TaskContext._taskContext = Context(part, batch)
    return pickle.loads(pickle.dumps(writer.write(iter(batches))))


def values(served: Served, stream: str) -> list[bytes]:
    with served.tap() as tap:
        return [
            value
            for partition, bounds in enumerate(tap.offsets(stream))
            for columns in tap.fetch(stream, partition, bounds.first, bounds.next)
            for value in columns.values.each()
        ]


# Micro-batches


def test_batch_is_there_as_a_whole_after_its_commit(served: Served) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    parts = [write(writer, rows("0", "1"), rows("2"), part=0), write(writer, rows("3"), part=1), write(writer, part=2)]
    assert values(served, "out") == []
    writer.commit(parts, 0)
    assert values(served, "out") == [b"0", b"1", b"2", b"3"]


def test_batch_that_is_run_again_is_passed_over(served: Served) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    writer.commit([write(writer, rows("0"), batch=7)], 7)
    writer.commit([write(writer, rows("0"), batch=7)], 7)
    writer.commit([write(writer, rows("1"), batch=8)], 8)
    assert values(served, "out") == [b"0", b"1"]


def test_task_that_runs_twice_counts_once(served: Served) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    write(writer, rows("0", "1"))
    second = write(writer, rows("0", "1"))
    writer.commit([second], 0)
    assert values(served, "out") == [b"0", b"1"]


def test_task_that_fails_leaves_nothing_staged(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, "value", "topic")
    aborted: list[str] = []
    abort = TapConnection.abort

    def aborting(self: TapConnection, target: str, *args: Any, **options: Any) -> None:
        abort(self, target, *args, **options)
        aborted.append(target)

    monkeypatch.setattr(TapConnection, "abort", aborting)
    with pytest.raises(ConfigError, match="a topic that is null"):
        write(writer, rows("0", topic=["out"]), rows("1", topic=[None]))
    assert aborted == ["out"]


def test_targets_of_one_batch_are_committed_each_once(served: Served) -> None:
    served.broker.declare_stream("first")
    served.broker.declare_queue("second", max_length=1, overflow="reject-publish")
    writer = streaming(served, "value", "topic")
    given = rows("0", "1", "2", topic=["first", "second", "second"])
    with pytest.raises(Refused, match="'second'") as refused:
        writer.commit([write(writer, given)], 0)
    assert refused.value.__notes__ == [
        "batch 0 is not committed into stream or queue 'second'; nothing of it was published there; mend that and run "
        "it again"
    ]
    assert values(served, "first") == [b"0"]
    served.broker.queue("second").delete()
    served.broker.declare_queue("second")
    writer.commit([write(writer, given)], 0)
    assert values(served, "first") == [b"0"]
    assert served.broker.queue("second").statistics().ready == 2


def test_exchange_and_routing_keys_say_where_rows_go(served: Served) -> None:
    served.broker.declare_stream("a")
    served.broker.declare_stream("b")
    writer = streaming(served, "value", "routing_key", exchange="")
    writer.commit([write(writer, rows("0", "1", "2", routing_key=["a", "b", "a"]))], 0)
    assert (values(served, "a"), values(served, "b")) == ([b"0", b"2"], [b"1"])


def test_commit_whose_answer_is_lost_is_sent_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    part = write(writer, rows("0"))
    commit = TapConnection.commit
    lost = [True, True]

    def losing(self: TapConnection, *args: Any, **options: Any) -> None:
        commit(self, *args, **options)
        if lost:
            lost.pop()
            raise Disconnected("the answer is lost")

    monkeypatch.setattr(TapConnection, "commit", losing)
    writer.commit([part], 0)
    assert not lost
    assert values(served, "out") == [b"0"]


def test_part_is_staged_again_when_the_connection_is_lost(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    stage = TapConnection.stage
    attempts: list[int] = []

    def losing(self: TapConnection, *args: Any, **options: Any) -> None:
        stage(self, *args, **options)
        attempts.append(options["attempt"])
        if len(attempts) == 2:
            self.close()
            raise Disconnected("the answer is lost")

    monkeypatch.setattr(TapConnection, "stage", losing)
    writer.commit([write(writer, rows("0"), rows("1"), rows("2"))], 0)
    assert values(served, "out") == [b"0", b"1", b"2"]
    assert len(attempts) == 5
    assert len(set(attempts)) == 2


def test_stages_that_a_restart_has_taken_are_an_error_that_says_to_start_the_query_again() -> None:
    with serve() as served:
        writer = streaming(served, topic="out")
        served.broker.declare_stream("out")
        part = write(writer, rows("0"))
        port = served.port
    with serve(port=port) as served:
        served.broker.declare_stream("out")
        with pytest.raises(UnknownStage) as lost:
            writer.commit([part], 0)
        assert "Start the query again: Spark writes this batch once more" in lost.value.__notes__[0]
        writer.commit([write(writer, rows("0"))], 0)
        assert values(served, "out") == [b"0"]


def test_broker_that_is_gone_is_an_error_that_names_it(served: Served) -> None:
    port = free_port()
    writer = streaming(served, topic="out", retries="0", address=f"127.0.0.1:{port}")
    with pytest.raises(Disconnected, match=f":{port}"):
        write(writer, rows("0"))
    writer.abort([None], 0)


def test_abort_drops_what_is_staged(served: Served) -> None:
    served.broker.declare_stream("out")
    writer = streaming(served, topic="out")
    part = write(writer, rows("0"))
    writer.abort([part, None], 0)
    with pytest.raises(UnknownStage):
        writer.commit([part], 0)


def test_abort_waits_for_no_broker_that_is_gone() -> None:
    with serve() as served:
        served.broker.declare_stream("out")
        writer = streaming(served, topic="out", retrybackoffms="600000")
        part = write(writer, rows("0"))
    writer.abort([part], 0)


def test_target_that_is_not_there_is_an_error_that_names_it(served: Served) -> None:
    with pytest.raises(NotFound, match="'nowhere'") as missing:
        write(streaming(served, topic="nowhere"), rows("0"))
    assert "rows for stream or queue 'nowhere' are not staged; declare it before" in missing.value.__notes__[0]


def test_batch_that_is_too_large_is_an_error_that_says_what_to_do() -> None:
    with serve(max_batch=100_000) as served:
        served.broker.declare_stream("out")
        with pytest.raises(Refused, match="a batch may have 100000") as large:
            write(streaming(served, topic="out"), rows(*["0" * 60_000] * 2))
        assert "set the option maxOffsetsPerTrigger or maxBytesPerTrigger of the source." in large.value.__notes__[0]
        assert "for it raise max_batch of the broker's tap endpoint" in large.value.__notes__[0]


def test_row_that_is_too_large_is_an_error_that_names_the_setting(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.broker.declare_stream("out")
    monkeypatch.setattr(TapConnection, "largest_chunk", 1000)
    with pytest.raises(LimitExceeded, match=r"too large to stage: the broker at .* takes 1000") as large:
        write(streaming(served, topic="out"), rows("0" * 2000))
    assert "raise max_frame of its tap endpoint" in large.value.__notes__[0]


@pytest.mark.parametrize(
    ("options", "overwrite", "text"),
    [
        ({"topic": "out"}, True, "output mode complete: what was published is not replaced"),
        ({"topic": "out", "batchKey": "a"}, False, "option batchKey is for df.write"),
    ],
)
def test_query_that_cannot_be_written_is_an_error(options: Mapping[str, str], overwrite: bool, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        stream_writer(schema(), {"address": "localhost", **options}, overwrite=overwrite)


def test_options_of_spark_itself_are_passed_over() -> None:
    stream_writer(schema(), {"address": "a", "topic": "b", "checkpointlocation": "/tmp"}, overwrite=False)


# DataFrames


def test_rows_of_tasks_are_all_there_without_a_key(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.broker.declare_stream("out")
    monkeypatch.setattr(batch_module, "_AT_ONCE", 200)
    writer = batch_of(served=served, topic="out")
    messages = [write(writer, *[rows(f"{part}{n}") for n in range(5)], part=part) for part in range(3)]
    assert all(type(each) is WriterCommitMessage for each in messages)
    writer.commit(messages)
    assert sorted(values(served, "out")) == [b"%d%d" % (part, n) for part in range(3) for n in range(5)]


def test_rows_are_published_at_least_once_when_the_answer_is_lost(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.broker.declare_stream("out")
    commit = TapConnection.commit
    lost = [True]

    def losing(self: TapConnection, *args: Any, **options: Any) -> None:
        commit(self, *args, **options)
        if lost:
            lost.pop()
            raise Disconnected("the answer is lost")

    monkeypatch.setattr(TapConnection, "commit", losing)
    write(batch_of(served=served, topic="out"), rows("0"))
    assert values(served, "out") == [b"0", b"0"]


def test_batch_with_a_key_is_there_once_as_a_whole(served: Served) -> None:
    served.broker.declare_stream("out")
    for number in (0, 0, 5, 3):
        writer = batch_of(served=served, topic="out", batchKey="nightly", batchNumber=str(number))
        parts = [write(writer, rows(f"{number}a"), part=0), write(writer, rows(f"{number}b"), part=1)]
        writer.commit(parts)
    assert values(served, "out") == [b"0a", b"0b", b"5a", b"5b"]
    writer = batch_of(served=served, topic="out", batchKey="other")
    writer.abort([write(writer, rows("aborted")), None])
    assert len(values(served, "out")) == 4


def test_overwriting_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r'write with mode\("append"\)'):
        batch_writer(schema(), {"address": "a", "topic": "b"}, overwrite=True)


def test_user_without_the_right_is_refused(served: Served) -> None:
    writer = batch_of(served=served, topic="out", user="nobody", password="wrong")
    with pytest.raises(AccessRefused):
        write(writer, rows("0"))
