"""A broker, publishers and a Spark driver, of which one after the other is killed; and what has to hold in the end.

    publishers ── AMQP, confirms ──▶ stream orders ─┬─ query ─▶ Parquet files
                                     (broker)       └─ query ─▶ stream results (broker)

The truth is the stream ``orders`` itself: each record that was confirmed is in it, and what is in it has to be in the
files and in ``results``, each record once. A record that was not confirmed may be in it or not; publishers never send
it again.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trio

from triomq.clients import open_amqp
from triomq.errors import TriomqError

from ..broker import TapBroker
from ..processes import Family, kill
from .driver import BATCH, PARQUET, STREAM

PUBLISHERS = 2
RUN = 50
"""Records that a publisher sends before it waits for their confirms."""

PACE = 0.03
"""Seconds from one run to the next, so that Spark can follow: some three thousand records a second in all."""

LEAD = 60_000
"""Records that publishers may be ahead of the queries: they go on for a while when nothing reads, and what is left to
read in the end does not depend on how busy the machine is."""

LONGEST = 400.0
"""Seconds for anything that is waited for; a session takes ten, and machines are busy at times."""


class Pipeline:
    """All of it; made, and ended, by ``open_pipeline``.

    Args:
        place: A directory for data, checkpoints and logs.
        chance: What decides when to kill whom.
    """

    def __init__(self, place: Path, chance: random.Random) -> None:
        self.broker = TapBroker(place / "data")
        self.confirmed: set[bytes] = set()
        self.batches = 0  # that drivers have done
        self.last_batch = dict.fromkeys((PARQUET, STREAM), 0)  # of each query
        self.failures = 0  # of queries, which were started again
        self.kills: Counter[str] = Counter()
        self.problems: list[str] = []
        self._place = place
        self._chance = chance
        self._driver: Family | None = None
        self._stopping = False
        self._changed = trio.Event()
        self._broker_runs = trio.Event()

    # Publishers

    async def publish(self, publisher: int) -> None:
        """Publish, with confirms, until it is time to stop."""
        number = 0
        while not self._stopping:
            await self._broker_runs.wait()
            try:
                async with open_amqp(self.broker.amqp_url) as connection, connection.open_channel() as channel:
                    while not self._stopping:
                        if self._is_far_ahead:
                            await trio.sleep(PACE)
                            continue
                        values = [b"%d.%d" % (publisher, number + index) for index in range(RUN)]
                        number += RUN  # whatever comes of them
                        async with channel.open_pipeline(limit=RUN) as pipeline:
                            for value in values:
                                await pipeline.publish("orders", value.decode(), value)
                        self.confirmed.update(values)
                        await trio.sleep(PACE)
            except TriomqError:
                pass  # it was killed

    @property
    def _is_far_ahead(self) -> bool:
        """Whether publishers are to wait; queries that have much to read read as much as they may in each batch."""
        return len(self.confirmed) > LEAD + BATCH * min(self.last_batch.values())

    # The driver

    async def start_driver(self, nursery: trio.Nursery) -> None:
        """Start the driver, or the next one."""
        command = ["-W", "ignore", "-m", "pipeline.kills.driver", self.broker.url, str(self._place)]
        self._driver = Family(command, self._place / "driver.log")
        nursery.start_soon(self._listen, self._driver)

    async def _listen(self, driver: Family) -> None:
        while line := await trio.to_thread.run_sync(driver.read_line):
            word, name, *number = line.split()
            if word == "batch":
                self.batches += 1
                self.last_batch[name] = int(*number)
            else:
                self.failures += 1
            self._change()
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(LONGEST):
            while not condition():
                assert self._driver is not None
                assert self._driver.process.poll() is None, (
                    f"the driver has ended: {self._driver.log.read_text()[-3000:]}"
                )
                await self._changed.wait()

    # Kills

    async def kill_one(self, victim: str, nursery: trio.Nursery) -> None:
        """Kill one of them some time after the next batch, and start it again."""
        wanted = self.batches + self._chance.randint(1, 4)
        await self._wait_for(lambda: self.batches >= wanted)
        await trio.sleep(self._chance.uniform(0, 0.5))
        await {"driver": self._kill_driver, "worker": self._kill_worker, "broker": self._kill_broker}[victim](nursery)
        self.kills[victim] += 1

    async def _kill_driver(self, nursery: trio.Nursery) -> None:
        assert self._driver is not None
        await trio.to_thread.run_sync(self._driver.kill)
        await self.start_driver(nursery)

    async def _kill_worker(self, nursery: trio.Nursery) -> None:
        """Kill workers until one was at work: its query has failed then, and is started again."""
        assert self._driver is not None
        failures = self.failures
        with trio.fail_after(LONGEST):
            while self.failures == failures:
                if workers := await trio.to_thread.run_sync(self._driver.python_workers):
                    kill(self._chance.choice(workers).number)
                await trio.sleep(self._chance.uniform(0.05, 0.2))

    async def _kill_broker(self, nursery: trio.Nursery) -> None:
        self._broker_runs = trio.Event()
        await trio.to_thread.run_sync(self.broker.kill)
        await self.start_broker()

    async def start_broker(self) -> None:
        """Start the broker, or the next one on its data."""
        await trio.to_thread.run_sync(self.broker.start)
        self._broker_runs.set()

    # The end

    async def drain(self) -> None:
        """Publish no more, and let the driver read to the end."""
        self._stopping = True
        assert self._driver is not None
        self._driver.say("drain")
        with trio.fail_after(LONGEST):
            await trio.to_thread.run_sync(self._driver.wait_ended)
        assert self._driver.process.returncode == 0, self._driver.log.read_text()[-3000:]

    async def close(self) -> None:
        """End whatever still runs."""
        self._stopping = True
        if self._driver is not None:
            await trio.to_thread.run_sync(self._driver.kill)
        if self.broker.process is not None:
            await trio.to_thread.run_sync(self.broker.kill)

    def find_problems(self) -> list[str]:
        """Return what is wrong with what has come out."""
        source = self.broker.values("orders")
        files = (self._place / "values.txt").read_bytes().split(b"\n")
        found = differences("orders", Counter(source), Counter(self.confirmed), more=True)
        found += differences("the files", Counter(files), Counter(source))
        found += differences("results", Counter(self.broker.values("results")), Counter(source))
        return found


def differences(name: str, found: Counter[bytes], wanted: Counter[bytes], *, more: bool = False) -> list[str]:
    """Return how what was found differs from what was wanted.

    Args:
        name: Where it was found.
        found: What, and how often.
        wanted: What should be there.
        more: Whether other values may be there besides.
    """
    problems = []
    if missing := wanted - found:
        problems.append(f"{len(missing)} of {len(wanted)} records are missing in {name}: {sorted(missing)[:5]}")
    if twice := [value for value, count in found.items() if count > 1]:
        problems.append(f"{len(twice)} records are more than once in {name}: {sorted(twice)[:5]}")
    if not more and (strange := found - wanted):
        problems.append(f"{len(strange)} records in {name} were never sent: {sorted(strange)[:5]}")
    return problems


async def run(place: Path, seed: int, victims: dict[str, int]) -> Pipeline:
    """Kill each of some victims so many times, in any order; what is wrong in the end is in ``problems``."""
    chance = random.Random(seed)
    pipeline = Pipeline(place, chance)
    try:
        await pipeline.start_broker()
        pipeline.broker.declare_stream("orders", partitions=3)
        pipeline.broker.declare_stream("results", partitions=2)
        order = [victim for victim, times in victims.items() for _ in range(times)]
        chance.shuffle(order)
        async with trio.open_nursery() as nursery:
            for number in range(PUBLISHERS):
                nursery.start_soon(pipeline.publish, number)
            await pipeline.start_driver(nursery)
            for victim in order:
                await pipeline.kill_one(victim, nursery)
            await pipeline.drain()
        pipeline.problems = await trio.to_thread.run_sync(pipeline.find_problems)
    finally:
        with trio.CancelScope(shield=True):
            await pipeline.close()
    return pipeline
