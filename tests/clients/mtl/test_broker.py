"""The client with a broker of ours: leases that move, users by keys, and a broker that is restarted."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ports import free_port
from triomq.app import Broker, User, open_broker
from triomq.clients import BasicProperties, MTLConnection, MTLReader, MTLWriter, Reconnect, open_mtl
from triomq.endpoints import MTL
from triomq.errors import AccessRefused, ConsumerCancelled, LimitExceeded, NotFound, PreconditionFailed
from triomq.security import ALL
from triomq.transports import make_curve_keys, write_curve_keys

SOON = Reconnect(delay=0.01, max_delay=0.05, jitter=0.0)
SAFE = BasicProperties(delivery_mode=2)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    with trio.fail_after(60):
        async with open_broker() as broker:
            yield broker


@pytest.fixture
async def mtl(broker: Broker) -> AsyncIterator[MTLConnection]:
    listening = await broker.listen(MTL(port=0))
    async with open_mtl(f"mtl://guest:guest@127.0.0.1:{listening.port}", reconnect=SOON) as mtl:
        await mtl.call("Queue.Create", {"name": "q"})
        yield mtl


async def publish_all(writer: MTLWriter, count: int, properties: BasicProperties | None = None) -> None:
    async with writer.open_pipeline() as pipeline:
        for number in range(count):
            await pipeline.publish(b"%d" % number, properties=properties)


async def take(reader: MTLReader, count: int) -> list[int]:
    taken = []
    async for delivery in reader:
        delivery.accept()
        taken.append(int(delivery.body))
        if len(taken) == count:
            break
    return taken


async def messages(mtl: MTLConnection) -> int:
    found: int = (await mtl.call("Queue.Stats", {"name": "q"}))["messages"]
    return found


@pytest.mark.parametrize("confirm", ["none", "full"])
async def test_contents_come_as_they_were_published(mtl: MTLConnection, confirm: str) -> None:
    assert confirm == "none" or confirm == "full"
    async with mtl.open_writer("q", confirm=confirm) as writer:
        for number in range(300):
            await writer.publish(b"%d" % number, properties=BasicProperties(headers={"number": number}))
    async with mtl.open_reader("q", confirm=confirm) as reader:
        for number in range(300):
            delivery = await anext(reader)
            assert delivery.body == b"%d" % number
            assert delivery.properties.headers == {"number": number}
            delivery.accept()
    assert await messages(mtl) == 0


async def test_lease_that_moves_again_and_again_has_each_content_once(mtl: MTLConnection) -> None:
    count = 20_000
    async with mtl.open_writer("q") as writer, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def lose() -> None:
            while writer.reconnects < 5:
                writer.lose()
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()

        with trio.CancelScope(shield=True):
            await publish_all(writer, count)
            while writer.reconnects < 5:
                await trio.lowlevel.checkpoint()
    async with mtl.open_reader("q", prefetch=1000) as reader:
        assert await take(reader, count) == list(range(count))
    assert await messages(mtl) == 0


async def test_reader_that_comes_back_gets_what_it_has_not_settled_and_nothing_else(mtl: MTLConnection) -> None:
    async with mtl.open_writer("q") as writer:
        await publish_all(writer, 10)
    async with mtl.open_reader("q") as reader:
        assert await take(reader, 4) == [0, 1, 2, 3]
        while (await mtl.call("Queue.Stats", {"name": "q"}))["unconfirmed"] > 6:  # until the broker has the confirms
            await trio.lowlevel.checkpoint()
        reader.lose()
        again = []
        while len(again) < 6:
            delivery = await anext(reader)
            if delivery.redelivered:
                again.append(int(delivery.body))
        assert again == [4, 5, 6, 7, 8, 9]


async def test_what_a_reader_has_accepted_when_it_is_cancelled_does_not_come_again(
    broker: Broker, mtl: MTLConnection
) -> None:
    url = f"mtl://guest:guest@{mtl.url.host}:{mtl.url.port}"
    async with mtl.open_writer("q") as writer:
        for number in range(8):
            await writer.publish(b"%d" % number)
            with trio.CancelScope() as scope:
                async with open_mtl(url) as other, other.open_reader("q", prefetch=1) as reader:
                    (await anext(reader)).accept()
                    scope.cancel()
            assert scope.cancelled_caught
    assert await messages(mtl) == 0


async def test_what_a_reader_has_not_settled_when_it_ends_goes_back_at_once(mtl: MTLConnection) -> None:
    async with mtl.open_writer("q") as writer:
        await publish_all(writer, 3)
    for _ in range(70):  # more than a session may have leases at a time
        async with mtl.open_reader("q") as reader:
            await anext(reader)
    async with mtl.open_reader("q") as reader:
        assert await take(reader, 3) == [0, 1, 2]


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256"])
async def test_virtual_host_that_is_not_there_is_named(broker: Broker, mechanism: str) -> None:
    listening = await broker.listen(MTL(port=0))
    with pytest.raises(NotFound, match="'elsewhere'"):
        async with open_mtl(f"mtl://guest:guest@127.0.0.1:{listening.port}/elsewhere?auth_mechanism={mechanism}"):
            pass


async def test_what_the_broker_refuses_is_an_error(mtl: MTLConnection) -> None:
    with pytest.raises(PreconditionFailed, match="409"):
        await mtl.call("Queue.Create", {"name": "q", "durable": False})
    with pytest.raises(NotFound, match="404"):
        async with mtl.open_reader("nowhere"):
            pass
    await mtl.call("Queue.Create", {"name": "short", "max-length": 1})
    async with mtl.open_writer("short") as writer:
        await writer.publish(b"one")
        with pytest.raises(LimitExceeded, match="no room"):
            await writer.publish(b"two")


async def test_deleted_queue_ends_its_reader(mtl: MTLConnection) -> None:
    async with mtl.open_reader("q") as reader:
        await mtl.call("Queue.Delete", {"name": "q"})
        with pytest.raises(ConsumerCancelled, match="has ended 'q'"):
            await anext(reader)


async def test_user_comes_by_keys(broker: Broker, tmp_path: Path) -> None:
    ours, theirs, foreign = make_curve_keys(), make_curve_keys(), make_curve_keys()
    for name, keys in (("ada", ours), ("broker", theirs), ("eve", foreign)):
        write_curve_keys(tmp_path / f"{name}.key", keys)
    users = {"ada": User(password="secret", permissions={"*": ALL}, curve_key=ours.public)}
    config = MTL(port=free_port(), security="curve", key_file=str(tmp_path / "broker.key"))
    options = f"server_key={tmp_path}/broker.key&timeout=5"
    async with open_broker(config, users=users):
        url = f"mtl://127.0.0.1:{config.port}?keys={tmp_path}/ada.key&{options}"
        async with open_mtl(url) as mtl:
            await mtl.call("Queue.Create", {"name": "q"})
            async with mtl.open_writer("q") as writer:
                await writer.publish(b"one")
            assert await messages(mtl) == 1
        with pytest.raises(AccessRefused):
            async with open_mtl(url.replace("mtl://", "mtl://ada:wrong@")):
                pass


class Restarting:
    """A broker with a store that can be restarted."""

    def __init__(self, folder: Path) -> None:
        self._config = MTL(port=free_port(), data_port=free_port())
        self.url = f"mtl://guest:guest@127.0.0.1:{self._config.port}?timeout=5"
        self._folder = folder
        self._stop: Callable[[], None] = lambda: None
        self._is_back = trio.Event()

    async def run(self) -> None:
        while True:
            stopping = trio.Event()
            self._stop = stopping.set
            async with open_broker(self._config, data_dir=self._folder, drain=0.05):
                self._is_back.set()
                await stopping.wait()

    async def restart(self) -> None:
        self._is_back = trio.Event()
        self._stop()
        await self._is_back.wait()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[MTLConnection]:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.run)
                await self._is_back.wait()
                async with open_mtl(self.url, reconnect=SOON) as mtl:
                    await mtl.call("Queue.Create", {"name": "q", "durable": True})
                    yield mtl
                nursery.cancel_scope.cancel()


async def test_all_goes_on_while_the_broker_is_restarted_and_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    count = 3000
    place = Restarting(tmp_path)
    async with place.opened() as mtl, mtl.open_reader("q") as reader, mtl.open_writer("q") as writer:
        found: set[int] = set()

        async def read() -> None:
            async for delivery in reader:
                delivery.accept()
                found.add(int(delivery.body))
                if len(found) == count:
                    break

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(publish_all, writer, count, SAFE)
            for _ in range(2):
                await place.restart()
        assert found == set(range(count))
        assert mtl.statistics().reconnects >= 2
