from hypothesis import given
from tests.chunks.runs import records_of, rows_of_chunks

from triomq.chunks import Columns, RecordRun, encode_chunk, merge_chunks


@given(rows_of_chunks())
def test_columns_have_what_records_have(chunks: list[bytes]) -> None:
    chunk = merge_chunks(chunks)
    columns, records = Columns(chunk), records_of(chunk)
    assert columns.values.each() == [record.value for record in records]
    assert columns.keys().each() == [record.key for record in records]
    assert columns.properties().each() == [record.properties for record in records]
    assert list(columns.times()) == [record.time for record in records]
    assert sum(columns.run_counts) == len(records)


def test_values_are_not_copied() -> None:
    chunk = encode_chunk(0, 0, [RecordRun(0, b"", b"", b"", [b"a", b"bc"])])
    values = Columns(chunk).values
    assert isinstance(values.data, memoryview)
    assert values.data.obj is chunk
    assert (bytes(values.data), list(values.lengths)) == (b"abc", [1, 2])


def test_runs_come_with_one_key_for_all_where_they_share_it() -> None:
    alike = RecordRun(1, b"orders", b"key", b"shared", [b"value"] * 10, mark=3)
    own = RecordRun(1, b"orders", [b"a", b"b"], [b"x", b"y"], [b"1", b"2"])
    chunk = merge_chunks([encode_chunk(0, 5, [alike]), encode_chunk(10, 6, [own])])
    assert list(Columns(chunk).runs()) == [(5, alike), (6, own)]
