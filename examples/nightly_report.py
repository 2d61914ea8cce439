"""A report every night at half past two, by Oslo's clocks: a cron job, rehearsed for three nights in virtual time.

In virtual time the clock jumps whenever all tasks wait, so that three days take a few milliseconds. For real, run
``triomq worker nightly_report:jobs`` beside a broker with ``--data``: schedules are the broker's, and outlast it.
"""

import trio
import trio.testing

from triomq import open_broker
from triomq.jobs import Jobs, current_job

jobs = Jobs()
orders: list[int] = []  # a database, in a program that lasts


@jobs.job(queue="orders")
async def take_order(amount: int) -> None:
    orders.append(amount)


@jobs.cron("30 2 * * *", timezone="Europe/Oslo", queue="reports", retries=5, backoff=(60, 3600))
async def report() -> None:
    """Sum up the orders since the last report; the first attempt of each night finds the database locked."""
    if current_job().attempt == 1:
        raise BlockingIOError("the database is being copied")
    await trio.sleep(600)  # it asks many tables
    print(f"{clock()}: {len(orders)} orders of {sum(orders)} kroner")
    orders.clear()


def clock() -> str:
    """Return the time of the rehearsal, which begins at midnight, UTC, and thus at one in Oslo."""
    minutes = int(trio.current_time() - began) // 60 + 60
    return f"day {minutes // 1440 + 1}, {minutes // 60 % 24:02}h"


async def main() -> None:
    global began
    began = trio.current_time()
    async with open_broker() as broker, jobs.connect(broker), jobs.work(broker):
        for hour in range(72):
            if 8 <= hour % 24 < 18:
                await take_order.send(100 + hour)
            await trio.sleep(3600)


began = 0.0

if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
