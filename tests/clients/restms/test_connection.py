"""The RestMS client against a broker: feeds, pipes, joins, messages both ways."""

import pytest
import trio

from clients.restms.conftest import url_of
from triomq.app import Broker
from triomq.clients.restms.connection import RestMSConnection
from triomq.clients.restms.feed import RestMSMessage
from triomq.clients.restms.opening import open_restms
from triomq.clients.restms.pipe import RestMSPipe
from triomq.errors import AccessRefused, Disconnected, NotFound, Refused
from triomq.protocols import BasicProperties


async def take(pipe: RestMSPipe, count: int) -> list[bytes]:
    found: list[bytes] = []
    with trio.fail_after(10):
        async for delivery in pipe:
            found.append(delivery.body)
            delivery.accept()
            if len(found) == count:
                break
    return found


async def test_message_goes_from_a_feed_to_a_pipe(url: str) -> None:
    async with open_restms(url) as restms:
        news = await restms.create_feed("news", "topic", title="News")
        async with restms.open_pipe(title="reader") as pipe:
            await pipe.join(news, "rec.*")
            await news.publish(b"no", "other")
            await news.publish(b"hi", "rec.cats", BasicProperties(message_id="7", headers={"k": "v"}))
            with trio.fail_after(10):
                delivery = await anext(pipe)
            assert (delivery.body, delivery.address, delivery.redelivered) == (b"hi", "rec.cats", False)
            assert delivery.properties == BasicProperties(message_id="7", headers={"k": "v"})


@pytest.mark.parametrize("size", [0, 1, 70_000, 300_000, 3_000_000])
async def test_body_of_any_size_comes_as_it_went(url: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        await restms.feed().publish(body, pipe.name, BasicProperties(content_type="a/b", priority=3))
        with trio.fail_after(10):
            delivery = await anext(pipe)
        assert delivery.body == body
        assert delivery.properties == BasicProperties(content_type="a/b", priority=3)


async def test_messages_of_one_request_come_in_their_order(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        bodies = [b"%d" % number for number in range(1000)]
        await restms.feed().publish_many(RestMSMessage(body, pipe.name) for body in bodies)
        assert await take(pipe, 1000) == bodies
        assert restms.statistics().busy == 1


async def test_message_that_is_not_accepted_stays_in_its_pipe(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        for body in (b"1", b"2", b"3", b"4"):
            await restms.feed().publish(body, pipe.name)
        async with restms.resume_pipe(pipe.name) as first:
            deliveries = [await anext(first) for _ in range(3)]
            deliveries[1].accept()
        async with restms.resume_pipe(pipe.name) as second:
            assert await take(second, 2) == [b"3", b"4"]


async def test_request_is_answered_at_the_name_of_a_pipe(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as replies, trio.open_nursery() as nursery:
        service = await restms.create_feed("fortune", "service")
        ready = trio.Event()

        async def serve() -> None:
            async with open_restms(url) as worker, worker.open_pipe("ondemand") as pipe:
                await pipe.join(worker.feed("fortune"))
                ready.set()
                async for request in pipe:
                    await worker.feed().publish(b"cookie", request.properties.reply_to or "")
                    request.accept()

        nursery.start_soon(serve)
        await ready.wait()
        await service.publish(b"?", properties=BasicProperties(reply_to=replies.name))
        assert await take(replies, 1) == [b"cookie"]
        nursery.cancel_scope.cancel()


async def test_feeds_are_in_the_domain_until_they_are_deleted(url: str) -> None:
    async with open_restms(url) as restms:
        feed = await restms.create_feed("news", "fanout")
        assert "news" in {each.name for each in (await restms.domain()).feeds}
        await feed.delete()
        assert "news" not in {each.name for each in (await restms.domain()).feeds}
        with pytest.raises(NotFound, match="404"):
            await feed.publish(b"x")


async def test_private_feed_is_one_more_each_time(url: str) -> None:
    async with open_restms(url) as restms:
        one, other = await restms.create_feed(type="fanout"), await restms.create_feed(type="fanout")
        assert one.uri != other.uri
        async with restms.open_pipe() as pipe:
            await pipe.join(one)
            await other.publish(b"no")
            await one.publish(b"yes")
            assert await take(pipe, 1) == [b"yes"]
            await pipe.leave(one)
            await one.publish(b"no more")
            await restms.feed().publish(b"last", pipe.name)
            assert await take(pipe, 1) == [b"last"]


async def test_headers_of_a_join_select(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        feed = await restms.create_feed("h", "headers")
        await pipe.join(feed, headers={"kind": "a"})
        await feed.publish(b"no", properties=BasicProperties(headers={"kind": "b"}))
        await feed.publish(b"yes", properties=BasicProperties(headers={"kind": "a"}))
        assert await take(pipe, 1) == [b"yes"]


async def test_pipe_is_deleted_with_its_block(url: str) -> None:
    async with open_restms(url) as restms:
        async with restms.open_pipe() as pipe:
            pass
        with pytest.raises(NotFound):
            async with restms.resume_pipe(pipe.name):
                pass


async def test_pipe_that_is_deleted_by_another_one_ends_its_reader(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as pipe, trio.open_nursery() as nursery:
        nursery.start_soon(_delete_once_read, restms, pipe)
        with trio.fail_after(10), pytest.raises(NotFound):
            async for _ in pipe:
                pass


async def _delete_once_read(restms: RestMSConnection, pipe: RestMSPipe) -> None:
    while not restms.statistics().busy:
        await trio.lowlevel.checkpoint()
    await pipe.delete()


async def test_refusals_are_errors_that_say_why(broker: Broker, url: str) -> None:
    async with open_restms(url) as restms:
        with pytest.raises(Refused, match="400 the type of the feed is 'system'"):
            await restms.create_feed("x", "system")
        async with restms.open_pipe() as pipe:
            with pytest.raises(AccessRefused, match="403"):
                await pipe.join(restms.feed())
            with pytest.raises(NotFound, match="404 there is no feed"):
                await pipe.join(restms.feed("missing"))
    for wrong, error in (("guest:wrong", AccessRefused), ("", AccessRefused)):
        with pytest.raises(error, match="401"):
            async with open_restms(url_of(broker, wrong).replace("//@", "//")):
                pass
    with pytest.raises(NotFound):
        async with open_restms(url_of(broker, domain="missing")):
            pass


async def test_error_in_the_block_comes_out_bare(url: str) -> None:
    async def fail() -> None:
        async with open_restms(url) as restms, restms.open_pipe() as pipe:
            await restms.feed().publish(b"x", pipe.name)
            await anext(pipe)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()


async def test_connections_are_used_again(url: str) -> None:
    async with open_restms(url) as restms:
        for _ in range(5):
            await restms.domain()
        statistics = restms.statistics()
        assert (statistics.idle, statistics.busy, statistics.requests) == (1, 0, 6)


async def test_request_that_is_cancelled_takes_its_connection_with_it(url: str) -> None:
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        with trio.move_on_after(0):
            await restms.domain()
        assert restms.statistics().busy == 0
        await restms.feed().publish(b"x", pipe.name)
        assert await take(pipe, 1) == [b"x"]


async def test_nobody_at_home_is_disconnected() -> None:
    with pytest.raises(Disconnected, match="no broker can be reached"):
        async with open_restms("http://127.0.0.1:1"):
            pass
