"""Groups of streams: whose positions count, and when they end."""

import pytest
import trio

from core.durable import open_durable_harness
from core.harness import Harness
from core.streams.test_stream import declare
from memory_store import MemoryStore
from triomq.core import ForgetGroup, QueueState, SetPosition, groups_of, position_of
from triomq.core.persistence.records import decode_position, encode_position
from triomq.core.streams.groups import UNUSED_SECONDS
from triomq.core.topology.shares import GROUPS


def set_position(state: QueueState, group: str, user: str = "ada") -> None:
    state.ref.ask_nowait(SetPosition(group, 1, user))


async def test_position_that_was_not_set_for_long_ends(harness: Harness, autojump_clock: object) -> None:
    state, groups = declare(harness), groups_of(harness.directory)
    groups.wall = trio.current_time
    set_position(state, "old")
    await trio.sleep(UNUSED_SECONDS - 5000)
    set_position(state, "young")
    await trio.sleep(10_000)
    assert position_of(state, "old") is None
    assert position_of(state, "young") == 1
    assert harness.directory.shares.count(GROUPS, "ada") == len(groups) == 1


async def test_groups_are_counted_for_who_has_made_them_until_they_end(harness: Harness) -> None:
    state = declare(harness)
    for group in ("a", "b", "c"):
        set_position(state, group)
    set_position(state, "a", "eve")
    shares = harness.directory.shares
    assert (shares.count(GROUPS, "ada"), shares.count(GROUPS, "eve")) == (3, 0)
    assert state.ref.ask_nowait(ForgetGroup("a"))
    assert shares.count(GROUPS, "ada") == 2
    harness.delete(state.name)
    assert shares.total(GROUPS) == 0


@pytest.mark.parametrize("seconds", [0.0, UNUSED_SECONDS + 1])
async def test_user_and_time_of_a_position_outlive_a_restart(seconds: float) -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        groups_of(durable.harness.directory).wall = lambda: 1e9
        set_position(declare(durable.harness), "g")
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        directory = durable.harness.directory
        assert directory.shares.count(GROUPS, "ada") == 1
        groups = groups_of(directory)
        groups.wall = lambda: 1e9 + seconds
        groups.expire()
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        assert len(groups_of(durable.harness.directory)) == (0 if seconds else 1)


def test_position_of_an_earlier_version_is_nobodys() -> None:
    assert decode_position(encode_position(7)) == (7, "", 0)
    assert decode_position(encode_position((7, "ada", 9))) == (7, "ada", 9)
