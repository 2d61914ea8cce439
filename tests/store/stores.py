"""Small stores to try things on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from triomq.store import BodyRun, MessagesAppended, QueueDeclared, Reader, SqliteStore, encode_body

DECLARE = QueueDeclared(1, b"q", b"options")


def append(first: int, *contents: bytes, queue: int = 1) -> MessagesAppended:
    contents = contents or (b"content",)
    body = encode_body([BodyRun(0, b"head", contents)])
    return MessagesAppended(queue=queue, first=first, count=len(contents), size=sum(map(len, contents)), body=body)


@contextmanager
def opened(directory: Path, *, fresh: bool = True, reserve: int = 0) -> Iterator[SqliteStore]:
    with closing(SqliteStore(directory, fresh=fresh, patience=0, reserve=reserve)) as store:
        yield store


def bodies(reader: Reader, queue: int = 1) -> dict[int, bytes]:
    """Read all segments of a queue: their bodies by the first ids."""
    reading = reader.read(queue, 1, 1 << 40, 1 << 40)
    return {segment.first: segment.body for segment in reading.segments}
