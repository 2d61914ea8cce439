"""Directories of killed brokers whose files the disk has changed: what was confirmed is there, or is missed aloud."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from triomq.errors import StoreCorrupt
from triomq.store import SqliteStore, assemble, decode_body, salvage
from triomq.store.connecting import PAGE_SIZE

from .test_faults import filled, kill, opened

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

COUNT, QUEUES = 120, ("a", "b")

ON_A_PAGE = 20
"""More messages than one page of 16 KiB may take with it here: their bodies have 2,000 octets, and share pages."""

Messages = set[tuple[int, bytes]]
"""Queues and contents; each content is there once."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed broker leaves, all of it confirmed, each message in a batch of its own."""
    directory = tmp_path_factory.mktemp("killed")

    async def fill() -> None:
        async with opened(directory) as (harness, _):
            await filled(harness, *QUEUES, count=COUNT)
            await kill(harness)

    trio.run(fill)
    return directory


def messages(store: SqliteStore) -> Messages:
    """Read all that a broker would deliver."""
    return {
        (queue, bytes(content))
        for queue in assemble(store.recover(segments=False)).queues
        for segment in store.read(queue, 1, 1 << 40, 1 << 40).segments
        for run in decode_body(segment.body)
        for content in run.contents
    }


@pytest.fixture(scope="module")
def everything(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> Messages:
    """All that the killed broker has confirmed."""
    copy = shutil.copytree(killed, tmp_path_factory.mktemp("whole") / "store")
    with closing(SqliteStore(copy, patience=0)) as store:
        found = messages(store)
    assert len(found) == COUNT * len(QUEUES)
    return found


def salvaged(directory: Path) -> Messages:
    target = directory.with_name(f"{directory.name}-salvaged")
    salvage(directory, target, declare=lambda number: (b"", b""), patience=0)
    with closing(SqliteStore(target, patience=0)) as store:
        return messages(store)


def flip(path: Path, chance: random.Random) -> str:
    octets = bytearray(path.read_bytes())
    place, bit = chance.randrange(len(octets)), chance.randrange(8)
    octets[place] ^= 1 << bit
    path.write_bytes(octets)
    return f"bit {bit} of octet {place} in {path.name}"


def cut(path: Path, chance: random.Random) -> str:
    octets = path.read_bytes()
    place = chance.randrange(len(octets))
    path.write_bytes(octets[:place])
    return f"{path.name} cut at {place}"


def zero(path: Path, chance: random.Random) -> str:
    octets = bytearray(path.read_bytes())
    place = chance.randrange(0, len(octets), 512)
    octets[place : place + 512] = bytes(len(octets[place : place + 512]))
    path.write_bytes(octets)
    return f"a sector of zeros at {place} in {path.name}"


def damage_log(killed: Path, everything: Messages, directory: Path, chance: random.Random) -> None:
    """Damage a log anywhere: nothing may be lost without a word, and hardly anything when it is salvaged."""
    shutil.copytree(killed, directory)
    spoil: Callable[[Path, random.Random], str] = chance.choice([flip, flip, cut, zero])
    what = spoil(directory / "store.db-wal", chance)
    try:
        with closing(SqliteStore(directory, patience=0)) as store:
            assert messages(store) == everything, what
    except StoreCorrupt:
        found = salvaged(directory)
        assert found <= everything, what
        if spoil is not cut:
            assert len(everything - found) < ON_A_PAGE, what


def damage_database(killed: Path, everything: Messages, directory: Path, chance: random.Random) -> None:
    """Change one bit of a database: all is delivered but what stands there, and never anything else."""
    shutil.copytree(killed, directory)
    with closing(sqlite3.connect(directory / "store.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    what = flip(directory / "store.db", chance)
    try:
        with closing(SqliteStore(directory, patience=0)) as store:
            found = messages(store)
    except StoreCorrupt:  # a table that is small and has to be whole: of queues, of bindings, of tables
        found = set()
    assert found <= everything, what
    if len(everything - found) >= ON_A_PAGE:  # a page with the records of many, whose contents are whole
        found = salvaged(directory)
        assert found <= everything, what
        assert len(everything - found) < ON_A_PAGE, what


SCENES = {"log": damage_log, "database": damage_database}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("seed", range(3))
def test_damage_is_missed_or_does_no_harm(
    killed: Path, everything: Messages, tmp_path: Path, scene: str, seed: int
) -> None:
    SCENES[scene](killed, everything, tmp_path / "damaged", random.Random(seed))


@pytest.mark.crash
@pytest.mark.parametrize("scene", SCENES)
def test_damage_is_missed_or_does_no_harm_however_often(
    killed: Path, everything: Messages, tmp_path: Path, scene: str, rounds_and_seed: tuple[int, int]
) -> None:
    rounds, seed = rounds_and_seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(rounds):
        folder = tmp_path / "round"
        folder.mkdir()
        SCENES[scene](killed, everything, folder / "damaged", random.Random(chance.getrandbits(32)))
        shutil.rmtree(folder)


def test_the_files_are_those_that_are_meant(killed: Path) -> None:
    assert (killed / "store.db-wal").stat().st_size > COUNT * 2 * PAGE_SIZE
