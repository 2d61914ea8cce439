import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
from tests.jobs.worker import work
from tests.jobs.worker.conftest import Fifos

from triomq.app import Broker
from triomq.clients import EMQPConnection, EMQPJob, EMQPReply, EMQPRequest, open_emqp
from triomq.errors import ConfigError, Disconnected
from triomq.jobs import Jobs, current_job
from triomq.jobs.worker import Worker, open_worker
from triomq.jobs.worker.pooled import PooledJob
from triomq.jobs.worker.worker import find_target
from triomq.protocols.emqp import Extension, make_headers

HEADERS = make_headers(guarantee=True, reply_requested=True)


class Caller:
    """Sends calls as any client does."""

    def __init__(self, connection: EMQPConnection, jobs: Jobs) -> None:
        self.connection = connection
        self._jobs = jobs

    def send(
        self, name: str, *args: object, deadline: float = inf, queue: str = "default", **extension: object
    ) -> EMQPRequest:
        payload = self._jobs.definitions[name].encode(args, {})
        more = msgspec.convert(extension, Extension, strict=False)
        return self.connection.begin(queue, payload, HEADERS, more, deadline=deadline)

    async def call(self, name: str, *args: object, **options: object) -> EMQPReply:
        with trio.fail_after(60):
            return await self.send(name, *args, **options).reply()  # type: ignore[arg-type]  # options of send


@asynccontextmanager
async def working(broker: Broker, jobs: Jobs, **options: object) -> AsyncIterator[tuple[Caller, Worker]]:
    connector = await broker.emqp_connector()
    async with open_worker(jobs, connector, **options) as worker, open_emqp(connector) as connection:  # type: ignore[arg-type]
        yield Caller(connection, jobs), worker


with_children = partial(working, jobs=work.jobs, processes=1)


async def test_sync_jobs_run_in_processes(broker: Broker) -> None:
    async with with_children(broker) as (caller, worker):
        reply = await caller.call("process_number")
        assert reply.extension.state == "ok"
        found = msgspec.json.decode(reply.message)["value"]
        assert found != os.getpid()
        assert found == worker.pool.children.children[0].pid


