"""Whoever is killed, whenever: a job that was accepted runs, and limits and unique keys are kept."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from .oracle import JobOracle
from .party import KILLS, run
from .task import Task

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")


def plain(number: int, chance: random.Random) -> Task:
    """Make a job of which nothing is asked."""
    return Task(number, chance.uniform(0, 0.05))


async def kill(directory: Path, kills: Sequence[str], seed: int) -> JobOracle:
    """Kill, and see that all is well."""
    oracle, problems = await run(directory, kills, seed, plain)
    print(f"seed {seed}: {oracle}")
    assert not problems, "\n".join([f"seed {seed}: {oracle}", *problems[:20]])
    assert oracle.accepted
    return oracle


async def test_kills_of_workers_and_broker_lose_no_job(tmp_path: Path) -> None:
    with trio.fail_after(120):
        await kill(tmp_path, ["a worker", "the broker", "the store", "broker, store and a worker"], 1)


@pytest.mark.crash
async def test_many_kills_lose_no_job(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rounds, seed = request.config.getoption("--crash-rounds"), request.config.getoption("--crash-seed")
    if not rounds:
        pytest.skip("takes some minutes: --crash-rounds 50")
    seed = random.getrandbits(32) if seed is None else seed
    with trio.fail_after(120 + 10 * rounds):
        await kill(tmp_path, random.Random(seed).choices(list(KILLS), k=rounds), seed)
