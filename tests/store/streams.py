"""Small streams to try things on."""

from triomq.chunks import RecordRun, encode_chunk, read_chunk_head
from triomq.store import ChunkAppended, ChunksRead, QueueDeclared, Reader

STREAM = 7
DECLARE = QueueDeclared(STREAM, b"stream", b"options")
ALL = 1 << 40


def chunk(first: int, count: int = 1, size: int = 5) -> bytes:
    """Return a chunk whose records were appended at the time of its first offset."""
    values = [b"%d" % offset + bytes(size) for offset in range(first, first + count)]
    return encode_chunk(first, first, [RecordRun(0, b"orders", b"key", b"", values)])


def append(first: int, count: int = 1, size: int = 5, stream: int = STREAM) -> ChunkAppended:
    return ChunkAppended(queue=stream, first=first, count=count, time=first, body=chunk(first, count, size))


def read(reader: Reader, first: int = 0, stop: int = ALL, max_bytes: int = ALL, since: int = 0) -> ChunksRead:
    return reader.read_chunks(STREAM, first, stop, max_bytes, since)


def spans(found: ChunksRead) -> list[tuple[int, int]]:
    """Return the first offset of each chunk, and how many records it has."""
    heads = map(read_chunk_head, found.chunks)
    return [(head.first, head.count) for head in heads]