async def test_async_jobs_run_in_the_nursery(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    jobs = Jobs()

    @jobs.job(name="wait")
    async def wait(seconds: float) -> str:
        await trio.sleep(seconds)
        return f"attempt {current_job().attempt}"

    async with working(broker, jobs, concurrency=2) as (caller, _):
        began = trio.current_time()
        requests = [caller.send("wait", 3600) for _ in range(4)]
        replies = [await request.reply() for request in requests]
        assert {reply.message for reply in replies} == {b'{"value":"attempt 1"}'}
        assert trio.current_time() - began == pytest.approx(7200, abs=10)


async def test_sync_jobs_run_here_without_processes(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    async with working(broker, work.jobs) as (caller, _):
        assert (await caller.call("process_number")).message == b'{"value":%d}' % os.getpid()


async def test_sync_jobs_run_in_threads(broker: Broker) -> None:
    jobs = Jobs()

    @jobs.job(name="check_thread")
    def check_thread() -> bool:
        trio.from_thread.check_cancelled()
        current_job().progress("in a thread")
        return True

    async with working(broker, jobs, sync_place="thread") as (caller, _):
        assert (await caller.call("check_thread")).message == b'{"value":true}'


async def test_job_that_raises_is_answered(broker: Broker) -> None:
    async with with_children(broker) as (caller, _):
        said = (await caller.call("fail", "no such order")).extension
    assert (said.state, said.type, said.message, said.retry) == ("failed", "ValueError", "no such order", True)
    assert "raise ValueError" in said.traceback


async def test_call_of_what_is_no_job_here_is_answered(broker: Broker) -> None:
    async with working(broker, work.jobs) as (caller, _):
        payload = b'["run",{"path":"os","callable":"getcwd","args":[],"kwargs":{},"class_args":[],"class_kwargs":{}}]'
        said = (await caller.connection.begin("default", payload, HEADERS).reply()).extension
    assert said.state == "failed"
    assert "no job 'os.getcwd'" in said.message


async def test_wrong_arguments_are_answered_and_not_tried_again(broker: Broker) -> None:
    async with with_children(broker) as (caller, _):
        payload = work.jobs.definitions["fail"].encode(("x",), {}).replace(b'"x"', b"5")
        said = (await caller.connection.begin("default", payload, HEADERS).reply()).extension
    assert said.state == "failed"
    assert said.retry is False
    assert said.type == "WrongArguments"


async def test_async_job_that_runs_too_long_is_cancelled(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    jobs = Jobs()

    @jobs.job(name="sleep", timeout=5)
    async def sleep() -> None:
        await trio.sleep_forever()

    async with working(broker, jobs) as (caller, _):
        said = (await caller.call("sleep")).extension
        assert (said.state, said.message) == ("timed-out", "it ran for more than 5 s")


async def test_async_job_is_cancelled(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    jobs = Jobs()
    begun = trio.Event()

    @jobs.job(name="sleep")
    async def sleep() -> None:
        begun.set()
        await trio.sleep_forever()

    async with working(broker, jobs) as (caller, _):
        request = caller.send("sleep")
        await begun.wait()
        await caller.connection.cancel(request.id)
        assert (await request.reply()).extension.state == "cancelled"


async def test_slot_runs_the_next_job_as_if_nothing_had_been(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    jobs = Jobs()
    begun = trio.Event()

    @jobs.job(name="quick", timeout=5)
    async def quick() -> None:
        await trio.lowlevel.checkpoint()

    @jobs.job(name="late", timeout=5)
    async def late() -> None:
        await trio.sleep_forever()

    @jobs.job(name="deaf")
    async def deaf() -> str:
        begun.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return "done all the same"

    @jobs.job(name="breaks_it", timeout=5)
    async def breaks_it() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in its last moment")

    @jobs.job(name="long")
    async def long() -> str:
        await trio.sleep(3600)
        return "long"

    async with working(broker, jobs, concurrency=1) as (caller, worker):
        before = [caller.send("quick"), caller.send("late"), caller.send("breaks_it")]
        cancelled, after = caller.send("deaf"), caller.send("long")
        await begun.wait()
        await caller.connection.cancel(cancelled.id)
        states = [(await request.reply()).extension.state for request in (*before, cancelled, after)]
        assert states == ["ok", "timed-out", "failed", "ok", "ok"]
        assert (await cancelled.reply()).message == b'{"value":"done all the same"}'
        assert (await after.reply()).message == b'{"value":"long"}'
        assert worker.statistics().done == 3


async def test_jobs_that_have_ended_are_freed_without_the_collector(broker: Broker) -> None:
    async with working(broker, work.both, processes=1) as (caller, _):
        await caller.call("do_nothing")
        gc.collect()
        gc.disable()
        try:
            for name in ("do_nothing", "answer_here"):
                for _ in range(5):
                    await caller.call(name)
            found = [each for each in gc.get_objects() if isinstance(each, EMQPJob | PooledJob)]
        finally:
            gc.enable()
        assert len(found) <= 2 * 2  # those that came last, each as it came and as it ran


async def test_sync_job_is_cancelled(broker: Broker, fifos: Fifos) -> None:
    async with with_children(broker) as (caller, _):
        request = caller.send("hang", fifos.begun)
        await fifos.wait_begun()
        await caller.connection.cancel(request.id, grace=0.2)
        with trio.fail_after(60):
            assert (await request.reply()).extension.state == "cancelled"
        assert (await caller.call("echo", "still here")).extension.state == "ok"


async def test_items_of_generators_come_in_order_before_the_answer(broker: Broker) -> None:
    jobs = Jobs()

    @jobs.job(name="async_count")
    async def async_count(number: int) -> AsyncIterator[int]:
        for value in range(number):
            yield value

    async with working(broker, jobs) as (caller, _):
        request = caller.send("async_count", 200, stream=True)
        assert [item async for item in request.items()] == [b"%d" % number for number in range(200)]
        assert (await request.reply()).extension.state == "ok"
    async with with_children(broker) as (caller, _):
        request = caller.send("count_to", 200, stream=True)
        assert [item async for item in request.items()] == [b"%d" % number for number in range(200)]
        assert (await request.reply()).extension.state == "ok"


async def test_drain_ends_what_has_begun_and_returns_the_rest(broker: Broker, fifos: Fifos) -> None:
    connector = await broker.emqp_connector()
    async with open_emqp(connector) as connection:
        caller = Caller(connection, work.jobs)
        async with open_worker(work.jobs, connector, processes=1) as worker, trio.open_nursery() as nursery:
            slow = caller.send("wait_for", fifos.begun, fifos.go)
            await fifos.wait_begun()
            behind = [caller.send("process_number") for _ in range(3)]
            nursery.start_soon(worker.drain)
            await trio.testing.wait_all_tasks_blocked()
            await fifos.say_go()
        assert (await slow.reply()).message == b'{"value":"gone on"}'
        async with open_worker(work.jobs, connector):
            for request in behind:
                assert (await request.reply()).message == b'{"value":%d}' % os.getpid()


async def test_worker_returns_what_it_has_no_slots_for_when_other_jobs_come_than_before(broker: Broker) -> None:
    connector = await broker.emqp_connector()
    with trio.fail_after(60):
        async with working(broker, work.both, processes=1, concurrency=2) as (caller, worker):
            before = [caller.send("do_nothing") for _ in range(200)]
            for request in before:
                await request.reply()
            now = [caller.send("wait_here") for _ in range(20)]
            async with open_worker(work.both, connector, processes=1) as other:
                for request in now:
                    assert await anext(request.values()) == b'"begun"'
                assert worker.statistics().held == 2
                assert other.statistics().held == 18
                for request in now:
                    await caller.connection.cancel(request.id)


async def test_child_that_dies_loses_its_job_and_no_other(broker: Broker) -> None:
    async with with_children(broker) as (caller, worker):
        deadly = caller.send("die", retries=2, backoff=(0, 0))
        others = [caller.send("echo", str(number)) for number in range(50)]
        with trio.fail_after(60):
            assert (await deadly.reply()).extension.state == "lost"
            for number, request in enumerate(others):
                assert (await request.reply()).message == b'{"value":"%d"}' % number
        statistics = worker.statistics()
    assert statistics.done == 50
    assert statistics.failed["lost"] >= 1


async def test_worker_without_a_broker_says_so(tmp_path: Path) -> None:
    with pytest.raises(Disconnected, match="no broker"):
        async with open_worker(work.jobs, "emqp://127.0.0.1:1?timeout=0.1"):
            pass


async def test_registry_that_children_cannot_import_is_refused(broker: Broker) -> None:
    jobs = Jobs()

    @jobs.job(name="local")
    def local() -> None: ...

    connector = await broker.emqp_connector()
    with pytest.raises(ConfigError, match="a module of its own"):
        async with open_worker(jobs, connector, processes=1):
            pass


def test_registry_is_found_among_the_modules() -> None:
    module, _, name = find_target(work.jobs).partition(":")
    assert module.startswith("tests.jobs.worker.")
    assert name
