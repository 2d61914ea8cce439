"""A message over which its consumer fails, again and again."""

from itertools import pairwise
from pathlib import Path

import pytest
import trio

from app.conftest import bodies, crash, fill, got
from triomq import Broker, QueueHandle, open_broker
from triomq.actors import InPlaceActor
from triomq.app.portal import open_blocking_broker


async def fail_once(queue: QueueHandle) -> float:
    """Wait for the next delivery, fail over it, and tell when that was."""
    async with queue.open_feed(prefetch=1) as feed:
        delivery = await anext(feed)
        with pytest.raises(ValueError, match="bad order"), delivery:
            raise ValueError("bad order")
        return trio.current_time()


@pytest.fixture
async def letters(broker: Broker) -> QueueHandle:
    sink = await broker.declare_sink("given up", "fanout")
    letters = await broker.declare_queue("letters")
    await sink.bind(letters)
    return letters


async def test_failed_block_puts_its_message_back_later_each_time(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    times = [await fail_once(queue) for _ in range(9)]
    pauses = [round(after - before, 3) for before, after in pairwise(times)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    await broker.wait_idle()
    (entry,) = await queue.browse()
    assert entry.attempts == 9


async def test_failed_message_lets_others_pass_and_comes_back_to_its_place_marked(
    broker: Broker, queue: QueueHandle
) -> None:
    await fill(broker, b"1", b"2", b"3")
    async with queue.open_feed(prefetch=1) as feed:
        with pytest.raises(ValueError, match="bad"), await anext(feed):
            raise ValueError("bad")
        statistics = await queue.statistics()
        assert (statistics.ready, statistics.unsettled, statistics.delayed) == (1, 1, 1)
        second = await anext(feed)  # the window has room at once
        await trio.sleep(2)
        second.accept()
        again = await anext(feed)
        assert (second.body, again.body, again.redelivered) == (b"2", b"1", True)


async def test_cancelled_block_puts_back_at_once(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    with trio.CancelScope() as scope, delivery:
        scope.cancel()
        await trio.sleep_forever()
    assert (await queue.statistics()).ready == 1
    assert await bodies(queue, 1) == [(b"x", True)]


async def test_group_with_a_cancellation_in_it_puts_back_at_once(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    with pytest.raises(BaseExceptionGroup), delivery:
        raise BaseExceptionGroup("both", [ValueError(), KeyboardInterrupt()])
    assert (await queue.statistics()).ready == 1


async def test_fifth_failure_makes_it_a_dead_letter_if_there_is_a_sink(
    broker: Broker, letters: QueueHandle, caplog: pytest.LogCaptureFixture
) -> None:
    queue = await broker.declare_queue("q", dead_letter_sink="given up")
    await fill(broker, b"x")
    for _ in range(5):
        await fail_once(queue)
    letter = await got(letters)
    assert letter.body == b"x"
    headers = letter.properties.headers
    assert headers is not None
    assert headers["x-first-death-reason"] == "delivery_limit"
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.unsettled, statistics.delayed, statistics.dead_lettered) == (0, 0, 0, 1)
    fields = [record.__dict__["fields"] for record in caplog.records if record.levelname == "ERROR"]
    assert [(each["attempt"], each["then"]) for each in fields] == [
        (1, "again"),
        (2, "again"),
        (3, "again"),
        (4, "again"),
        (5, "dead letter"),
    ]
    assert fields[0] == {
        "queue": "q",
        "message": 1,
        "attempt": 1,
        "reason": "ValueError('bad order')",
        "then": "again",
        "seconds": 1.0,
    }


async def test_failed_message_is_not_dropped_while_the_sink_leads_nowhere(broker: Broker) -> None:
    queue = await broker.declare_queue("q", dead_letter_sink="not there yet")
    await fill(broker, b"x")
    for _ in range(7):
        await fail_once(queue)
    await broker.wait_idle()
    assert await bodies(queue, 1) == [(b"x", True)]


async def test_delivery_limit_of_the_queue_counts_as_ever(broker: Broker, letters: QueueHandle) -> None:
    queue = await broker.declare_queue("q", delivery_limit=1, dead_letter_sink="given up")
    await fill(broker, b"x")
    await fail_once(queue)
    assert (await letters.statistics()).ready == 0
    await fail_once(queue)
    assert (await letters.statistics()).ready == 1


async def test_priority_queue_puts_it_back_into_its_level(broker: Broker) -> None:
    queue = await broker.declare_queue("q", max_priority=2)
    await fill(broker, b"x")
    before = await fail_once(queue)
    assert await fail_once(queue) - before == pytest.approx(1)


async def test_message_that_expires_meanwhile_is_dropped_when_its_time_comes(broker: Broker) -> None:
    queue = await broker.declare_queue("q", message_ttl=0.5)
    await fill(broker, b"x")
    await fail_once(queue)
    await trio.sleep(2)
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.delayed, statistics.expired) == (0, 0, 1)


async def test_purge_forgets_it(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    await fail_once(queue)
    assert await queue.purge() == 1
    await broker.wait_idle()
    assert (await queue.statistics()).ready == 0


async def test_queue_that_crashes_has_it_at_once_counted_once(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    await fail_once(queue)
    crash(broker, "q")
    (entry,) = await queue.browse()
    assert entry.attempts == 1
    await trio.sleep(5)
    assert (await queue.statistics()).ready == 1


async def test_wait_idle_waits_until_it_has_come_back(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    before = await fail_once(queue)
    await broker.wait_idle()
    assert trio.current_time() - before >= 1
    assert (await queue.statistics()).ready == 1


async def test_failures_are_counted_across_a_restart(tmp_path: Path) -> None:
    for attempt in (1, 2, 3):
        async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
            queue = await broker.declare_queue("q")
            if attempt == 1:
                await fill(broker, b"x")
            else:
                (entry,) = await queue.browse()
                assert entry.attempts == attempt - 1
            await fail_once(queue)


def test_thread_that_fails_puts_it_back_later_too(caplog: pytest.LogCaptureFixture) -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        broker.publish("", "q", b"x")
        with queue.open_feed() as feed:
            delivery = feed.take(timeout=100)
            assert delivery is not None
            with pytest.raises(ValueError, match="bad"), delivery:
                raise ValueError("bad")
            assert queue.statistics().delayed == 1


# Supervised


class Consumer(InPlaceActor):
    """Fails over some orders; the others it has done."""

    def __init__(self, queue: QueueHandle, done: list[bytes]) -> None:
        self.queue = queue
        self.done = done

    async def run(self) -> None:
        async with self.queue.open_feed(prefetch=1) as feed:
            async for delivery in feed:
                with delivery:
                    if delivery.body == b"bad":
                        raise ValueError("bad order")
                    self.done.append(delivery.body)


async def test_poison_message_ends_neither_the_broker_nor_its_consumer(broker: Broker, letters: QueueHandle) -> None:
    queue = await broker.declare_queue("q", dead_letter_sink="given up")
    done: list[bytes] = []
    ref = await broker.system.start(lambda: Consumer(queue, done), name="consumer")
    await fill(broker, b"1", b"bad", b"2")
    await broker.wait_idle()
    await fill(broker, b"3")
    await broker.wait_idle()
    assert (done, ref.state) == ([b"1", b"2", b"3"], "running")
    assert (await letters.statistics()).ready == 1


async def test_consumer_that_fails_too_often_is_stopped_alone(
    broker: Broker, queue: QueueHandle, caplog: pytest.LogCaptureFixture
) -> None:
    ref = await broker.system.start(lambda: Consumer(queue, []), name="consumer")
    await fill(broker, *[b"bad"] * 10)
    await broker.wait_idle()
    assert ref.state == "stopped"
    assert "too many restarts, it is stopped" in caplog.text
    await fill(broker, b"1")
    assert (await queue.statistics()).published == 11
