"""What holds for plain threads alone: timeouts, Ctrl-C, forks, feeds that threads share."""

import os
import signal
import threading

import pika
import pytest
import trio

from app.portal.conftest import PATIENCE
from triomq.app import AMQP
from triomq.app.portal import (
    BlockingBroker,
    BlockingFeed,
    BlockingQueue,
    open_blocking_broker,
)

# Python 3.12 and later warn of what these tests are about.
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def test_clients_connect_to_the_same_queues() -> None:
    with open_blocking_broker(AMQP(port=0)) as broker:
        (listening,) = broker.listening
        queue = broker.declare_queue("q")
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", listening.port)) as connection:
            connection.channel().basic_publish("", "q", b"by wire")
        with queue.open_feed() as feed:
            delivery = feed.take(timeout=PATIENCE)
            assert delivery is not None
            assert delivery.body == b"by wire"
        other = broker.listen(AMQP(host="127.0.0.1", port=0), timeout=PATIENCE)
        assert other.address[0] == "127.0.0.1"
        other.close(timeout=PATIENCE)
        assert len(broker.listening) == 1


def test_call_that_takes_too_long_is_cancelled(broker: BlockingBroker) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    call = broker.portal.submit(wait)
    assert begun.wait(PATIENCE)
    with pytest.raises(TimeoutError, match=r"not done within 0\.01 s"):
        broker._caller.wait(call.future, 0.01, call.withdraw)
    assert cancelled.is_set()


def test_call_whose_time_is_up_before_it_begins_never_does(broker: BlockingBroker) -> None:
    with pytest.raises(TimeoutError):
        broker._caller.call(trio.sleep_forever, timeout=0)


def test_error_of_a_call_that_is_cancelled_is_raised(broker: BlockingBroker) -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("late")

    call = broker.portal.submit(wait)
    assert begun.wait(PATIENCE)
    with pytest.raises(KeyError, match="late"):
        broker._caller.wait(call.future, 0.01, call.withdraw)


def test_ctrl_c_ends_a_call_that_waits(broker: BlockingBroker) -> None:
    cancelled: list[bool] = []

    async def wait() -> None:
        trio.lowlevel.spawn_system_task(press_ctrl_c)
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(True)

    async def press_ctrl_c() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        broker._caller.call(wait)
    assert cancelled == [True]


@FORKS
def test_fork_is_refused(broker: BlockingBroker) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            broker.publish("", "q", b"")
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        raised = pipe.read().decode()
    os.waitpid(child, 0)
    assert raised.startswith(f"RuntimeError: this is process {child}, a fork of process {os.getpid()}")
    broker.declare_queue("q")  # here it goes on


@FORKS
def test_fork_may_leave_the_block() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        child = os.fork()
        if not child:
            status = 1
            try:
                with queue.open_feed():
                    pass
            except RuntimeError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert queue.get() is None


def test_call_in_the_thread_of_the_broker_itself_is_refused(broker: BlockingBroker) -> None:
    async def mistaken() -> None:
        broker.publish("", "q", b"")

    with pytest.raises(RuntimeError, match="would wait for itself"):
        broker._caller.call(mistaken)


def test_wait_idle_that_takes_too_long_names_the_busy_queues(broker: BlockingBroker, queue: BlockingQueue) -> None:
    broker.wait_idle(timeout=PATIENCE)
    broker.publish("", "q", b"")
    delivery = queue.get()
    assert delivery is not None
    with pytest.raises(TimeoutError, match=r"not idle within 0\.01 s: queue 'q' has 1 unsettled"):
        broker.wait_idle(timeout=0.01)
    delivery.accept()
    broker.wait_idle(timeout=PATIENCE)


def fill_queue(broker: BlockingBroker, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish("", "q", body)


def test_prefetch_limits_unsettled_deliveries(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill_queue(broker, *[b"x"] * 5)
    with queue.open_feed(prefetch=2) as feed:
        first = feed.take(timeout=PATIENCE)
        second = feed.take(timeout=PATIENCE)
        assert first is not None
        assert second is not None
        with pytest.raises(TimeoutError, match=r"no delivery within 0\.01 s"):
            feed.take(timeout=0.01)
        second.accept()
        third = feed.take(timeout=PATIENCE)
        assert third is not None


def test_deliveries_are_settled_in_any_thread(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill_queue(broker, *[b"x"] * 100)
    with queue.open_feed(prefetch=10) as feed:
        for _ in range(100):
            delivery = feed.take(timeout=PATIENCE)
            assert delivery is not None
            threading.Thread(target=delivery.accept).start()
    assert queue.statistics().ready == 0


def test_threads_share_a_feed(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill_queue(broker, *[str(number).encode() for number in range(100)])
    found: list[bytes] = []
    enough = threading.Event()

    def work(feed: BlockingFeed) -> None:
        for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 100:
                enough.set()

    with queue.open_feed(prefetch=10) as feed:
        threads = [threading.Thread(target=work, args=(feed,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)  # the feed that is closed has ended their iteration
        assert not thread.is_alive()
    assert sorted(map(int, found)) == list(range(100))


def test_ctrl_c_ends_an_iteration_and_loses_nothing(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill_queue(broker, b"1")
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), queue.open_feed() as feed:  # noqa: PT012  it comes in the loop
        for _ in feed:
            timer.start()
    timer.join()
    again = queue.get()
    assert again is not None
    assert (again.body, again.redelivered) == (b"1", True)
