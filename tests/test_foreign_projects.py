"""The test suites of small foreign projects, which know the names of four fixtures, and little else of triomq."""

import pytest

pytest_plugins = ["pytester"]

WITH_PIKA = '''
import pika
import pytest

class Shop:
    """The program under test."""

    def __init__(self, channel):
        self.channel = channel
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)

    def sell(self, order):
        self.channel.basic_publish("", "orders", order, mandatory=True)

    def ship_one(self):
        frame, _, order = self.channel.basic_get("orders")
        if frame is None:
            return None
        self.channel.basic_ack(frame.delivery_tag)
        return order

@pytest.fixture
def shop(amqp_url):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        yield Shop(connection.channel())

def test_an_order_is_shipped(shop, wait_idle):
    shop.sell(b"42")
    assert shop.ship_one() == b"42"
    wait_idle()

def test_nothing_is_left_of_the_test_before(shop):
    assert shop.ship_one() is None

class TestInAClass:
    def test_orders_are_shipped_in_order(self, shop):
        for number in range(100):
            shop.sell(b"%d" % number)
        assert [int(shop.ship_one()) for _ in range(100)] == list(range(100))
'''

WITH_AIO_PIKA = """
import asyncio
import aio_pika
import pytest

pytestmark = pytest.mark.asyncio

@pytest.fixture
def shipped():
    return []

async def test_all_orders_are_shipped(amqp_url, wait_idle, shipped):
    async def ship(message):
        async with message.process():
            await asyncio.sleep(0)
            shipped.append(message.body)

    async with await aio_pika.connect_robust(amqp_url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=3)
        queue = await channel.declare_queue("orders", durable=True)
        await queue.consume(ship)
        for number in range(20):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), routing_key="orders")
        await asyncio.to_thread(wait_idle)
        assert [int(order) for order in shipped] == list(range(20))

async def test_nothing_is_left_of_the_test_before(amqp_url):
    async with await aio_pika.connect(amqp_url) as connection:
        queue = await (await connection.channel()).declare_queue("orders", durable=True)
        assert queue.declaration_result.message_count == 0
"""

SHOP = """
from datetime import date
from uuid import UUID

import trio
from triomq.jobs import Jobs, current_job

jobs = Jobs()
bank = {"is open": True}
bills = []
reports = []

@jobs.job(queue="bank", retries=5, backoff=(600, 3600), key="{customer}", max_concurrency=1)
async def charge(customer: str, cents: int, on: date) -> int:
    if not bank["is open"]:
        raise ConnectionError("the bank is closed")
    await trio.sleep(30)
    bills.append((customer, cents, on))
    return current_job().attempt

@jobs.job
async def order(number: UUID, customer: str, prices: list[int]) -> int:
    return await charge.call(customer, sum(prices), date(2026, 11, 22))

@jobs.job(unique="{customer}", retries=0)
def remind(customer: str) -> None:
    raise LookupError(f"no address of {customer}")

@jobs.cron("0 6 * * *", timezone="Europe/Oslo")
async def report() -> None:
    reports.append(len(bills))
"""

TESTS_OF_SHOP = """
from datetime import UTC, date, datetime
from uuid import uuid4

import pytest
import shop
import trio
from shop import charge, order, remind

@pytest.fixture(autouse=True)
def fresh():
    shop.bank["is open"] = True
    shop.bills.clear()
    shop.reports.clear()

@pytest.fixture
async def working(jobs):
    await jobs.work(shop.jobs)
    return jobs

async def test_order_is_charged(working, autojump_clock):
    assert await order.call(uuid4(), "ada", [100, 250]) == 1
    assert shop.bills == [("ada", 350, date(2026, 11, 22))]

async def test_customer_is_charged_once_at_a_time(working, autojump_clock):
    began = trio.current_time()
    await charge.map(["ada", "ada", "eve"], [1, 2, 3], on=date(2026, 11, 22))
    await working.wait_idle()
    assert 60 <= trio.current_time() - began < 70
    assert len(shop.bills) == 3

async def test_bank_that_is_closed_for_two_hours_is_tried_again(working, autojump_clock, nursery):
    shop.bank["is open"] = False
    job = await charge.send("ada", 5, on=date(2026, 11, 22))
    await trio.sleep(7200)
    assert shop.bills == []
    shop.bank["is open"] = True
    await working.wait_idle()
    assert await job.result() > 2

async def test_bank_that_stays_closed_is_an_error(working, autojump_clock):
    shop.bank["is open"] = False
    await charge.send("ada", 5, on=date(2026, 11, 22))
    with pytest.raises(ConnectionError, match="the bank is closed"):
        await working.wait_idle()

async def test_customer_is_reminded_once(working, broker):
    await remind.map(["ada", "ada", "eve"])
    with pytest.raises(BaseExceptionGroup) as caught:
        await broker.wait_idle()
    assert sorted(map(str, caught.value.exceptions)) == ["no address of ada", "no address of eve"]

async def test_report_comes_each_morning(working, autojump_clock):
    await charge.send("ada", 5, on=date(2026, 11, 22))
    await working.sleep_until(datetime(2000, 1, 3, tzinfo=UTC))
    assert shop.reports == [1, 1]

async def test_what_is_only_sent_waits(jobs):
    await jobs.connect(shop.jobs)
    await charge.send("ada", 5, on=date(2026, 11, 22))
    assert (await jobs.broker.queue("bank").statistics()).ready == 1
    assert shop.bills == []
"""

WITH_BOTH_TIMES = """
import trio

async def test_time_flies(amqp_url, autojump_clock):
    await trio.sleep(3600)
"""

STRICT = "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"


def test_suite_with_pika_passes(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(WITH_PIKA)
    pytester.runpytest_subprocess("-p", "no:trio", "-p", "no:asyncio").assert_outcomes(passed=3)


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_suite_with_aio_pika_and_pytest_asyncio_passes(pytester: pytest.Pytester, mode: str) -> None:
    pytester.makeini(f"{STRICT}asyncio_mode = {mode}\n")
    pytester.makepyfile(WITH_AIO_PIKA)
    pytester.runpytest_subprocess("-p", "no:trio").assert_outcomes(passed=2)


def test_virtual_time_beside_a_real_broker_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile(WITH_BOTH_TIMES)
    outcome = pytester.runpytest_subprocess("-p", "no:asyncio")
    outcome.assert_outcomes(errors=1)
    refusal = "*`amqp_url`, a real broker in real time, and the clock `autojump_clock`*take the fixture `broker`*"
    outcome.stdout.fnmatch_lines([refusal])


def test_suite_of_a_project_with_jobs_passes(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    pytester.makepyfile(shop=SHOP, test_shop=TESTS_OF_SHOP)
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=7)


def test_jobs_in_a_test_without_trio_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile("def test_plain(jobs):\n    pass\n")
    outcome = pytester.runpytest_subprocess("-p", "no:asyncio")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*the fixture `jobs` runs in the test's own Trio run*write `async def`*"])
