"""Chunks to batches of Arrow; what is in them is what the records have one by one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from triomq.chunks import Columns, RecordRun, check_chunk, encode_chunk
from triomq.errors import WrongSchema
from triomq.pipeline import columns as columns_module
from triomq.pipeline.columns import RecordBatches
from triomq.pipeline.options import read_options
from triomq.pipeline.source_options import SparkSourceOptions
from triomq.pipeline.source_schema import check_source_schema, source_schema
from triomq.properties import Properties, encode_core
from triomq.protocols import BasicProperties, encode_properties

TIME = 1_700_000_000_000_000
"""In microseconds since 1970."""


def options(**given: str) -> SparkSourceOptions:
    return read_options(SparkSourceOptions, {"address": "localhost", "subscribe": "orders", **given})


def batches(*chunks: bytes, **given: str) -> list[pa.RecordBatch]:
    return list(RecordBatches("orders", 3, options(**given)).of(Columns(chunk) for chunk in chunks))


def rows(*chunks: bytes, **given: str) -> list[dict[str, Any]]:
    return [row for batch in batches(*chunks, **given) for row in checked(batch).to_pylist()]


def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return batch


def chunk(*runs: RecordRun, first: int = 0, time: int = TIME) -> bytes:
    encoded = encode_chunk(first, time, runs)
    check_chunk(encoded)
    return encoded


def run(values: Sequence[bytes], **more: Any) -> RecordRun:
    given = {"codec": 0, "sink": b"", "key": b"k", "properties": b"", **more}
    return RecordRun(values=values, **given)


RUNS = st.lists(
    st.tuples(
        st.sampled_from([b"", b"orders", b"\xc3\xa9"]),
        st.lists(
            st.tuples(st.binary(max_size=3), st.sampled_from([b"a", b"bb", b"\xc3\xa9"])), min_size=1, max_size=12
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@given(st.lists(RUNS, min_size=1, max_size=4))
def test_batches_have_what_the_records_have_one_by_one(given: list[list[tuple[bytes, Any, bool]]]) -> None:
    chunks: list[bytes] = []
    first = 5
    for runs in given:
        made = [
            run(
                [value for value, _ in records], sink=sink, key=records[0][1] if shared else [key for _, key in records]
            )
            for sink, records, shared in runs
        ]
        chunks.append(chunk(*made, first=first, time=TIME + first))
        first = Columns(chunks[-1]).head.stop
    expected = [record for each in chunks for record in Columns(each).records()]
    found = rows(*chunks)
    assert [(row["offset"], row["key"], row["value"], row["routing_key"], row["exchange"]) for row in found] == [
        (each.offset, each.key, each.value, each.key.decode(), each.sink.decode()) for each in expected
    ]
    assert [row["timestamp"] for row in found] == [
        datetime.fromtimestamp(each.time // 1_000_000, UTC).replace(microsecond=each.time % 1_000_000)
        for each in expected
    ]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("orders", 3, 1)}


def test_batches_have_the_types_that_spark_expects() -> None:
    given = {"includeheaders": "true", "includeproperties": "true"}
    (batch,) = batches(chunk(run([b"x"])), **given)
    assert batch.schema == to_arrow_schema(source_schema(options(**given)), timezone="UTC")


def test_small_chunks_become_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "BATCH_RECORDS", 5)
    made = batches(*(chunk(run([b"x", b"y"]), first=first) for first in range(0, 12, 2)))
    assert [batch.num_rows for batch in made] == [4, 4, 4]


def test_large_chunks_are_batches_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "BATCH_BYTES", 5)
    made = batches(*(chunk(run([b"xxxx", b"yyyy"]), first=first) for first in (0, 2)))
    assert [batch.num_rows for batch in made] == [2, 2]


def test_values_of_a_large_chunk_are_not_copied() -> None:
    data = chunk(run([b"x" * 1000, b"y" * 1000]))
    (batch,) = batches(data)
    values = batch.column("value").buffers()[2]
    assert values.address == pa.py_buffer(data).address + data.index(b"x" * 1000)


def test_a_gap_between_chunks_stays_in_the_offsets() -> None:
    found = rows(chunk(run([b"a", b"b"]), first=7), chunk(run([b"c"]), first=20))
    assert [row["offset"] for row in found] == [7, 8, 20]


def test_keys_that_are_no_text_are_there_as_bytes() -> None:
    (row, other) = rows(chunk(run([b"x", b"y"], key=[b"\xff", b"fine"], sink=b"\xfe")))
    assert (row["key"], row["routing_key"], row["exchange"]) == (b"\xff", "\ufffd", "\ufffd")
    assert (other["key"], other["routing_key"]) == (b"fine", "fine")


def test_nothing_is_decoded_without_an_option() -> None:
    (row,) = rows(chunk(run([b"x"], properties=b"this cannot be decoded", codec=1)))
    assert "headers" not in row
    assert "properties" not in row


def test_headers_are_as_kafka_has_them() -> None:
    given = {"text": "\xe9", "bytes": b"\xff", "none": None, "number": 7, "list": [1, b"ab", {"deep": True}]}
    core = encode_core(Properties(headers=given))
    amqp = encode_properties(BasicProperties(headers={"text": "x", "number": 2}))
    found = rows(
        chunk(run([b"x"], properties=core), run([b"y"], properties=amqp, codec=1), run([b"z"])), includeheaders="true"
    )
    assert [(each["key"], each["value"]) for each in found[0]["headers"]] == [
        ("text", "\xe9".encode()),
        ("bytes", b"\xff"),
        ("none", None),
        ("number", b"7"),
        ("list", b'[1,"YWI=",{"deep":true}]'),
    ]
    assert [(each["key"], each["value"]) for each in found[1]["headers"]] == [("text", b"x"), ("number", b"2")]
    assert found[2]["headers"] is None


def test_properties_are_a_struct() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
    core = encode_core(Properties(type="order", priority=3, timestamp=moment, user_id="ada"))
    amqp = encode_properties(BasicProperties(message_id="\udcff", timestamp=int(moment.timestamp()), delivery_mode=2))
    late = encode_properties(BasicProperties(timestamp=2**63))
    found = [
        row["properties"]
        for row in rows(
            chunk(
                run([b"x"] * 9, properties=core),
                run([b"y", b"z"], properties=[amqp, late], codec=1),
                run([b"e"], properties=b"a wire's own", codec=2),
            ),
            includeproperties="true",
        )
    ]
    assert [each["type"] for each in found] == ["order"] * 9 + [None] * 3
    assert (found[0]["priority"], found[0]["timestamp"], found[0]["user_id"]) == (3, moment, "ada")
    assert (found[9]["message_id"], found[9]["timestamp"]) == ("\ufffd", moment.replace(microsecond=0))
    assert set(found[10].values()) == set(found[11].values()) == {None}


@pytest.mark.parametrize("more", [{}, {"includeheaders": "true", "includeproperties": "true"}])
def test_another_schema_is_refused_with_the_columns_that_there_are(more: dict[str, str]) -> None:
    there = source_schema(options(**more))
    check_source_schema(there, options(**more))
    with pytest.raises(
        WrongSchema, match=r"has the columns value binary; the source has key binary, value binary, topic"
    ):
        check_source_schema(StructType([there["value"]]), options(**more))


def test_large_properties_that_records_share_make_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "_PROPERTIES_BYTES", 3000)
    shared = encode_core(Properties(headers={"h": b"x" * 1000}))
    data = chunk(run([b"0", b"1", b"2"], properties=shared), run([b"3", b"4"]))
    found = batches(data, includeheaders="true")
    assert [len(batch) for batch in found] == [2, 2, 1]
    assert [row["offset"] for batch in found for row in checked(batch).to_pylist()] == [0, 1, 2, 3, 4]
    assert [row["headers"] is None for batch in found for row in batch.to_pylist()] == [False] * 3 + [True] * 2
    assert [len(batch) for batch in batches(data)] == [5]
