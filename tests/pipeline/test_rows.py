"""Rows of Arrow to chunks; what is in the chunks is read as a broker reads it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.chunks import Columns, check_chunk
from triomq.errors import ConfigError
from triomq.pipeline import rows as rows_module
from triomq.pipeline.row_plan import RowPlan, RowTarget
from triomq.pipeline.rows import encode_rows
from triomq.properties import Properties, decode_core

Record = tuple[str, bytes, Properties, bytes]
"""Target, key, properties and value."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def plan(
    target: str | None = "orders", *, is_sink: bool = False, key: str | None = None, columns: Sequence[str] = ()
) -> RowPlan:
    return RowPlan(
        target=target,
        target_column="" if target is not None else "exchange" if is_sink else "topic",
        is_sink=is_sink,
        key=key,
        key_column=next((name for name in ("routing_key", "key") if name in columns), ""),
        has_headers="headers" in columns,
        has_properties="properties" in columns,
    )


def encoded(batch: pa.RecordBatch, how: RowPlan) -> list[Record]:
    found: list[Record] = []
    for target, chunk in encode_rows(batch, how):
        check_chunk(chunk)
        found += [
            (target.name, each.key, decode_core(each.properties), each.value) for each in Columns(chunk).records()
        ]
    return found


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


ROWS = st.lists(
    st.tuples(
        st.binary(max_size=20),
        st.none() | st.binary(max_size=3),
        st.sampled_from(["a", "b", "c"]),
        st.none() | st.lists(st.tuples(st.sampled_from(["x", "y"]), st.none() | st.binary(max_size=2)), max_size=3),
        st.none() | st.tuples(st.none() | st.sampled_from(["json", "xml"]), st.none() | st.integers(0, 255)),
    ),
    min_size=1,
    max_size=30,
)


def text_of(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


@given(ROWS, st.integers(0, 5), st.booleans())
def test_every_row_becomes_the_record_that_it_is(rows: list[Any], skipped: int, large: bool) -> None:
    values, keys, topics, headers, properties = (list(each) for each in zip(*rows, strict=True))
    binary = pa.large_binary() if large else pa.binary()
    whole = batch_of(
        value=pa.array(values, binary),
        key=pa.array(keys, binary),
        topic=pa.array(topics, pa.large_string() if large else pa.string()),
        headers=pa.array(
            [None if each is None else [{"key": name, "value": value} for name, value in each] for each in headers],
            HEADERS,
        ),
        properties=pa.array(
            [None if each is None else {"content_type": each[0], "priority": each[1]} for each in properties],
            pa.struct([("content_type", pa.string()), ("priority", pa.int32())]),
        ),
    )
    expected = [
        (
            topic,
            topic.encode() if key is None else key,
            Properties(
                headers={name: text_of(value) for name, value in own} if own else None,
                content_type=fields[0] if fields else None,
                priority=fields[1] if fields else None,
            ),
            value,
        )
        for value, key, topic, own, fields in rows[skipped:]
    ]
    found = encoded(whole.slice(skipped), plan(None, columns=["key", "headers", "properties"]))
    assert sorted(found, key=lambda each: each[0]) == sorted(expected, key=lambda each: each[0])  # stable


def test_texts_are_written_as_utf_8() -> None:
    batch = batch_of(value=pa.array(["ü", "b"]), key=pa.array(["é", "é"]))
    assert encoded(batch, plan(columns=["key"])) == [
        ("orders", "é".encode(), Properties(), "ü".encode()),
        ("orders", "é".encode(), Properties(), b"b"),
    ]


def test_what_all_rows_have_is_in_a_chunk_once() -> None:
    count = 100
    batch = batch_of(
        value=pa.array([b"v"] * count),
        key=pa.array(["same key"] * count),
        headers=pa.array([[{"key": "colour", "value": b"blue"}]] * count, HEADERS),
    )
    [(_, chunk)] = encode_rows(batch, plan(columns=["key", "headers"]))
    assert chunk.count(b"same key") == chunk.count(b"colour") == 1


def test_key_of_a_row_without_one_is_the_name_of_its_queue_and_nothing_at_an_exchange() -> None:
    batch = batch_of(value=pa.array([b"1", b"2"]), key=pa.array(["k", None]))
    assert [each[1] for each in encoded(batch, plan(columns=["key"]))] == [b"k", b"orders"]
    assert [each[1] for each in encoded(batch, plan(is_sink=True, columns=["key"]))] == [b"k", b""]
    assert [each[1] for each in encoded(batch, plan())] == [b"orders", b"orders"]
    assert [each[1] for each in encoded(batch, plan(is_sink=True))] == [b"", b""]
    assert [each[1] for each in encoded(batch, plan(is_sink=True, key="audit"))] == [b"audit", b"audit"]


def test_target_is_a_sink_or_a_queue_and_says_so() -> None:
    batch = batch_of(value=pa.array([b"1"]), exchange=pa.array(["letters"]))
    [(target, _)] = encode_rows(batch, plan(None, is_sink=True))
    assert target == RowTarget("letters", is_sink=True)
    assert (str(target), str(RowTarget("a"))) == ("exchange 'letters'", "stream or queue 'a'")


def test_every_field_of_properties_is_passed_on() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    given = Properties(
        content_type="a",
        content_encoding="b",
        priority=3,
        correlation_id="d",
        reply_to="e",
        expiration=1.5,
        message_id="f",
        timestamp=when,
        type="g",
        user_id="h",
        app_id="i",
    )
    names = [name for name in given.__struct_fields__ if name not in ("headers", "persistent")]
    struct = pa.array([{name: getattr(given, name) for name in names}])
    assert pa.types.is_timestamp(struct.type.field("timestamp").type)
    batch = batch_of(value=pa.array([b"1"]), properties=struct)
    assert encoded(batch, plan(columns=["properties"])) == [("orders", b"orders", given, b"1")]


def test_chunk_ends_before_a_column_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "CHUNK_BYTES", 10)
    values = [b"1" * 6, b"2" * 4, b"3" * 25, b"4", b"", b"5"]
    chunks = [chunk for _, chunk in encode_rows(batch_of(value=pa.array(values)), plan())]
    assert [[each.value for each in Columns(chunk).records()] for chunk in chunks] == [
        values[:2],
        values[2:3],
        values[3:],
    ]
    monkeypatch.setattr(rows_module, "_MOST_RECORDS", 4)
    assert len(list(encode_rows(batch_of(value=pa.array([b""] * 9)), plan()))) == 3


