"""A broker in a thread of its own, used from plain threads."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import signature

import pika
import pytest
import trio

from app.portal.conftest import PATIENCE, ruin
from triomq.app import AMQP, DomainHandle, QueueHandle, SinkHandle, open_broker
from triomq.app.portal import (
    AsyncioDomain,
    AsyncioQueue,
    AsyncioSink,
    BlockingBroker,
    BlockingDomain,
    BlockingQueue,
    BlockingSink,
    open_blocking_broker,
)
from triomq.app.portal.arguments import BrokerArguments, FeedArguments, QueueArguments, SinkArguments
from triomq.core import Inequivalent, NoSuchQueue, Properties
from triomq.errors import ActorStopped, ConfigError, NotFound, RestartLimitExceeded, Unroutable

# Python 3.12 and later warn of what these tests are about.
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def test_what_a_thread_publishes_another_gets(broker: BlockingBroker, queue: BlockingQueue) -> None:
    shop = broker.declare_sink("shop", "topic")
    shop.bind(queue, "order.*")
    thread = threading.Thread(
        target=broker.publish,
        args=("shop", "order.new", b"42", Properties(message_id="7")),
        kwargs={"timeout": PATIENCE},
    )
    thread.start()
    thread.join()
    delivery = queue.get(timeout=PATIENCE)
    assert delivery is not None
    assert (delivery.body, delivery.sink, delivery.key) == (b"42", "shop", "order.new")
    assert delivery.properties.message_id == "7"
    assert not delivery.redelivered
    delivery.accept()
    assert queue.get() is None


def test_many_threads_use_it_at_once(broker: BlockingBroker, queue: BlockingQueue) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: broker.publish("", "q", str(number).encode()), range(200)))
        found = list(pool.map(lambda _: queue.get(), range(200)))
    assert sorted(int(delivery.body) for delivery in found if delivery) == list(range(200))


def test_errors_of_the_broker_are_raised_in_the_calling_thread(broker: BlockingBroker, queue: BlockingQueue) -> None:
    with pytest.raises(Inequivalent):
        broker.declare_queue("q", max_length=1)
    with pytest.raises(Unroutable):
        broker.publish("amq.topic", "nobody", b"", mandatory=True)
    with pytest.raises(NoSuchQueue):
        broker.queue("other")
    with pytest.raises(ValueError, match="'blue'"):
        broker.declare_sink("s", "blue")


def test_handles_are_found_by_name(broker: BlockingBroker, queue: BlockingQueue) -> None:
    broker.publish("", "q", b"")
    assert broker.queue("q").statistics().ready == 1
    broker.sink("amq.topic").bind(queue, "k")
    assert repr(queue) == "<BlockingQueue 'q'>"
    assert repr(broker.sink("amq.topic")) == "<BlockingSink 'amq.topic'>"


def test_domains_are_apart() -> None:
    with open_blocking_broker(domains=["a", "b"]) as broker:
        broker.declare_queue("q")
        with pytest.raises(NoSuchQueue):
            broker.domain("b").queue("q")
        assert broker.domain("a").queue("q").name == "q"
        with pytest.raises(NotFound):
            broker.domain("c")


def test_a_start_that_fails_comes_out_of_the_with_bare() -> None:
    with pytest.raises(ConfigError, match="open to other machines"), open_blocking_broker(AMQP(host="0.0.0.0", port=0)):
        raise AssertionError


def test_it_listens_and_clients_connect_to_the_same_queues() -> None:
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


def test_after_the_block_calls_say_that_it_was_left() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
    with pytest.raises(ActorStopped, match="was left"):
        broker.publish("", "q", b"")
    with pytest.raises(ActorStopped, match="was left"):
        queue.get()


def test_who_waits_when_the_block_is_left_is_told() -> None:
    ended: list[type[BaseException]] = []

    def consume(queue: BlockingQueue, waits: threading.Event) -> None:
        with queue.open_feed() as feed:
            waits.set()
            try:
                feed.take()
            except ActorStopped as error:
                ended.append(type(error))

    with open_blocking_broker() as broker:
        waits = threading.Event()
        thread = threading.Thread(target=consume, args=(broker.declare_queue("q"), waits))
        thread.start()
        assert waits.wait(PATIENCE)
    thread.join(PATIENCE)
    assert ended == [ActorStopped]


@pytest.mark.usefixtures("quiet_log")
def test_a_crash_of_the_broker_comes_out_at_the_next_call_and_of_the_block() -> None:
    def use(broker: BlockingBroker) -> None:
        with broker.declare_queue("q").open_feed() as feed:
            ruin(broker.portal)
            with pytest.raises((RestartLimitExceeded, trio.BrokenResourceError)):
                feed.take(timeout=PATIENCE)
        with pytest.raises(RestartLimitExceeded):
            broker.queue("q")
        broker.publish("", "q", b"")

    with pytest.raises(RestartLimitExceeded), open_blocking_broker() as broker:
        use(broker)


@pytest.mark.usefixtures("quiet_log")
def test_a_crash_that_nobody_noticed_comes_out_of_the_block() -> None:
    with pytest.raises(RestartLimitExceeded), open_blocking_broker() as broker:
        ruin(broker.portal)


@pytest.mark.usefixtures("quiet_log")
def test_what_only_follows_from_a_crash_gives_way_to_it() -> None:
    def use(broker: BlockingBroker) -> None:
        ruin(broker.portal)
        raise trio.BrokenResourceError("the feed's domain is gone")

    with pytest.raises(RestartLimitExceeded), open_blocking_broker() as broker:
        use(broker)


@pytest.mark.usefixtures("quiet_log")
def test_an_error_in_the_block_goes_first_and_notes_the_crash() -> None:
    def use(broker: BlockingBroker) -> None:
        ruin(broker.portal)
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught, open_blocking_broker() as broker:
        use(broker)
    assert "RestartLimitExceeded" in "".join(caught.value.__notes__)


def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError) as caught, open_blocking_broker():
        raise KeyError("mine")
    assert not hasattr(caught.value, "__notes__")


def test_a_call_that_takes_too_long_is_cancelled(broker: BlockingBroker) -> None:
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


def test_a_call_whose_time_is_up_before_it_begins_never_does(broker: BlockingBroker) -> None:
    with pytest.raises(TimeoutError):
        broker._caller.call(trio.sleep_forever, timeout=0)


def test_an_error_on_the_way_out_of_a_cancelled_call_is_told(broker: BlockingBroker) -> None:
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
def test_a_fork_is_refused(broker: BlockingBroker) -> None:
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
        told = pipe.read().decode()
    os.waitpid(child, 0)
    assert told.startswith(f"RuntimeError: this is process {child}, a fork of process {os.getpid()}")
    broker.declare_queue("q")  # here it goes on


@FORKS
def test_a_fork_may_leave_the_block() -> None:
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


def test_in_the_thread_of_the_broker_itself_it_is_refused(broker: BlockingBroker) -> None:
    async def mistaken() -> None:
        broker.publish("", "q", b"")

    with pytest.raises(RuntimeError, match="would wait for itself"):
        broker._caller.call(mistaken)


def test_idle_is_waited_for_and_who_waits_too_long_is_told_why(broker: BlockingBroker, queue: BlockingQueue) -> None:
    broker.wait_idle(timeout=PATIENCE)
    broker.publish("", "q", b"")
    delivery = queue.get()
    assert delivery is not None
    with pytest.raises(TimeoutError, match=r"not idle within 0\.01 s: queue 'q' has 1 unsettled"):
        broker.wait_idle(timeout=0.01)
    delivery.accept()
    broker.wait_idle(timeout=PATIENCE)


def test_the_methods_take_what_those_in_trio_take() -> None:
    pairs: list[tuple[object, object, object]] = [
        (DomainHandle, BlockingDomain, AsyncioDomain),
        (QueueHandle, BlockingQueue, AsyncioQueue),
        (SinkHandle, BlockingSink, AsyncioSink),
    ]
    for trio_handle, blocking, in_asyncio in pairs:
        for name in ("publish", "get", "browse", "discard", "purge", "statistics", "delete", "bind", "unbind"):
            if hasattr(trio_handle, name):
                takes = list(signature(getattr(trio_handle, name)).parameters)
                assert list(signature(getattr(in_asyncio, name)).parameters) == takes
                assert list(signature(getattr(blocking, name)).parameters) == [*takes, "timeout"]


def test_arguments_that_are_handed_on_are_those_of_the_broker() -> None:
    for method, arguments in (
        (open_broker, BrokerArguments),
        (DomainHandle.declare_queue, QueueArguments),
        (DomainHandle.declare_sink, SinkArguments),
        (QueueHandle.open_feed, FeedArguments),
    ):
        takes = {name: p.annotation for name, p in signature(method).parameters.items() if p.kind is p.KEYWORD_ONLY}
        assert takes == arguments.__annotations__
