"""More of what jobs can do: streams, groups, progress, sub-jobs, middleware; all in one program."""

from collections.abc import AsyncIterator

import msgspec
import trio

from triomq import open_broker
from triomq.jobs import Jobs, Middleware, RunningJob, current_job, gather


class Count(Middleware):
    """Counts what has ended well."""

    def __init__(self) -> None:
        self.done = 0

    def after(self, job: RunningJob) -> None:
        self.done += 1


count = Count()
jobs = Jobs(middleware=[count])


class Order(msgspec.Struct):
    number: int
    customer: str
    items: dict[str, int]


@jobs.job(queue="shop")
async def price(item: str, amount: int) -> int:
    """Return what some items cost."""
    await trio.sleep(0.01)
    return amount * len(item)


@jobs.job(queue="shop")
async def bill(order: Order) -> str:
    """Ask for all prices at once: these jobs are children of this one, and are cancelled with it."""
    prices = await gather(await price.map(order.items.keys(), order.items.values()))
    return f"{order.customer} owes {sum(prices)} for order {order.number}"


@jobs.job(queue="shop")
async def pack(items: list[str]) -> None:
    """Report how far it is."""
    for number, _ in enumerate(items, 1):
        await trio.sleep(0.01)
        current_job().progress(f"{number} of {len(items)}")


@jobs.job(queue="shop")
async def catalogue(most: int) -> AsyncIterator[str]:
    """Yield items, as fast as they are read."""
    for number in range(most):
        yield f"item {number}"


async def main() -> None:
    async with open_broker() as broker, jobs.connect(broker), jobs.work(broker):
        print(await bill.call(Order(1, "Ada", {"pen": 3, "paper": 1})))

        job = await pack.send(["pen", "paper", "string"])
        seen = [value async for value in job.progress(str)]
        print(seen[-1])

        async with catalogue.stream(1_000_000) as items:  # leaving the block ends the job
            async for item in items:
                if item.endswith("7"):
                    print(item)
                    break
    print(count.done, "jobs done")


if __name__ == "__main__":
    trio.run(main)
