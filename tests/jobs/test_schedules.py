"""Schedules of the code run at the broker, over memory and in virtual time."""

import pytest
import trio
from msgspec.structs import replace
from tests.jobs.party import Shop
from trio.testing import MockClock

from triomq.app import open_broker
from triomq.errors import ConfigError, NotConnected
from triomq.jobs import JobOrder, Jobs, Middleware
from triomq.jobs.schedules import register_schedules


def add_tick(shop: Shop, seconds: float = 3600) -> None:
    @shop.jobs.every(seconds, retries=2, timeout=5, name="tick")
    async def tick() -> None: ...


async def test_job_runs_again_and_again(local_shop: Shop, autojump_clock: MockClock) -> None:
    add_tick(local_shop)
    await register_schedules(local_shop.jobs, "shop")
    await trio.sleep(3 * 3600 + 60)
    assert [job.name for job in local_shop.seen] == ["tick"] * 3


async def test_schedule_that_is_registered_again_goes_on_where_it_was(
    local_shop: Shop, autojump_clock: MockClock
) -> None:
    add_tick(local_shop)
    for owner in ("shop", ""):
        local_shop.seen.clear()
        for _ in range(5):
            await register_schedules(local_shop.jobs, owner)
            await trio.sleep(1000)
        assert len(local_shop.seen) == 1


async def test_schedule_that_the_code_has_no_more_ends(local_shop: Shop, autojump_clock: MockClock) -> None:
    add_tick(local_shop)
    await register_schedules(local_shop.jobs, "shop")
    others = Shop()
    others.where = local_shop.where
    async with others.jobs.connect(local_shop.broker):
        await register_schedules(others.jobs, "another")
        await trio.sleep(4000)
        assert len(local_shop.seen) == 1
        await register_schedules(others.jobs, "shop")
    await trio.sleep(4000)
    assert len(local_shop.seen) == 1


async def test_schedule_that_was_changed_begins_anew(local_shop: Shop, autojump_clock: MockClock) -> None:
    add_tick(local_shop)
    await register_schedules(local_shop.jobs, "shop")
    changed = Shop()
    add_tick(changed, 60)
    async with changed.jobs.connect(local_shop.broker):
        await register_schedules(changed.jobs, "shop")
    await trio.sleep(3700)
    assert len(local_shop.seen) == 61


class ToStaging(Middleware):
    """Sends all to a queue of its own, with a trace that is new each time."""

    def __init__(self) -> None:
        self.asked = 0

    def before_enqueue(self, order: JobOrder) -> JobOrder:
        self.asked += 1
        extension = replace(order.extension, trace=f"00-{self.asked}")
        return replace(order, queue=f"staging.{order.queue}", extension=extension)


async def test_middleware_is_asked_once_for_all_jobs_of_a_schedule(local_shop: Shop, autojump_clock: MockClock) -> None:
    await local_shop.broker.declare_queue("staging.default")
    middleware = ToStaging()
    local_shop.jobs.middleware = (middleware,)
    add_tick(local_shop, 60)
    for _ in range(5):
        await register_schedules(local_shop.jobs, "shop")
        await trio.sleep(50)  # it goes on where it was
    assert middleware.asked == 5
    assert (await local_shop.broker.queue("staging.default").statistics()).ready == 4


async def test_what_middleware_refuses_is_not_registered(local_shop: Shop, autojump_clock: MockClock) -> None:
    class Refuse(Middleware):
        def before_enqueue(self, order: JobOrder) -> JobOrder:
            raise ConfigError("nothing is sent from here")

    local_shop.jobs.middleware = (Refuse(),)
    add_tick(local_shop, 60)
    with pytest.raises(ConfigError, match="nothing is sent from here"):
        await register_schedules(local_shop.jobs, "shop")
    await trio.sleep(600)
    assert local_shop.seen == []


async def test_cron_is_meant_in_its_time_zone(autojump_clock: MockClock) -> None:
    shop = Shop()

    @shop.jobs.cron("0 6 * * *", timezone="Asia/Tokyo", name="digest")
    async def digest() -> None: ...

    async with open_broker() as broker, trio.open_nursery() as nursery:
        shop.where = await broker.emqp_connector()
        await nursery.start(shop.work)
        async with shop.jobs.connect(broker):
            await register_schedules(shop.jobs)
        await trio.sleep(3 * 24 * 3600)
        nursery.cancel_scope.cancel()
    assert [job.name for job in shop.seen] == ["digest"] * 3


async def test_schedules_need_a_connection_and_whole_seconds() -> None:
    with pytest.raises(NotConnected):
        await register_schedules(Jobs())
    with pytest.raises(ConfigError, match=r"seconds: found 1\.5, expected a whole number"):
        Jobs().every(1.5)


async def test_tick_is_left_out_while_the_last_one_is_still_going(local_shop: Shop, autojump_clock: MockClock) -> None:
    @local_shop.jobs.every(60, unique=True, name="slow")
    async def slow() -> None:
        await trio.sleep(150)

    await register_schedules(local_shop.jobs, "shop")
    await trio.sleep(601)
    assert len(local_shop.seen) == 4  # after 60, 240, 420 and 600 s


async def test_tick_that_fails_is_tried_again_after_a_while(local_shop: Shop, autojump_clock: MockClock) -> None:
    @local_shop.jobs.every(3600, retries=2, backoff=(10, 10), name="broken")
    async def broken() -> None:
        raise ValueError("no")

    await register_schedules(local_shop.jobs, "shop")
    await trio.sleep(3700)
    assert [job.attempt for job in local_shop.seen] == [1, 2, 3]