def test_no_rows_are_no_chunks() -> None:
    assert not list(encode_rows(batch_of(value=pa.array([], pa.binary())), plan()))


@pytest.mark.parametrize(
    ("columns", "how", "text"),
    [
        ({"value": pa.array([b"1", None])}, plan(), "1 of 2 rows have a value that is null"),
        ({"value": pa.array(["1"]), "topic": pa.array([None], pa.string())}, plan(None), "have a topic that is null"),
        ({"value": pa.array(["1"]), "topic": pa.array(["a" * 256])}, plan(None), "a name has 1 to 255 bytes"),
        ({"value": pa.array(["1"]), "topic": pa.array([""])}, plan(None), "a name has 1 to 255 bytes"),
        (
            {"value": pa.array(["1", "2"]), "key": pa.array(["k", "ü" * 128])},
            plan(columns=["key"]),
            "a row has a key of 256 bytes; a key has at most 255: write a hash of it",
        ),
        (
            {"value": pa.array(["1"]), "headers": pa.array([[{"key": None, "value": b"1"}]], HEADERS)},
            plan(columns=["headers"]),
            "a header whose key is null",
        ),
        (
            {"value": pa.array(["1"]), "properties": pa.array([{"priority": 256}])},
            plan(columns=["properties"]),
            "the priority 256; allowed are 0 to 255",
        ),
        (
            {"value": pa.array(["1"]), "properties": pa.array([{"expiration": -1.0}])},
            plan(columns=["properties"]),
            "the expiration -1.0; it is in seconds",
        ),
        (
            {
                "value": pa.array(["1"]),
                "properties": pa.array([{"timestamp": 2**62}], pa.struct([("timestamp", pa.timestamp("us", "UTC"))])),
            },
            plan(columns=["properties"]),
            "years are 1 to 9999",
        ),
    ],
)
def test_row_that_can_be_no_record_is_an_error(columns: dict[str, pa.Array], how: RowPlan, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        list(encode_rows(batch_of(**columns), how))
