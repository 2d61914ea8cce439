"""Whoever is killed, whenever: no record is lost, and none comes twice."""

import random
from collections import Counter
from pathlib import Path

import pytest

from .harness import differences, run

VICTIMS = ("driver", "worker", "broker")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What decides when to kill whom; printed beside a failure."""
    given = request.config.getoption("--crash-seed")
    seed = random.getrandbits(32) if given is None else given
    print(f"--crash-seed {seed}")
    return seed


@pytest.mark.spark
async def test_pipeline_whose_parts_are_killed_loses_nothing_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    pipeline = await run(tmp_path, seed, dict.fromkeys(VICTIMS, 2))
    print(f"{len(pipeline.confirmed)} records, {pipeline.batches} batches, {pipeline.failures} failures of queries")
    assert not pipeline.problems


@pytest.mark.spark_slow
@pytest.mark.parametrize("victim", VICTIMS)
async def test_pipeline_loses_nothing_and_repeats_nothing_after_twenty_kills(
    tmp_path: Path, seed: int, victim: str
) -> None:
    pipeline = await run(tmp_path, seed, {victim: 20})
    print(f"{len(pipeline.confirmed)} records, {pipeline.batches} batches, {pipeline.failures} failures of queries")
    assert not pipeline.problems


def test_differences_are_what_is_missing_what_is_twice_and_what_is_strange() -> None:
    wanted = Counter([b"a", b"b", b"c"])
    assert differences("x", Counter([b"c", b"a", b"b"]), wanted) == []
    assert differences("x", Counter([b"a", b"b", b"b", b"d"]), wanted) == [
        "1 of 3 records are missing in x: [b'c']",
        "1 records are more than once in x: [b'b']",
        "2 records in x were never sent: [b'b', b'd']",
    ]
    assert differences("x", Counter([b"a", b"b", b"c", b"d"]), wanted, more=True) == []
