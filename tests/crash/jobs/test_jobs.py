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


def particular(number: int, chance: random.Random) -> Task:
    """Make a job with a limit, or a unique key, or one that fails at first, or none of that."""
    seconds = chance.uniform(0, 0.05)
    match number % 5:
        case 0:
            return Task(number, seconds, key=f"k{chance.randrange(10)}")
        case 1:
            return Task(number, seconds, unique=f"u{chance.randrange(20)}")
        case 2:
            return Task(number, seconds, failures=2)
        case _:
            return Task(number, seconds)


MAKERS = {"plain": plain, "particular": particular}


async def kill(directory: Path, kills: Sequence[str], seed: int, kind: str) -> JobOracle:
    """Kill, and see that all is well."""
    oracle, problems = await run(directory, kills, seed, MAKERS[kind])
    print(f"{kind}, seed {seed}: {oracle}")
    assert not problems, "\n".join([f"seed {seed}: {oracle}", *problems[:20]])
    assert oracle.accepted
    return oracle


async def test_kills_of_workers_and_broker_lose_no_job(tmp_path: Path) -> None:
    with trio.fail_after(400):
        await kill(
            tmp_path,
            ["a job's process", "broker, store and a worker"],
            1,
            "particular",
        )


@pytest.mark.crash
@pytest.mark.parametrize("kind", MAKERS)
async def test_many_kills_lose_no_job(kind: str, tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    with trio.fail_after(400 + 20 * rounds):
        await kill(tmp_path, random.Random(seed).choices(list(KILLS), k=rounds), seed, kind)
