"""Jobs on pictures: read a PNG, shrink it, write a PNG; the work is in Python alone, so that it takes a while.

``wolfpack.py`` sends them to a pool of processes.
"""

import zlib
from pathlib import Path
from struct import pack, unpack

from triomq.jobs import Jobs, current_job

jobs = Jobs()

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@jobs.job(queue="pictures", retries=1, timeout=60)
def shrink(picture: Path, thumbnail: Path, factor: int) -> int:
    """Write a smaller picture, each of whose pixels is the mean of a square; return the size of the file in bytes."""
    width, rows = read_png(picture.read_bytes())
    height = len(rows) // factor
    smaller: list[bytes] = []
    for top in range(0, height * factor, factor):
        smaller.append(_mean_row(rows[top : top + factor], width, factor))
        current_job().progress({"rows": len(smaller), "of": height})
    content = write_png(width // factor, smaller)
    thumbnail.write_bytes(content)
    return len(content)


def _mean_row(rows: list[bytes], width: int, factor: int) -> bytes:
    """Return a row of means, three bytes for each pixel."""
    squares = range(0, width // factor * factor, factor)
    return bytes(
        sum(sum(row[3 * left + colour : 3 * (left + factor) + colour : 3]) for row in rows) // factor**2
        for left in squares
        for colour in range(3)
    )


def write_png(width: int, rows: list[bytes]) -> bytes:
    """Return a picture with three bytes for each pixel."""
    header = pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    content = zlib.compress(b"".join(b"\0" + row for row in rows))
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))


def read_png(content: bytes) -> tuple[int, list[bytes]]:
    """Return the width and the rows of a picture that ``write_png`` has made."""
    if not content.startswith(_SIGNATURE):
        raise ValueError("this is no PNG")
    width, height = unpack(">II", content[16:24])
    (length,) = unpack(">I", content[33:37])
    pixels = zlib.decompress(content[41 : 41 + length])
    size = 3 * width + 1
    return width, [pixels[start + 1 : start + size] for start in range(0, height * size, size)]
