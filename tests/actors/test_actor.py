from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Actor, open_system

from .cast import Add, Boom, Log, Note, TaskCounter


@asynccontextmanager
async def thing(log: Log) -> AsyncIterator[str]:
    log.append("opened")
    try:
        yield "thing"
    finally:
        log.append("closed")


class Holder(TaskCounter):
    """Holds something open for as long as an incarnation lives."""

    async def run(self) -> None:
        async with thing(self.log) as self.thing:
            await super().run()


async def test_context_around_run_is_closed_at_the_end_and_after_a_crash(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: Holder(log))
        ref.crash(None, ValueError("once"))
        await trio.sleep(60)
        assert await ref.ask(Add(1)) == 1
    assert log == ["opened", "start 1", "closed", "opened", "start 2", "stop", "closed"]


async def test_actor_may_have_a_nursery() -> None:
    log = Log()

    class Busy(Actor):
        async def run(self) -> None:
            async with trio.open_nursery() as self.nursery:
                await super().run()
                self.nursery.cancel_scope.cancel()

        def note(self, message: Note) -> None:
            self.nursery.start_soon(self.work, message.text)

        async def work(self, text: str) -> None:
            log.append(text)
            await trio.sleep_forever()

    async with open_system() as system:
        ref = await system.start(Busy)
        await ref.tell(Note("a"))
        await trio.testing.wait_all_tasks_blocked()
    assert log == ["a"]


async def test_crash_calls_no_on_stop(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: TaskCounter(log), restart="temporary")
        ref.tell_nowait(Boom())
        await trio.sleep(1)
    assert log == ["start 1"]


async def test_actor_may_end_itself_and_handles_what_it_has_first() -> None:
    class Leaver(TaskCounter):
        def add(self, message: Add) -> int:
            self.stop()
            return 0

    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: Leaver(log), restart="transient")
        ref.tell_nowait(Add(1))
        ref.tell_nowait(Note("a"))
        await trio.testing.wait_all_tasks_blocked()
        assert ref.state == "stopped"
    assert log == ["start 1", "a", "stop"]


async def test_actor_that_stops_in_on_start_is_cancelled(autojump_clock: MockClock) -> None:
    class Endless(Actor):
        async def on_start(self) -> None:
            await trio.sleep_forever()

    start = trio.current_time()
    async with open_system() as system, trio.open_nursery() as nursery:

        async def begin() -> None:
            with pytest.raises(Exception, match="ended before it had started"):
                await system.start(Endless, name="endless")

        nursery.start_soon(begin)
        await trio.testing.wait_all_tasks_blocked()
        await system.stop(system.registry.find("/endless"))
    assert trio.current_time() == start
