"""The RestMS client while its broker goes and comes back, with a store and without."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from clients.restms.conftest import url_of
from triomq.app import open_broker
from triomq.clients import Reconnect
from triomq.clients.restms.feed import RestMSFeed
from triomq.clients.restms.opening import open_restms
from triomq.endpoints.restms.config import RestMS
from triomq.errors import Disconnected, NotFound
from triomq.protocols import BasicProperties

SOON = Reconnect(delay=0.01, max_delay=0.05, jitter=0.0)
SAFE = BasicProperties(delivery_mode=2)


class Place:
    """A place at which a broker is, or is not: always at the port that it had first."""

    def __init__(self, nursery: trio.Nursery, store: Path | None) -> None:
        self.store = store
        self._nursery = nursery
        self._port = 0
        self._asked_to_end = trio.Event()
        self._ended = trio.Event()

    async def open(self) -> str:
        """Start the broker, and return its URL."""
        self._asked_to_end, self._ended = trio.Event(), trio.Event()
        url: str = await self._nursery.start(self._serve)
        self._port = int(url.partition("@")[2].partition("/")[0].rpartition(":")[2])
        return url

    async def close(self) -> None:
        self._asked_to_end.set()
        await self._ended.wait()

    async def _serve(self, task_status: trio.TaskStatus[str]) -> None:
        config = RestMS(host="127.0.0.1", port=self._port)
        async with open_broker(config, data_dir=self.store) as broker:
            task_status.started(url_of(broker))
            await self._asked_to_end.wait()
        self._ended.set()


@asynccontextmanager
async def open_place(store: Path | None) -> AsyncIterator[Place]:
    async with trio.open_nursery() as nursery:
        place = Place(nursery, store)
        with trio.fail_after(30):
            yield place
        nursery.cancel_scope.cancel()


@pytest.fixture(params=[False, True], ids=["without a store", "with a store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "store" if request.param else None


async def publish_until_cancelled(feed: RestMSFeed) -> None:
    while True:
        await feed.publish(b"after", "a.b", SAFE)
        await trio.lowlevel.checkpoint()


async def test_pipe_goes_on_after_a_restart_of_its_broker(store: Path | None) -> None:
    async with open_place(store) as place:
        url = await place.open()
        async with open_restms(url, reconnect=SOON) as restms, restms.open_pipe(title="worker") as pipe:
            news = await restms.create_feed("news", "topic")
            await pipe.join(news, "a.*")
            await news.publish(b"before", "a.b", SAFE)
            before = await anext(pipe)
            assert (before.body, before.redelivered) == (b"before", False)
            await place.close()
            await place.open()
            if store is not None:
                again = await anext(pipe)
                assert (again.body, again.redelivered) == (b"before", True)
                again.accept()
            async with trio.open_nursery() as nursery:
                # Without a store the pipe is another one, from the moment at which its reader finds it gone.
                nursery.start_soon(publish_until_cancelled, news)
                assert (await anext(pipe)).body == b"after"
                nursery.cancel_scope.cancel()
            assert restms.statistics().retries > 0


async def test_ondemand_pipe_goes_on_after_a_restart_of_its_broker(store: Path | None) -> None:
    async with open_place(store) as place:
        url = await place.open()
        async with open_restms(url, reconnect=SOON) as restms, restms.open_pipe("ondemand") as pipe:
            name = pipe.name
            work = await restms.create_feed("work", "rotator")
            await pipe.join(work)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish_later, place, work)
                delivery = await anext(pipe)
            assert delivery.body == b"job"
            delivery.accept()
            assert (pipe.name == name) == (store is not None)


async def publish_later(place: Place, feed: RestMSFeed) -> None:
    """Publish when the broker has gone and come back, while a reader waits."""
    await trio.testing.wait_all_tasks_blocked(0.05)
    await place.close()
    await place.open()
    await feed.publish(b"job", "", SAFE)


async def test_publish_to_a_feed_that_went_with_its_broker_makes_it_again(store: Path | None) -> None:
    async with open_place(store) as place, open_restms(await place.open(), reconnect=SOON) as restms:
        news = await restms.create_feed("news", "topic")
        await place.close()
        await place.open()
        await restms.domain()  # what had been connected is not any more
        await news.publish(b"x", "a.b", SAFE)
        assert "news" in {each.name for each in (await restms.domain()).feeds}
        await place.close()


async def test_without_reconnect_everything_ends_with_its_broker(store: Path | None) -> None:
    async with open_place(store) as place, open_restms(await place.open()) as restms:
        scope = restms.open_pipe()
        pipe = await scope.__aenter__()
        await restms.feed().publish(b"x", pipe.name)
        (await anext(pipe)).accept()
        await pipe.flush()
        await place.close()
        with pytest.raises(Disconnected):
            await anext(pipe)
        with pytest.raises(Disconnected):
            await restms.feed().publish(b"x", pipe.name)
        with pytest.raises(Disconnected):
            await scope.__aexit__(None, None, None)


async def test_pipe_is_resumed_by_its_name_after_a_restart_with_a_store(tmp_path: Path) -> None:
    async with open_place(tmp_path / "store") as place, open_restms(await place.open()) as restms:
        scope = restms.open_pipe()
        pipe = await scope.__aenter__()
        await restms.feed().publish(b"there", pipe.name, SAFE)
        await place.close()
        await place.open()
        async with restms.resume_pipe(pipe.name) as again:
            assert (await anext(again)).body == b"there"
        await scope.__aexit__(None, None, None)
        await place.close()


async def test_resumed_pipe_that_is_gone_is_not_made_again(store: Path | None) -> None:
    async with open_place(store) as place, open_restms(await place.open(), reconnect=SOON) as restms:
        with pytest.raises(NotFound):
            async with restms.resume_pipe("pipe-missing"):
                pass
