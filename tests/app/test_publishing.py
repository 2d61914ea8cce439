"""Publishing from this process."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

import pytest
import trio
import trio.testing

from app.conftest import bodies, crash, fill, got, knock_out, queue_ref
from triomq import Broker, Properties, QueueHandle, open_broker
from triomq.core import NoSuchSink
from triomq.errors import LimitExceeded, Unroutable


async def test_message_is_in_every_queue_when_publish_returns(broker: Broker) -> None:
    fan = await broker.declare_sink("fan", "fanout")
    queues = [await broker.declare_queue(f"q{number}") for number in range(10)]
    for queue in queues:
        await fan.bind(queue)
    await broker.publish("fan", "", b"x")
    broker.publish_nowait("fan", "", b"y")
    assert [state.backlog.ready for state in broker.directory.queues.values()] == [2] * 10


async def test_publish_to_a_missing_sink_raises(broker: Broker) -> None:
    with pytest.raises(NoSuchSink, match="'nope'"):
        await broker.publish("nope", "", b"")
    with pytest.raises(NoSuchSink):
        broker.publish_nowait("nope", "", b"")


async def test_unroutable_message_is_an_error_only_if_mandatory(broker: Broker) -> None:
    await broker.publish("", "nobody", b"")
    with pytest.raises(Unroutable, match="bind one"):
        await broker.publish("", "nobody", b"", mandatory=True)
    with pytest.raises(Unroutable):
        broker.publish_nowait("", "nobody", b"", mandatory=True)


async def test_mandatory_message_may_go_to_the_alternate(broker: Broker) -> None:
    lost, queue = await broker.declare_sink("lost", "fanout"), await broker.declare_queue("q")
    await broker.declare_sink("s", alternate="lost")
    with pytest.raises(Unroutable):
        await broker.publish("s", "k", b"1", mandatory=True)
    await lost.bind(queue)
    await broker.publish("s", "k", b"2", mandatory=True)
    assert await bodies(queue, 1) == [(b"2", False)]


async def test_property_chooses_the_queue(broker: Broker) -> None:
    sink = await broker.declare_sink("s", "x-consistent-hash", hash_property="message_id")
    queues = [await broker.declare_queue(name) for name in ("a", "b")]
    for queue in queues:
        await sink.bind(queue, "1")
    for number in range(20):
        await broker.publish("s", "k", b"", Properties(message_id=str(number)))
        await broker.publish("s", "other", b"", Properties(message_id=str(number)))
    counts = [(await queue.statistics()).ready for queue in queues]
    assert sum(counts) == 40
    assert all(count and count % 2 == 0 for count in counts)


async def test_full_queue_refuses_and_says_what_to_do(broker: Broker) -> None:
    await broker.declare_queue("q", max_length=1, overflow="reject-publish")
    await broker.publish("", "q", b"1")
    with pytest.raises(LimitExceeded, match="consume from it, or raise its max_length"):
        await broker.publish("", "q", b"2")
    with pytest.raises(LimitExceeded):
        broker.publish_nowait("", "q", b"3")


async def test_publish_waits_for_a_queue_that_is_being_restarted(broker: Broker, queue: QueueHandle) -> None:
    await knock_out(broker, "q")
    before = trio.current_time()
    with pytest.raises(trio.WouldBlock):
        broker.publish_nowait("", "q", b"1")
    await broker.publish("", "q", b"2")
    assert trio.current_time() - before >= 0.08
    assert await bodies(queue, 1) == [(b"2", False)]
    assert (await queue.statistics()).ready == 0


async def test_publish_to_a_queue_that_is_given_up_is_refused(broker: Broker, queue: QueueHandle) -> None:
    for _ in range(4):
        await queue_ref(broker, "q").wait_running()
        crash(broker, "q")
    with pytest.raises(LimitExceeded, match="was stopped"):
        await broker.publish("", "q", b"")


async def test_cancelled_publish_publishes_nothing_if_it_had_not_begun(broker: Broker, queue: QueueHandle) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await broker.publish("", "q", b"")
    assert (await queue.statistics()).ready == 0


async def test_publishing_lets_other_tasks_run(broker: Broker, queue: QueueHandle) -> None:
    with trio.testing.assert_checkpoints():
        await broker.publish("", "q", b"")
    with trio.testing.assert_no_checkpoints():
        broker.publish_nowait("", "q", b"")


async def test_properties_that_could_not_be_read_are_refused_where_they_are_made(
    broker: Broker, queue: QueueHandle
) -> None:
    with pytest.raises(ValueError, match="content_type"):
        await broker.publish("", "q", b"", Properties(content_type=b"text"))  # type: ignore[arg-type]
    assert await queue.get() is None


def test_ctrl_c_at_any_line_of_a_publish_leaves_state_whole() -> None:
    """Press it at the first line that Python runs, then at the second, and so on."""
    trio.run(_publish_and_interrupt)  # Trio raises it in the main task, which has to be ours


async def _publish_and_interrupt() -> None:
    async with open_broker() as broker:
        fan = await broker.declare_sink("fan", "fanout")
        queues = [await broker.declare_queue(name) for name in ("q1", "q2", "q3")]
        for queue in queues:
            await fan.bind(queue)
        async with queues[2].open_feed(prefetch=0) as feed:
            interrupted = published = 0
            while True:  # it comes later and later, until the publish is over before
                try:
                    with interrupt_at(interrupted):
                        broker.publish_nowait("fan", "", b"%d" % interrupted)
                    published += 1
                    await trio.lowlevel.checkpoint()  # where Trio raises it if it came in the middle of a turn
                except KeyboardInterrupt:
                    interrupted += 1
                    assert broker.system.turn.phase == 0
                else:
                    break
            states = broker.directory.queues.values()
            (count,) = {state.backlog.ready + state.backlog.unsettled for state in states}  # in all queues or in none
            assert published <= count <= published + interrupted
            assert interrupted > 100
            seen = [int((await anext(feed)).body) for _ in range(count)]
        assert seen == sorted(set(seen))


class interrupt_at:  # noqa: N801  reads as a sentence where it is used
    """Press Ctrl-C at the n-th line that runs in the block."""

    def __init__(self, line: int) -> None:
        self.left = line
        self.before = sys.gettrace()  # so that a measurement of coverage goes on afterwards

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., object] | None:
        if frame.f_code is interrupt_at.__exit__.__code__:
            return None
        self.left -= event == "line"
        if self.left < 0:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self._trace if self.left >= 0 else None


async def test_head_of_a_message_has_the_fields_that_the_core_needs(broker: Broker) -> None:
    queue = await broker.declare_queue("q", max_priority=9)
    await broker.publish("", "q", b"low", Properties(priority=1))
    await broker.publish("", "q", b"high", Properties(priority=5))
    await broker.publish("", "q", b"gone", Properties(priority=9, expiration=0.5))
    await trio.sleep(1)
    assert await bodies(queue, 2) == [(b"high", False), (b"low", False)]
    assert (await queue.statistics()).expired == 1


async def test_message_may_be_delayed(broker: Broker, queue: QueueHandle) -> None:
    await broker.publish("", "q", b"later", delay=60)
    broker.publish_nowait("", "q", b"sooner", delay=30)
    assert (await queue.statistics()).ready == 0
    before = trio.current_time()
    async with queue.open_feed() as feed:
        assert [(await anext(feed)).body for _ in range(2)] == [b"sooner", b"later"]
    assert 60 <= trio.current_time() - before < 61


@pytest.mark.parametrize("delay", [-1.0, float("inf"), float("nan")])
async def test_delay_is_a_time(broker: Broker, queue: QueueHandle, delay: float) -> None:
    with pytest.raises(ValueError, match="a delay is a number of seconds"):
        await broker.publish("", "q", b"", delay=delay)


# Waiting for room


@pytest.fixture
async def narrow(broker: Broker) -> QueueHandle:
    return await broker.declare_queue("q", max_length=1, overflow="wait")


async def take(queue: QueueHandle) -> bytes:
    delivery = await got(queue)
    with delivery:
        return delivery.body


async def test_publish_waits_until_a_consumer_makes_room(
    broker: Broker, narrow: QueueHandle, nursery: trio.Nursery
) -> None:
    await fill(broker, b"1")
    nursery.start_soon(fill, broker, b"2", b"3")
    await trio.testing.wait_all_tasks_blocked()
    assert (await narrow.statistics()).ready == 1
    for expected in (b"1", b"2", b"3"):
        assert await take(narrow) == expected
        await trio.testing.wait_all_tasks_blocked()


async def test_publish_nowait_into_a_full_queue_publishes_nothing(broker: Broker, narrow: QueueHandle) -> None:
    broker.publish_nowait("", "q", b"1")
    with pytest.raises(trio.WouldBlock):
        broker.publish_nowait("", "q", b"2")
    assert await bodies(narrow, 1) == [(b"1", False)]
    assert await narrow.get() is None


async def test_message_is_placed_only_when_all_queues_have_room(
    broker: Broker, narrow: QueueHandle, nursery: trio.Nursery
) -> None:
    fan = await broker.declare_sink("fan", "fanout")
    others = [await broker.declare_queue("a"), await broker.declare_queue("b", max_length=1, overflow="wait")]
    for queue in (*others, narrow):
        await fan.bind(queue)
    await fill(broker, b"1")
    await broker.publish("", "b", b"1")
    nursery.start_soon(broker.publish, "fan", "", b"2")
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(trio.WouldBlock):
        broker.publish_nowait("fan", "", b"3")
    assert await take(narrow) == b"1"
    await trio.testing.wait_all_tasks_blocked()
    assert [(await queue.statistics()).ready for queue in (*others, narrow)] == [0, 1, 0]
    assert await take(others[1]) == b"1"
    await trio.testing.wait_all_tasks_blocked()
    assert [await take(queue) for queue in (*others, narrow)] == [b"2"] * 3


async def test_waiting_publishers_go_in_order(broker: Broker, narrow: QueueHandle, nursery: trio.Nursery) -> None:
    await fill(broker, b"x")
    for number in range(20):
        nursery.start_soon(fill, broker, b"%d" % number)
        await trio.testing.wait_all_tasks_blocked()
    async with narrow.open_feed(prefetch=1) as feed:
        seen = []
        for _ in range(21):
            with await anext(feed) as delivery:
                seen.append(delivery.body)
    assert seen == [b"x", *(b"%d" % number for number in range(20))]


async def test_small_message_does_not_overtake_one_that_waits_for_more_room(
    broker: Broker, nursery: trio.Nursery
) -> None:
    queue = await broker.declare_queue("q", max_bytes=10, overflow="wait")
    await fill(broker, b"12345", b"123")
    nursery.start_soon(fill, broker, b"1234567890")
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(fill, broker, b"1")
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(trio.WouldBlock):
        broker.publish_nowait("", "q", b"1")
    seen = []
    for _ in range(4):
        seen.append(await take(queue))
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [b"12345", b"123", b"1234567890", b"1"]


async def test_waiting_publishers_do_not_wake_each_other(broker: Broker, nursery: trio.Nursery) -> None:
    await broker.declare_queue("q", max_bytes=10, overflow="wait")
    await fill(broker, b"123456")
    for _ in range(2):
        nursery.start_soon(fill, broker, b"12345")
    with trio.fail_after(1):  # in virtual time: it never passes while a task runs
        await trio.testing.wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()


async def test_publisher_that_is_cancelled_leaves_the_line(broker: Broker, narrow: QueueHandle) -> None:
    await fill(broker, b"1")
    for _ in range(100):
        with trio.move_on_after(1) as waited:
            await broker.publish("", "q", b"2")
        assert waited.cancelled_caught
    assert not broker.directory.queues["q"].room_wanted
    assert not broker._publisher._way._lines
    assert await take(narrow) == b"1"
    await fill(broker, b"3")
    assert await take(narrow) == b"3"


async def test_message_that_will_never_fit_is_refused_at_once(broker: Broker) -> None:
    await broker.declare_queue("q", max_bytes=10, overflow="wait")
    await broker.declare_queue("none", max_length=0, overflow="wait")
    with pytest.raises(LimitExceeded, match="never has room for a message of 11 bytes"):
        await broker.publish("", "q", b"x" * 11)
    with pytest.raises(LimitExceeded, match="max_length is 0"):
        broker.publish_nowait("", "none", b"")


async def test_queue_that_is_deleted_is_waited_for_no_more(
    broker: Broker, narrow: QueueHandle, nursery: trio.Nursery
) -> None:
    await fill(broker, b"1")
    nursery.start_soon(fill, broker, b"2")
    await trio.testing.wait_all_tasks_blocked()
    await narrow.delete()


async def test_crash_of_the_queue_delays_a_publish(broker: Broker, narrow: QueueHandle, nursery: trio.Nursery) -> None:
    await fill(broker, b"1")
    nursery.start_soon(fill, broker, b"2")
    await trio.testing.wait_all_tasks_blocked()
    await knock_out(broker, "q")
    nursery.start_soon(fill, broker, b"3")
    seen = []
    for _ in range(3):
        seen.append(await take(narrow))
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [b"1", b"2", b"3"]


async def test_delayed_message_waits_for_no_room(broker: Broker, narrow: QueueHandle) -> None:
    await fill(broker, b"1")
    await broker.publish("", "q", b"2", delay=1)
    assert (await narrow.statistics()).delayed == 1


# Memory


async def fill_memory(broker: Broker) -> QueueHandle:
    """Begin a memory alarm, and give the queue that is to blame."""
    queue = await broker.declare_queue("large")
    await broker.publish("", "large", b"x" * 20_000)
    broker.set_memory_high_watermark(10_000)
    return queue


async def test_publishers_are_refused_while_memory_is_short(broker: Broker, queue: QueueHandle) -> None:
    large = await fill_memory(broker)
    await broker.publish("", "nobody", b"")
    with pytest.raises(LimitExceeded, match="memory_high_watermark"):
        await broker.publish("", "q", b"")
    with pytest.raises(LimitExceeded, match="memory_high_watermark"):
        broker.publish_nowait("", "q", b"")
    await large.purge()
    await trio.sleep(1)
    await broker.publish("", "q", b"1")
    assert await bodies(queue, 1) == [(b"1", False)]


async def test_publishers_wait_while_memory_is_short_where_queues_make_them(
    broker: Broker, narrow: QueueHandle, nursery: trio.Nursery
) -> None:
    large = await fill_memory(broker)
    with pytest.raises(trio.WouldBlock):
        broker.publish_nowait("", "q", b"")
    nursery.start_soon(broker.publish, "", "q", b"1")
    await trio.sleep(10)
    assert (await narrow.statistics()).ready == 0
    await large.purge()
    assert await bodies(narrow, 1) == [(b"1", False)]
