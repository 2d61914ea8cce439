"""What programs do with several jobs at once: wait for all, take them as they end, have one's result go to the next.

These are plain functions over handles. A group is a list of them; a chain is two awaits in a row, and ``chain`` says so
shorter. They run where their caller is: what is to go on without the caller belongs into a job, whose children the
others are then.

    async with jobs.connect(…):
        sizes = await gather(await thumbnail.map(files))
        report = await chain(fetch.send(url), parse, store)
"""

from typing import TypeVar

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
