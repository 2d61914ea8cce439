"""Records of a stream in columns: the same bytes in memory, on disk and on a wire.

Start with ``triomq.chunks.layout``, which has the table of the format.
"""

from triomq.chunks.column import Column
from triomq.chunks.columns import Columns, StreamRecord
from triomq.chunks.encoding import RecordRun, encode_chunk, encode_columns
from triomq.chunks.layout import (
    CHUNK_HEAD_SIZE,
    ChunkHead,
    RunHead,
    check_chunk,
    read_chunk_head,
    split_chunks,
)
from triomq.chunks.rewriting import MovableChunk, cut_chunk, merge_chunks, relabel_chunk

__all__ = [  # noqa: RUF022  # grouped for the reader
    # writing
    "RecordRun",
    "encode_chunk",
    "encode_columns",
    # looking at
    "CHUNK_HEAD_SIZE",
    "ChunkHead",
    "RunHead",
    "check_chunk",
    "read_chunk_head",
    "split_chunks",
    # rewriting
    "MovableChunk",
    "cut_chunk",
    "merge_chunks",
    "relabel_chunk",
    # reading
    "Column",
    "Columns",
    "StreamRecord",
]
