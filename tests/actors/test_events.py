import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import DeadLettered, Exited, MailboxOverflowed, Restarted, Started, System, open_system
from triomq.actors.events import EventStream

from .cast import Boom, Counter, Note, TaskCounter


async def test_the_life_of_an_actor_can_be_followed(autojump_clock: MockClock) -> None:
    for kind in (Counter, TaskCounter):
        async with open_system() as system:
            with system.events() as events:
                ref = await system.start(kind, name="a")
                ref.tell_nowait(Boom())
                await trio.sleep(60)
                await system.stop(ref)
                await trio.sleep(1)
                seen = events.get_nowait()
        assert [type(event) for event in seen] == [Started, Exited, Restarted, DeadLettered, Exited, Restarted, Exited]
        assert {event.ref for event in seen} == {ref}
        exits = [event for event in seen if isinstance(event, Exited)]
        assert [(event.epoch, event.error is None) for event in exits] == [(1, False), (2, False), (3, True)]
        assert [event.epoch for event in seen if isinstance(event, Restarted)] == [2, 3]


async def test_full_mailbox_is_an_event(system: System) -> None:
    class Small(TaskCounter):
        limit = 1
        overflow = "drop_newest"

    ref = await system.start(Small)
    events = system.events()
    for _ in range(3):
        ref.tell_nowait(Note("x"))
    assert [type(event) for event in events.get_nowait()] == [MailboxOverflowed, DeadLettered, DeadLettered]


async def test_stream_is_followed_with_async_for_until_the_system_ends() -> None:
    seen: list[str] = []
    async with trio.open_nursery() as nursery, open_system() as system:

        @nursery.start_soon
        async def follow() -> None:
            async for event in system.events():
                seen.append(type(event).__name__)

        await trio.testing.wait_all_tasks_blocked()
        await system.start(Counter)
    assert seen == ["Started", "Exited", "Exited"]


async def test_slow_follower_loses_the_oldest_and_knows_how_many() -> None:
    stream: EventStream[int] = EventStream()
    assert not stream.is_followed
    with stream.subscribe(limit=2) as numbers:
        assert stream.is_followed
        for number in range(5):
            stream.publish(number)
        assert numbers.get_nowait() == [3, 4]
        assert numbers.dropped == 3
    assert not stream.is_followed
    assert [number async for number in numbers] == []


async def test_waiting_follower_is_woken() -> None:
    stream: EventStream[int] = EventStream()
    numbers = stream.subscribe()
    seen: list[int] = []

    async def follow() -> None:
        async for number in numbers:
            seen.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        stream.publish(1)
        await trio.testing.wait_all_tasks_blocked()
        stream.publish(2)
        stream.close()
    assert seen == [1, 2]
