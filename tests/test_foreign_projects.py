"""The test suites of small foreign projects, which know the names of three fixtures and nothing else of triomq."""

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
