"""Whoever is killed, whenever: what RestMS has answered is so, in every later life of the broker.

Posters over HTTP fill two pipes of a fanout, one of a topic, the pipe of an address, a rotator that two ondemand pipes
empty, and one that two fifo pipes do. One of the readers hardly deletes anything: most of its queue is on disk alone.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from endpoints.restms.line import DOMAIN, Line

from .harness import Harness
from .oracle import Oracle
from .restms import FeedRoute, PipeReader, Poster, ResourceMaker, Taker, Worker, open_line
from .scenarios import drawn_kills, kill_in_turn

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

FEW = ("the broker", "the store", "both, the store frozen before", "both")
OPTIONS = ("--restms", "--queue-memory=65536")

FEED = "/restms/feed/"
FEEDS = {"all": "fanout", "some": "topic", "work": "rotator", "shared": "rotator"}


class Pipes:
    """All who read, each with a pipe of its own."""

    def __init__(self, harness: Harness, chance: random.Random) -> None:
        self._harness = harness
        self._chance = chance
        self.takers: list[Taker] = []
        self.addressed = ""

    async def make(self, line: Line) -> None:
        """Make the feeds, the pipes and their joins."""
        oracle = self._harness.oracle
        for name, type_ in FEEDS.items():
            await line.make(DOMAIN, feed=[{"name": name, "type": type_}])
        queues = {name: oracle.queue(name) for name in ("fast", "slow", "topic", "addressed", "work", "shared")}
        self._read(await self._join(line, "all"), "fast")
        self._read(await self._join(line, "all"), "slow", lazy=0.9)
        self._read(await self._join(line, "some", "a.#"), "topic")
        addressed = await line.make(DOMAIN, pipe=[{}])
        self._read(addressed, "addressed")
        self.addressed = addressed.rpartition("/")[2]
        for _ in range(2):
            self._read(await self._join(line, "shared"), "shared")
            worker = await self._join(line, "work", type_="ondemand")
            self.takers.append(Worker(self._harness, worker, queues["work"], self._own()))

    async def _join(self, line: Line, feed: str, address: str = "*", type_: str = "") -> str:
        pipe = await line.make(DOMAIN, pipe=[{"type": type_}])
        await line.make(pipe, join=[{"feed": FEED + feed, "address": address}])
        return pipe

    def _read(self, pipe: str, queue: str, *, lazy: float = 0.2) -> None:
        self.takers.append(PipeReader(self._harness, pipe, self._harness.oracle.queues[queue], self._own(), lazy=lazy))

    def _own(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))

    @property
    def routes(self) -> list[FeedRoute]:
        """Where to post, and where it comes out."""
        return [
            FeedRoute(FEED + "all", "", ("fast", "slow")),
            FeedRoute(FEED + "some", "a.b", ("topic",)),
            FeedRoute(FEED + "some", "b.a", ()),
            FeedRoute(FEED + "default", self.addressed, ("addressed",)),
            FeedRoute(FEED + "work", "", ("work",)),
            FeedRoute(FEED + "shared", "", ("shared",)),
        ]


async def run(directory: Path, kinds: Sequence[str], seed: int, *, work: int, lies: Sequence[str] = ()) -> Oracle:
    """Post, read and delete, kill in turn, and take out all of it in the end."""
    chance, oracle = random.Random(seed), Oracle()
    async with trio.open_nursery() as output:
        async with Harness(directory, oracle, *OPTIONS, *lies) as harness:
            await harness.start(output)
            pipes = Pipes(harness, chance)
            async with open_line(harness) as line:
                await pipes.make(line)
            posters = [
                Poster(harness, 10 + number, pipes.routes, random.Random(chance.getrandbits(64))) for number in range(4)
            ]
            makers = [ResourceMaker(harness, number, random.Random(chance.getrandbits(64))) for number in range(2)]
            async with trio.open_nursery() as reading:
                for taker in pipes.takers:
                    reading.start_soon(taker.run)
                async with trio.open_nursery() as writing:
                    for each in (*posters, *makers):
                        writing.start_soon(each.run)
                    await kill_in_turn(harness, kinds, chance, work, output)
                    harness.stop_publishing()
                harness.drain()
            async with open_line(harness) as line:
                for maker in makers:
                    await maker.look(line)
            oracle.close()
        output.cancel_scope.cancel()
    return oracle


def assert_nothing_lost(oracle: Oracle, seed: int) -> None:
    print(f"seed {seed}: {oracle}")
    assert not oracle.problems, "\n".join([f"seed {seed}: {oracle}", *oracle.problems])
    assert all(queue.delivered and queue.settled for queue in oracle.queues.values())
    assert sum(queue.again for queue in oracle.queues.values())


async def test_kills_leave_what_was_answered_as_it_was(tmp_path: Path) -> None:
    with trio.fail_after(300):
        oracle = await run(tmp_path, FEW, seed=1, work=3000)
    assert_nothing_lost(oracle, 1)


@pytest.mark.crash
async def test_many_kills_leave_what_was_answered_as_it_was(tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    kinds = drawn_kills(rounds, seed)
    with trio.fail_after(120 + 20 * rounds):
        oracle = await run(tmp_path, kinds, seed, work=6000)
    assert_nothing_lost(oracle, seed)
