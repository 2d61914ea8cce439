"""Jobs are sent over a real endpoint, and their results come back."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing
from tests.jobs.party import Shop

from triomq.app import open_broker
from triomq.errors import (
    AlreadyConnected,
    ConfigError,
    Disconnected,
    JobExpired,
    JobFailed,
    JobsFailed,
    JobTimedOut,
    NotConnected,
    UnknownJob,
    WrongArguments,
    WrongResult,
)
from triomq.jobs import Jobs


async def test_call_returns_the_result(shop: Shop) -> None:
    assert await shop.sell.call(5, price=2.5) == "5 for 2.5"
    assert await shop.add.call(1, b=2) == 3


async def test_job_that_is_sent_has_a_result_later(shop: Shop) -> None:
    first, second = await shop.sell.send(1), await shop.add.send(2, 3)
    assert (await first.result(), await second.result()) == ("1 for 1.0", 5)
    assert await first.result() == "1 for 1.0"
    assert repr(second) == f"<Job tests.jobs.party.add {second.id}>"
    with pytest.raises(TypeError, match=r"write `await job\.result\(\)`"):
        await first  # type: ignore[misc]  # that is what is tested


async def test_map_sends_a_job_for_each_value(shop: Shop) -> None:
    jobs = await shop.add.map(range(600), range(600))
    assert [await job.result() for job in jobs] == [2 * number for number in range(600)]
    assert [await job.result() for job in await shop.sell.map([1, 2], price=3)] == ["1 for 3.0", "2 for 3.0"]


async def test_map_tells_which_value_is_wrong(shop: Shop) -> None:
    with pytest.raises(WrongArguments, match=r"argument 'a': found str, expected int \(in value 2 of map\)"):
        await shop.add.map([1, 2, "3"])
    with pytest.raises(ValueError, match="shorter"):
        await shop.add.map([1, 2], [1])
    with pytest.raises(WrongArguments, match=r"found int as argument 2 of map, .* the same for all by its name"):
        await shop.add.map([1, 2], 3)


async def test_wrong_argument_fails_at_the_caller(shop: Shop) -> None:
    with pytest.raises(WrongArguments, match=r"tests\.jobs\.party\.add: argument 'a': found str, expected int"):
        await shop.add.send("1")  # type: ignore[arg-type]  # that is what is tested
    assert shop.seen == []


async def test_failure_comes_with_the_remote_traceback(shop: Shop) -> None:
    with pytest.raises(JobFailed, match=r"tests\.jobs\.party\.fail failed: ValueError: no such order") as raised:
        await shop.fail.call("no such order")
    assert raised.value.kind == "ValueError"
    assert "raise ValueError(text)" in raised.value.remote_traceback
    assert "party.py" in raised.value.__notes__[0]


async def test_group_of_failures_comes_as_a_group(shop: Shop) -> None:
    with pytest.raises(JobsFailed) as raised:
        await shop.fail_twice.call("both")
    assert [error.kind for error in raised.value.exceptions if isinstance(error, JobFailed)] == ["ValueError"] * 2


async def test_job_that_the_worker_does_not_have_fails(shop: Shop) -> None:
    others = Jobs()

    @others.job(name="os.system")
    def system(command: str) -> int:
        raise NotImplementedError

    async with others.connect(shop.where):
        with pytest.raises(JobFailed, match=r"UnknownJob: no job 'os\.system' here"):
            await system.call("ls")


async def test_result_of_another_kind_is_refused(shop: Shop) -> None:
    others = Jobs()

    @others.job(name="tests.jobs.party.sell")
    def sell(order: int) -> int:
        raise NotImplementedError

    async with others.connect(shop.where):
        with pytest.raises(WrongResult, match="its result is not what its annotation says: found str, expected int"):
            await sell.call(5)


async def test_queue_can_be_another_one(shop: Shop) -> None:
    await shop.add.using(queue="other", priority=3).call(1)
    assert [job.queue for job in shop.seen] == ["other"]


async def test_job_can_begin_later(shop: Shop) -> None:
    later = await shop.add.using(delay=0.2).send(1)
    also_later = await shop.add.using(at=datetime.now(UTC) + timedelta(seconds=0.1)).send(2)
    await shop.add.call(3)
    await also_later.result()
    await later.result()
    assert len(shop.seen) == 3


async def test_deadline_of_the_caller_travels(shop: Shop) -> None:
    with trio.fail_after(500):
        await shop.add.call(1)
    await shop.add.using(deadline=300).call(1)
    await shop.add.call(1)
    scoped, given, none = shop.seen
    assert 400 < scoped.deadline - trio.current_time() <= 500
    assert 200 < given.deadline - trio.current_time() <= 300
    assert none.deadline == float("inf")


async def test_call_gives_up_at_its_own_deadline(shop: Shop) -> None:
    with pytest.raises((JobTimedOut, JobExpired)):
        await shop.sleep.using(deadline=0.2).call()
    with trio.move_on_after(0.2) as scope:
        await shop.sleep.call()
    assert scope.cancelled_caught


async def test_job_that_a_job_sends_is_its_child(shop: Shop) -> None:
    with trio.fail_after(60):
        assert await shop.parent.call(7) == "7 for 1.0"
    parent, child = shop.seen
    assert (parent.name, child.name) == ("tests.jobs.party.parent", "tests.jobs.party.sell")
    assert child.deadline <= parent.deadline + 0.01


async def test_unconnected_jobs_say_so() -> None:
    shop = Shop()
    for attempt in (shop.add.send(1), shop.add.call(1), shop.add.map([1])):
        with pytest.raises(NotConnected, match=re.escape("`async with jobs.connect('emqp://127.0.0.1:47291'):`")):
            await attempt
    assert not shop.jobs.is_connected


async def test_second_connection_is_refused(shop: Shop) -> None:
    with pytest.raises(AlreadyConnected, match=re.escape(f"connected with {shop.where} already")):
        async with shop.jobs.connect("emqp://ada:secret@127.0.0.1:1"):
            pass
    assert await shop.add.call(1) == 1


async def test_jobs_can_be_connected_again() -> None:
    jobs = Jobs()
    for _ in range(2):
        with pytest.raises(Disconnected):
            async with jobs.connect("emqp://127.0.0.1:1?timeout=0.1"):
                pass
    with pytest.raises(ConfigError):
        async with jobs.connect("amqp://127.0.0.1"):
            pass


async def test_connection_of_another_trio_run_is_refused(shop: Shop) -> None:
    def other_run() -> None:
        trio.run(shop.add.send, 1)

    with pytest.raises(AlreadyConnected, match=r"trio\.from_thread\.run\(f\.send"):
        await trio.to_thread.run_sync(other_run)
    sent = await trio.to_thread.run_sync(trio.from_thread.run, shop.add.send, 1)
    assert await sent.result() == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delay": -1}, "delay: found -1, expected float >= 0"),
        ({"at": datetime(2026, 1, 1)}, "at: found 2026-01-01 00:00:00, which has no time zone"),
        ({"at": datetime.now(UTC), "delay": 1}, "delay and at: found both"),
        ({"priority": 11}, "priority: found 11"),
        ({"deadline": float("nan")}, "deadline: found nan"),
    ],
)
def test_wrong_option_of_a_call_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        Shop().add.using(**options)  # type: ignore[arg-type]  # that is what is tested


def test_unknown_job_is_an_error_of_jobs() -> None:
    with pytest.raises(UnknownJob):
        Shop().jobs.definition_of(b'["run", {"path": "a", "callable": "b"}]')


async def test_client_without_our_extensions_gets_results(shop: Shop) -> None:
    plain = Shop()
    async with plain.jobs.connect(f"{shop.where}?extensions=no"):
        assert await plain.add.call(1, 2) == 3
        assert await (await plain.sell.send(1)).result() == "1 for 1.0"
        assert len(await plain.add.map(range(10))) == 10
        with trio.move_on_after(0.1) as scope:
            await plain.sleep.call()
        assert scope.cancelled_caught


async def test_jobs_are_connected_and_run_in_one_program(autojump_clock: trio.testing.MockClock) -> None:
    shop = Shop()
    async with open_broker() as broker, shop.jobs.connect(broker), shop.jobs.work(broker):
        assert await shop.parent.call(1) == "1 for 1.0"
        with pytest.raises(JobsFailed):
            await shop.fail_twice.call("both")
        async with shop.count.stream(3) as items:
            assert [item async for item in items] == [0, 1, 2]
    async with open_broker() as broker, shop.jobs.work(broker):
        assert shop.jobs.is_connected  # jobs may send jobs
        async with shop.jobs.connect(broker):
            assert await shop.parent.call(1) == "1 for 1.0"
        assert await shop.parent.call(1) == "1 for 1.0"
    assert not shop.jobs.is_connected


async def test_broker_of_the_program_needs_no_socket(autojump_clock: trio.testing.MockClock) -> None:
    shop = Shop()
    async with open_broker() as broker, trio.open_nursery() as nursery:
        shop.where = await broker.emqp_connector()
        await nursery.start(shop.work)
        async with shop.jobs.connect(broker) as connected:
            assert connected is shop.jobs
            assert await shop.sell.call(5) == "5 for 1.0"
            later = await shop.add.using(delay=3600).send(1)
            assert await later.result() == 1
            assert trio.current_time() >= 3600
        nursery.cancel_scope.cancel()


def test_connection_that_is_opened_in_another_way_says_how_it_is_done() -> None:
    jobs = Jobs()

    async def under_asyncio() -> None:
        async with jobs.connect("emqp://127.0.0.1:1"):
            pass

    with pytest.raises(RuntimeError, match=re.escape("write `async with jobs.connect_asyncio(url):` here")):
        asyncio.run(under_asyncio())
    way = re.escape("write `async with jobs.connect(url):`")
    with pytest.raises(TypeError, match=way), jobs.connect("emqp://127.0.0.1:1"):  # type: ignore[attr-defined]  # as said
        pass
    with pytest.raises(AttributeError, match=re.escape("write `with jobs.connect_blocking(url):`")):
        jobs.connect_blocking("emqp://127.0.0.1:1").link  # noqa: B018  # as above
    assert not jobs.is_connected
