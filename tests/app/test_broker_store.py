"""A broker in this process with a data directory: opening, copying, leaving."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio

from app.conftest import got
from triomq import Broker, Properties, open_broker
from triomq.app import Browsed
from triomq.core import NotResident
from triomq.errors import (
    LimitExceeded,
    NotAllWritten,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreLost,
    StoreTooNew,
    StoreUnwritable,
)
from triomq.store import DirectoryLock
from triomq.store.hosting import HostKind

PATIENCE = 100.0  # seconds until a test that waits for what never comes is over
HOSTS: list[HostKind] = ["process", "thread"]


@asynccontextmanager
async def opened(directory: Path, host: HostKind = "thread") -> AsyncIterator[Broker]:
    with trio.fail_after(PATIENCE):
        async with open_broker(data_dir=directory, store_host=host) as broker:
            yield broker


async def bodies(broker: Broker, queue: str = "q") -> list[bytes]:
    return [message.body for message in await broker.queue(queue).browse()]


@pytest.mark.parametrize("host", HOSTS)
async def test_messages_are_there_when_the_broker_is_opened_again(tmp_path: Path, host: HostKind) -> None:
    async with opened(tmp_path, host) as broker:
        queue = await broker.declare_queue("q")
        sink = await broker.declare_sink("shop", "topic")
        await sink.bind(queue, "order.*")
        await broker.publish("shop", "order.new", b"kept", Properties(message_id="7", headers={"a": 1}))
        await broker.publish("shop", "order.new", b"transient", Properties(persistent=False))
        broker.publish_nowait("shop", "order.new", b"not awaited")
    async with opened(tmp_path, host) as broker:
        assert await bodies(broker) == [b"kept", b"not awaited"]
        delivery = await got(broker.queue("q"))
        assert (delivery.properties.message_id, delivery.properties.headers) == ("7", {"a": 1})
        delivery.accept()
        await broker.publish("shop", "order.old", b"new")
    async with opened(tmp_path, host) as broker:
        assert await bodies(broker) == [b"not awaited", b"new"]


@pytest.mark.parametrize("host", HOSTS)
async def test_broker_whose_block_is_cancelled_writes_what_is_left(tmp_path: Path, host: HostKind) -> None:
    with trio.CancelScope() as block:
        async with opened(tmp_path, host) as broker:
            queue = await broker.declare_queue("q")
            await broker.publish("", "q", b"x")
            (await got(queue)).accept()
            broker.publish_nowait("", "q", b"not awaited")
            block.cancel()
            await trio.lowlevel.checkpoint()
    async with opened(tmp_path, host) as broker:
        assert await bodies(broker) == [b"not awaited"]


async def lose_directory(directory: Path, host: HostKind) -> None:
    """Have a broker whose directory is moved away, with an acknowledgement that it cannot write."""
    async with opened(directory, host) as broker:
        persistence = broker.directory.persistence
        assert persistence is not None
        queue = await broker.declare_queue("q")
        await broker.publish("", queue.name, b"1")
        os.rename(directory, directory.with_name("moved"))
        delivery = await queue.get()
        assert delivery is not None
        delivery.accept()
        while persistence.journal.fault is None:  # noqa: ASYNC110  # no event says so
            await trio.sleep(0.01)
        with pytest.raises(StoreLost, match="was not published"):
            await broker.publish("", queue.name, b"2")
        with pytest.raises(LimitExceeded, match="cannot be declared as durable"):
            await broker.declare_queue("new")
        await broker.declare_queue("transient", durable=False)


@pytest.mark.parametrize("host", HOSTS)
async def test_block_of_a_broker_whose_directory_is_gone_says_what_is_not_on_disk(
    tmp_path: Path, host: HostKind
) -> None:
    with pytest.raises(NotAllWritten, match=r"not on disk are 1 x acknowledgement.*/moved\. Move it back"):
        await lose_directory(tmp_path / "data", host)
    with pytest.raises(StoreLost, match=r"to begin with an empty store, delete .*/data\.lost"):
        await lose_directory(tmp_path / "data", host)


async def test_settlings_can_be_awaited_until_they_are_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as broker:
        queue = await broker.declare_queue("q")
        await broker.publish("", "q", b"x")
        async with queue.open_feed() as feed:
            (await anext(feed)).accept()
            await feed.wait_settled()
            with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
                assert not connection.execute("SELECT 1 FROM segment").fetchone()


async def test_settlings_without_a_store_are_not_waited_for() -> None:
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        await broker.publish("", "q", b"x")
        async with queue.open_feed() as feed:
            (await anext(feed)).accept()
            await feed.wait_settled()


async def test_unsettled_messages_come_back_marked(tmp_path: Path) -> None:
    async with opened(tmp_path) as broker:
        queue = await broker.declare_queue("q")
        await broker.publish("", "q", b"x")
        async with queue.open_feed() as feed:
            await anext(feed)
    async with opened(tmp_path) as broker:
        delivery = await got(broker.queue("q"))
        assert delivery.redelivered


async def test_error_in_the_block_loses_nothing_that_was_awaited(tmp_path: Path) -> None:
    with pytest.raises(KeyError):  # noqa: PT012  bare
        async with opened(tmp_path) as broker:
            await broker.declare_queue("q")
            await broker.publish("", "q", b"x")
            raise KeyError
    async with opened(tmp_path) as broker:
        assert await bodies(broker) == [b"x"]


async def test_copy_has_all_awaited_messages_and_another_broker_can_use_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as broker:
        await broker.declare_queue("q")
        await broker.publish("", "q", b"before")
        await broker.back_up(tmp_path / "copy")
        await broker.publish("", "q", b"behind")
        async with opened(tmp_path / "copy") as other:
            assert await bodies(other) == [b"before"]
            await other.publish("", "q", b"its own")
    async with opened(tmp_path / "data") as broker:
        assert await bodies(broker) == [b"before", b"behind"]


async def test_relative_path_is_from_where_the_program_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    async with opened(tmp_path / "data", "process") as broker:
        monkeypatch.chdir(tmp_path / "elsewhere")  # the store's process has not moved
        await broker.back_up("copy")
    assert (tmp_path / "elsewhere" / "copy" / "store.db").exists()


@pytest.mark.parametrize("name", ["there", "missing/copy", "there/copy"])
async def test_copy_that_cannot_be_made_says_so_and_all_goes_on(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").touch()
    async with opened(tmp_path / "data") as broker:
        with pytest.raises(StoreUnwritable, match=name):
            await broker.back_up(tmp_path / name)
        await broker.declare_queue("q")


async def test_broker_in_memory_has_nothing_to_copy(tmp_path: Path) -> None:
    async with open_broker() as broker:
        assert broker.recovered_domains == []
        with pytest.raises(StoreError, match="open it with data_dir"):
            await broker.back_up(tmp_path / "copy")


async def test_domain_that_is_not_opened_stays_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as broker:
        shop = await broker.add_domain("shop")
        await shop.declare_queue("q")
        await shop.publish("", "q", b"x")
    async with opened(tmp_path) as broker:
        assert "shop" not in broker.domains
        assert sorted(broker.recovered_domains) == ["default", "shop"]
        await broker.declare_queue("q")
    async with opened(tmp_path) as broker:
        shop = await broker.add_domain("shop")
        assert [message.body for message in await shop.queue("q").browse()] == [b"x"]


def spoil_with_garbage(directory: Path) -> None:
    directory.mkdir()
    (directory / "store.db").write_bytes(b"no database" * 1000)


def spoil_with_a_later_version(directory: Path) -> None:
    async def make() -> None:
        async with opened(directory):
            pass

    trio.run(make)
    with closing(sqlite3.connect(directory / "store.db")) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("spoil", "error", "text"),
    [
        (spoil_with_garbage, StoreCorrupt, "store.db is damaged"),
        (spoil_with_a_later_version, StoreTooNew, "has format 99"),
        (Path.touch, StoreUnwritable, "is no directory"),
    ],
)
def test_directory_that_cannot_be_used_is_an_error_without_a_group_around_it(
    tmp_path: Path, host: HostKind, spoil: Callable[[Path], None], error: type[StoreError], text: str
) -> None:
    spoil(tmp_path / "data")

    async def fail() -> None:
        async with opened(tmp_path / "data", host):
            raise AssertionError

    with pytest.raises(error, match=text):
        trio.run(fail)


async def test_directory_that_another_broker_has_is_an_error_after_a_while(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(StoreLocked, match="also after 5 s"):
        async with opened(tmp_path):
            raise AssertionError


async def test_request_that_learns_late_of_a_read_does_not_wait_for_ever(virtual_time: None) -> None:
    async with open_broker() as broker:
        await broker.declare_queue("q")
        queue = broker.directory.queues["q"]
        error = NotResident(queue)  # as a queue answers; the caller goes on later
        queue.notify_arrived()
        with trio.fail_after(1):
            await error.wait_over()


async def test_messages_that_are_damaged_on_disk_are_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as broker:
        for name in ("q", "well"):
            await broker.declare_queue(name)
            await broker.publish("", name, b"x")
    async with opened(tmp_path) as broker:
        await broker.publish("", "q", b"y")  # in a record of its own
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("UPDATE body SET octets = x'00' WHERE body = 1")
    async with opened(tmp_path) as broker:
        assert await bodies(broker, "q") == [b"y"]
        assert await bodies(broker, "well") == [b"x"]


async def test_browse_and_discard_reach_messages_that_are_only_on_disk(tmp_path: Path) -> None:
    expected = {b"%04d" % number + bytes(1000) for number in range(500)}
    async with open_broker(data_dir=tmp_path, queue_memory=64 * 1024, store_host="thread") as broker:
        queue = await broker.declare_queue("q")
        async with trio.open_nursery() as nursery:
            for body in expected:
                nursery.start_soon(broker.publish, "", "q", body)
        seen: list[Browsed] = []
        while page := await queue.browse(after=seen[-1].id if seen else 0, limit=7):
            seen += page
        assert [each.body for each in await queue.browse(limit=1000)] == [each.body for each in seen]
        assert {each.body for each in seen} == expected
        assert await queue.discard(seen[399].id) == 400
        assert (await queue.statistics()).ready == 100
        assert [each.body for each in await queue.browse(limit=1000)] == [each.body for each in seen[400:]]
        assert await queue.discard(seen[-1].id) == 100
        assert await queue.browse() == []
