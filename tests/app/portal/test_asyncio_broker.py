"""A broker for asyncio."""

import asyncio
import threading
from pathlib import Path

import pytest

from app.portal.conftest import PATIENCE, ruin, with_asyncio
from triomq.app import AMQP
from triomq.app.portal import AsyncioBroker, BlockingBroker, open_asyncio_broker, open_blocking_broker
from triomq.core import Inequivalent, NoSuchQueue, Properties
from triomq.errors import ActorStopped, ConfigError, RestartLimitExceeded


@with_asyncio
async def test_what_one_task_publishes_another_gets(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(queue, "order.*")
    await broker.publish("shop", "order.new", b"42", Properties(message_id="7"))
    delivery = await queue.get()
    assert delivery is not None
    assert (delivery.body, delivery.key, delivery.properties.message_id) == (b"42", "order.new", "7")
    delivery.accept()
    assert await queue.get() is None


@with_asyncio
async def test_many_tasks_use_it_at_once(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    await asyncio.gather(*[broker.publish("", "q", str(number).encode()) for number in range(200)])
    found = await asyncio.gather(*[queue.get() for _ in range(200)])
    assert sorted(int(delivery.body) for delivery in found if delivery) == list(range(200))


@with_asyncio
async def test_errors_of_the_broker_are_raised_in_the_task(broker: AsyncioBroker) -> None:
    await broker.declare_queue("q")
    with pytest.raises(Inequivalent):
        await broker.declare_queue("q", max_length=1)
    with pytest.raises(NoSuchQueue):
        broker.queue("other")
    assert broker.queue("q").name == "q"
    assert broker.sink("amq.topic").name == "amq.topic"


@with_asyncio
async def test_it_listens_and_stops_listening(broker: AsyncioBroker) -> None:
    listening = await broker.listen(AMQP(host="127.0.0.1", port=0))
    assert listening.address == ("127.0.0.1", listening.port)
    assert [other.port for other in broker.listening] == [listening.port]
    _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.close()
    await listening.aclose()
    assert broker.listening == []


def test_what_it_keeps_on_disk_can_be_copied(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_asyncio_broker(data_dir=tmp_path / "data", store_host="thread") as broker:
            await broker.declare_queue("q")
            await broker.publish("", "q", b"x")
            await broker.back_up(tmp_path / "copy")

    asyncio.run(main())
    with open_blocking_broker(data_dir=tmp_path / "copy", store_host="thread") as blocking:
        delivery = blocking.queue("q").get(timeout=PATIENCE)
        assert delivery is not None
        assert delivery.body == b"x"
        blocking.back_up(tmp_path / "again", timeout=PATIENCE)
    assert (tmp_path / "again").exists()


def test_domains_are_apart() -> None:
    async def main() -> None:
        async with open_asyncio_broker(domains=["a", "b"]) as broker:
            await broker.declare_queue("q")
            with pytest.raises(NoSuchQueue):
                broker.domain("b").queue("q")

    asyncio.run(main())


def test_a_start_that_fails_comes_out_of_the_with_bare() -> None:
    async def main() -> None:
        async with open_asyncio_broker(AMQP(host="0.0.0.0", port=0)):
            raise AssertionError

    with pytest.raises(ConfigError, match="open to other machines"):
        asyncio.run(main())


@pytest.mark.usefixtures("quiet_log")
def test_a_crash_of_the_broker_comes_out_at_the_next_call_and_of_the_block() -> None:
    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await asyncio.to_thread(ruin, broker.portal)
            with pytest.raises(RestartLimitExceeded):
                await broker.declare_queue("q")

    with pytest.raises(RestartLimitExceeded):
        asyncio.run(main())


@pytest.mark.usefixtures("quiet_log")
def test_an_error_in_the_block_goes_first_and_notes_the_crash() -> None:
    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await asyncio.to_thread(ruin, broker.portal)
            raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        asyncio.run(main())
    assert "RestartLimitExceeded" in "".join(caught.value.__notes__)


@pytest.mark.usefixtures("quiet_log")
def test_what_only_follows_from_a_crash_gives_way_to_it() -> None:
    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await asyncio.to_thread(ruin, broker.portal)
            raise ActorStopped("a queue")

    with pytest.raises(RestartLimitExceeded):
        asyncio.run(main())


def test_a_cancelled_block_ends_the_broker_at_once() -> None:
    async def main() -> None:
        opened: asyncio.Queue[AsyncioBroker] = asyncio.Queue()

        async def use() -> None:
            async with open_asyncio_broker() as broker:
                opened.put_nowait(broker)
                await asyncio.Event().wait()

        using = asyncio.create_task(use())
        broker = await opened.get()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        with pytest.raises(ActorStopped, match="was left"):
            await broker.declare_queue("q")

    asyncio.run(main())


def test_loops_in_several_threads_have_brokers_of_their_own() -> None:
    found: list[bytes] = []

    async def main() -> None:
        async with open_asyncio_broker() as broker:
            queue = await broker.declare_queue("q")
            for _ in range(50):
                await broker.publish("", "q", threading.current_thread().name.encode())
            async with queue.open_feed() as feed:
                for _ in range(50):
                    delivery = await anext(feed)
                    delivery.accept()
                    found.append(delivery.body)

    threads = [threading.Thread(target=lambda: asyncio.run(main()), name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == [b"a"] * 50 + [b"b"] * 50


def test_one_broker_is_reached_from_threads_and_from_several_loops() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")

        async def main() -> None:
            await AsyncioBroker(broker.portal).publish("", "q", b"from asyncio")

        asyncio.run(main())
        asyncio.run(main())
        assert queue.statistics().ready == 2

    async def other() -> None:
        async with open_asyncio_broker() as broker:
            blocking = BlockingBroker(broker.portal)
            await asyncio.to_thread(blocking.declare_queue, "q")
            assert (await broker.queue("q").statistics()).ready == 0

    asyncio.run(other())


def test_another_loop_than_its_own_is_refused() -> None:
    async def use(broker: AsyncioBroker) -> None:
        with pytest.raises(RuntimeError, match=r"AsyncioBroker\(broker\.portal\)"):
            await broker.declare_queue("q")

    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await asyncio.to_thread(lambda: asyncio.run(use(broker)))

    asyncio.run(main())


@with_asyncio
async def test_idle_is_waited_for(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    await broker.publish("", "q", b"")
    delivery = await queue.get()
    assert delivery is not None
    waiting = asyncio.create_task(broker.wait_idle())
    await asyncio.sleep(0)
    assert not waiting.done()
    delivery.accept()
    await waiting


def test_a_loop_that_is_dropped_does_not_disturb_the_broker() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        loop = asyncio.new_event_loop()

        async def make() -> AsyncioBroker:
            return AsyncioBroker(broker.portal)

        inner = loop.run_until_complete(make())
        loop.close()
        inner._caller.lane.send(lambda: None)
        assert queue.get() is None
