"""A pack of processes that hunts down pictures: thumbnails of all of them, with their progress, and one that is broken.

Whoever is free takes the next picture. A process that is killed, or hangs, costs the one picture that it had in hand.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from thumbnails import jobs, shrink, write_png

from triomq import open_broker
from triomq.errors import JobFailed
from triomq.jobs import Job


def draw(folder: Path, number: int, side: int = 96) -> Path:
    """Draw rings around a corner."""
    rows = [
        bytes((x * x + y * y) * colour // (60 + 20 * number) % 256 for x in range(side) for colour in (1, 2, 3))
        for y in range(side)
    ]
    path = folder / f"{number}.png"
    path.write_bytes(write_png(side, rows))
    return path


async def watch(job: Job[int], picture: Path) -> None:
    """Show how far a picture is, until it is done or has failed."""
    rows = 0
    async for value in job.progress(dict[str, int]):
        rows = value["rows"]
    try:
        print(f"{picture.name}: {rows} rows, {await job.result()} bytes")
    except JobFailed as error:
        print(f"{picture.name}: {error.args[0].splitlines()[0]}")


async def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        pictures = [draw(folder, number) for number in range(6)]
        pictures[3].write_bytes(b"a text")
        async with (
            open_broker() as broker,
            jobs.connect(broker),
            jobs.work(broker, processes=2),
            trio.open_nursery() as nursery,
        ):
            thumbnails = [picture.with_suffix(".small.png") for picture in pictures]
            for picture, job in zip(pictures, await shrink.map(pictures, thumbnails, factor=4), strict=True):
                nursery.start_soon(watch, job, picture)


if __name__ == "__main__":
    trio.run(main)
