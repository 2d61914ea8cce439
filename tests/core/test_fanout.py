"""A publish to very many queues: in turns, in order, and one at a time for each publisher."""

from collections.abc import AsyncIterator

import pytest
import trio

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

from .cast import House, open_house, ready

MANY = 10_000


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """Many queues, all bound to one sink."""
    async with open_house() as house:
        house.sink("s", SinkKind.FANOUT)
        for number in range(MANY):
            house.queue(str(number))
            house.bind("s", str(number))
        yield house


def publisher(house: House) -> Publisher:
    return Publisher(house.directory, EVERYTHING, house.system.turn)


def run(sink: str, key: str, content: bytes) -> RoutedRun:
    return RoutedRun(CachedRoute(sink, key), Head(), [content], len(content))


def have(house: House) -> int:
    return sum(queue.published > 0 for queue in house.directory.queues.values())


async def over(house: House) -> None:
    while house.directory.chores.waiting:
        await trio.lowlevel.checkpoint()


async def test_very_many_queues_are_told_in_turns_and_the_confirm_comes_when_all_have_it(house: House) -> None:
    confirms = Confirms(lambda: None)
    way = publisher(house)
    assert house.turn(lambda: way.publish(*run("s", "", b"1"), confirms)) == MANY
    assert 0 < have(house) < MANY
    assert not confirms.take().single
    await over(house)
    assert have(house) == MANY
    assert confirms.take().single == [1]


async def test_the_publisher_waits_until_all_queues_are_told_and_others_do_not(house: House) -> None:
    way, other, last = publisher(house), publisher(house), str(MANY - 1)
    house.turn(lambda: way.publish(*run("s", "", b"1")))
    with pytest.raises(PublishingPaused) as paused:
        house.turn(lambda: way.publish(*run("", last, b"2")))
    assert paused.value.pressure is Pressure.BEHIND
    house.turn(lambda: other.publish(*run("", last, b"of another")))
    with trio.fail_after(5):
        await way.wait_open(paused.value.pressure)
    house.turn(lambda: way.publish(*run("", last, b"2")))
    assert ready(house.directory.queues[last]) == [b"of another", b"1", b"2"]


async def test_what_follows_in_the_same_turn_goes_behind(house: House) -> None:
    way, last = publisher(house), str(MANY - 1)

    def publish_both() -> None:
        way.publish_all([run("s", "", b"1"), run("", last, b"2")])

    house.turn(publish_both)
    await over(house)
    assert ready(house.directory.queues[last]) == [b"1", b"2"]


async def test_queues_that_are_deleted_meanwhile_hold_no_confirm_back(house: House) -> None:
    confirms = Confirms(lambda: None)
    way = publisher(house)
    house.turn(lambda: way.publish(*run("s", "", b"1"), confirms))
    house.delete(str(MANY - 1))
    await over(house)
    assert confirms.take().single == [1]
    house.turn(lambda: way.publish(*run("", "0", b"2")))
