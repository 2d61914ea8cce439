"""A publish to very many queues: in turns, in order, and one at a time for each publisher."""

from collections.abc import AsyncIterator

import pytest
import trio

from core.harness import Harness, open_harness, ready
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Confirms,
    Head,
    Pressure,
    Publisher,
    PublishingPaused,
    RoutedRun,
    SinkKind,
)

MANY = 10_000


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """Many queues, all bound to one sink."""
    async with open_harness() as harness:
        harness.sink("s", SinkKind.FANOUT)
        for number in range(MANY):
            harness.queue(str(number))
            harness.bind("s", str(number))
        yield harness


def publisher(harness: Harness) -> Publisher:
    return Publisher(harness.directory, EVERYTHING, harness.system.turn)


def run(sink: str, key: str, content: bytes) -> RoutedRun:
    return RoutedRun(CachedRoute(sink, key), Head(), [content], len(content))


def have(harness: Harness) -> int:
    return sum(queue.published > 0 for queue in harness.directory.queues.values())


async def over(harness: Harness) -> None:
    while harness.directory.chores.waiting:
        await trio.lowlevel.checkpoint()


async def test_very_many_queues_are_told_in_turns_and_the_confirm_comes_when_all_have_it(harness: Harness) -> None:
    confirms = Confirms(lambda: None)
    way = publisher(harness)
    assert harness.turn(lambda: way.publish(*run("s", "", b"1"), confirms)) == MANY
    assert 0 < have(harness) < MANY
    assert not confirms.take().single
    await over(harness)
    assert have(harness) == MANY
    assert confirms.take().single == [1]


async def test_publisher_waits_until_all_queues_are_told_and_others_do_not(harness: Harness) -> None:
    way, other, last = publisher(harness), publisher(harness), str(MANY - 1)
    harness.turn(lambda: way.publish(*run("s", "", b"1")))
    with pytest.raises(PublishingPaused) as paused:
        harness.turn(lambda: way.publish(*run("", last, b"2")))
    assert paused.value.pressure is Pressure.BEHIND
    harness.turn(lambda: other.publish(*run("", last, b"of another")))
    with trio.fail_after(60):
        await way.wait_open(paused.value.pressure)
    harness.turn(lambda: way.publish(*run("", last, b"2")))
    assert ready(harness.directory.queues[last]) == [b"of another", b"1", b"2"]


async def test_publish_that_follows_in_the_same_turn_goes_behind(harness: Harness) -> None:
    way, last = publisher(harness), str(MANY - 1)

    def publish_both() -> None:
        way.publish_all([run("s", "", b"1"), run("", last, b"2")])

    harness.turn(publish_both)
    await over(harness)
    assert ready(harness.directory.queues[last]) == [b"1", b"2"]


async def test_many_messages_of_one_turn_are_told_in_turns_too(harness: Harness) -> None:
    confirms, way = Confirms(lambda: None), publisher(harness)
    harness.sink("few", SinkKind.FANOUT)
    for number in range(10):
        harness.bind("few", str(number))

    def publish_many() -> None:
        for run_ in way.admit([run("few", "", b"%d" % number) for number in range(1000)]):
            way.publish(*run_, confirms)

    harness.turn(publish_many)
    assert 0 < len(ready(harness.directory.queues["9"])) < 1000
    with pytest.raises(PublishingPaused):
        harness.turn(lambda: way.publish(*run("few", "", b"last")))
    await over(harness)
    for number in range(10):
        assert ready(harness.directory.queues[str(number)]) == [b"%d" % number for number in range(1000)]


async def test_queues_that_are_deleted_meanwhile_hold_no_confirm_back(harness: Harness) -> None:
    confirms = Confirms(lambda: None)
    way = publisher(harness)
    harness.turn(lambda: way.publish(*run("s", "", b"1"), confirms))
    harness.delete(str(MANY - 1))
    await over(harness)
    assert confirms.take().single == [1]
    harness.turn(lambda: way.publish(*run("", "0", b"2")))
