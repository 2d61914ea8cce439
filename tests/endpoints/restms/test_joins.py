"""Joins: what leads from feeds, in RestMS's sense, into pipes (2/RestMS, joins; 3/Defaults; 4/AMQP9)."""

from pathlib import Path

import pytest
import trio
import trio.testing

from endpoints.restms.caller import DEFAULT, DOMAIN, Caller, PipeCaller, open_restms, path_of, read, restms_of, text_of
from endpoints.restms.test_pipes import waiting
from endpoints.toys.http_peer import Reply
from triomq.app import Broker, User
from triomq.core import DeleteSink
from triomq.security import ALL, Permission, UserLimits


async def test_join_is_shown_listed_and_deleted(caller: Caller) -> None:
    feed, pipe = await caller.make_feed("news", "topic"), await caller.make_pipe()
    join = await pipe.join(feed, "a.*")
    (shown,) = read(await caller.get(join)).joins
    assert (shown.type, shown.address, shown.feed) == ("", "a.*", "http://toy/restms/feed/news")
    assert path_of((await pipe.document()).joins[1].href or "") == join
    assert (await caller.put(join, "<join/>")).status == 403
    assert (await caller.post(join, "<join/>")).status == 403
    assert (await caller.delete(join)).status == 200
    await caller.send(feed, "x", address="a.b")
    assert await pipe.texts() == []
    assert (await caller.get(join)).status == 404
    assert (await caller.delete(join)).status == 200


async def test_join_leads_what_comes_from_now_on_and_what_a_rotator_has_kept(caller: Caller) -> None:
    news, work = await caller.make_feed("news", "fanout"), await caller.make_feed("work", "rotator")
    pipe = await caller.make_pipe()
    for feed in (news, work):
        await caller.send(feed, f"before, {feed.rpartition('/')[2]}")
        await pipe.join(feed)
        await caller.send(feed, f"after, {feed.rpartition('/')[2]}")
    assert sorted(await pipe.texts()) == ["after, news", "after, work", "before, work"]


@pytest.mark.parametrize("type_", ["", "fanout", "topic", "headers", "rotator"])
async def test_same_join_is_made_once(caller: Caller, type_: str) -> None:
    feed, pipe = await caller.make_feed("news", type_), await caller.make_pipe()
    document = f'<join feed="{feed}" address="a"><header name="b" value="c"/></join>'
    replies = [await caller.post(pipe.path, document) for _ in range(3)]
    assert [reply.status for reply in replies] == [201, 200, 200]
    assert len({reply.headers["location"] for reply in replies}) == 1
    await caller.post(feed, '<message address="a"><header name="b" value="c"/><content>x</content></message>')
    assert await pipe.texts() == ["x"]


async def test_pipe_has_a_limit_of_joins_and_a_join_of_headers(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    await caller.make_feed("news", "headers")
    headers = "".join(f'<header name="h{number}" value="v"/>' for number in range(33))
    reply = await caller.post(pipe.path, f'<join feed="/restms/feed/news">{headers}</join>')
    assert (reply.status, reply.headers["restms-error"]) == (503, "overloaded")
    for number in range(1_000):
        await pipe.join("/restms/feed/amq.direct", str(number))
    await pipe.join("/restms/feed/amq.direct", "7")
    reply = await caller.post(pipe.path, '<join feed="/restms/feed/amq.direct" address="one more"/>')
    assert (reply.status, reply.headers["restms-error"]) == (503, "overloaded")
    assert len((await pipe.document()).joins) == 1_001


async def test_default_join_cannot_be_deleted_nor_another_one_made(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    (default,) = (await pipe.document()).joins
    reply = await caller.delete(path_of(default.href or ""))
    assert (reply.status, reply.headers["restms-error"]) == (403, "default-join")
    (shown,) = read(await caller.get(path_of(default.href or ""))).joins
    assert (shown.address, shown.feed) == (pipe.name, "http://toy/restms/feed/default")
    assert (await caller.post(pipe.path, f'<join feed="{DEFAULT}" address="x"/>')).status == 403
    assert (await caller.post(pipe.path, f'<join feed="{DEFAULT}" address="{pipe.name}"/>')).status == 403


async def test_join_that_leads_from_nothing_is_404_and_one_of_another_type_400(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    assert (await caller.post(pipe.path, '<join feed="/restms/feed/nothing"/>')).status == 404
    assert (await caller.post(pipe.path, '<join feed="/restms/resource/feed-nothing"/>')).status == 404
    assert (await caller.post(pipe.path, '<join feed="/restms/feed/amq.topic" type="x"/>')).status == 400
    assert (await caller.post(pipe.path, "<join/>")).status == 400
    assert (await caller.post(pipe.path, "<pipe/>")).status == 403


async def test_join_goes_with_its_feed_whoever_deletes_that(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    joins = []
    for name, type_ in (("news", "topic"), ("work", "rotator")):
        joins.append(await pipe.join(await caller.make_feed(name, type_)))
    broker.domain_ref.ask_nowait(DeleteSink("news"))
    await broker.queue("work").delete()
    assert [(await caller.get(join)).status for join in joins] == [404, 404]
    assert len((await pipe.document()).joins) == 1


async def test_messages_of_a_rotator_go_back_marked_when_the_pipe_goes(broker: Broker, caller: Caller) -> None:
    feed = await caller.make_feed("work", "rotator")
    one, two = await caller.make_pipe(), await caller.make_pipe()
    await one.join(feed)
    await caller.send(feed, "1", "2")
    await caller.send(DEFAULT, "own", address=one.name)
    assert await one.texts() == ["1", "2", "own"]
    await two.join(feed)
    assert (await caller.delete(one.path)).status == 200
    messages = read(await caller.get(f"{two.path}?messages=9")).messages
    assert [(text_of(message), message.redelivered) for message in messages] == [("1", "1"), ("2", "1")]


# Ondemand pipes


async def ondemand(caller: Caller, feed: str) -> PipeCaller:
    pipe = await caller.make_pipe("ondemand")
    await pipe.join(feed)
    return pipe


async def test_ondemand_pipe_takes_a_message_when_its_asynclet_is_asked_for_and_holds_one(
    broker: Broker, caller: Caller
) -> None:
    feed = await caller.make_feed("work", "rotator")
    pipe = await ondemand(caller, feed)
    assert (await pipe.document()).joins[0].feed == "http://toy/restms/feed/work"  # no default join
    await caller.send(feed, "1", "2")
    assert len(await pipe.hrefs()) == 1
    first = await pipe.asynclet()
    for _ in range(2):
        assert text_of(read(await caller.get(first)).messages[0]) == "1"
    second = await pipe.asynclet()
    assert (await caller.get(second, Prefer="wait=1")).status == 204  # while it holds the first one
    replies: list[Reply] = []
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, second, replies)
        assert (await Caller(broker).delete(first)).status == 200
    assert text_of(read(replies[0]).messages[0]) == "2"
    assert (await broker.queue("work").statistics()).ready == 0


async def test_message_of_an_ondemand_pipe_goes_back_marked_when_the_pipe_goes(caller: Caller) -> None:
    feed = await caller.make_feed("work", "rotator")
    one, two = await ondemand(caller, feed), await ondemand(caller, feed)
    await caller.send(feed, "1")
    for pipe, marked in ((one, None), (two, "1")):
        (message,) = read(await caller.get(await pipe.asynclet())).messages
        assert (text_of(message), message.redelivered) == ("1", marked)
        assert (await caller.delete(pipe.path)).status == 200


async def test_ondemand_pipe_that_waits_gets_what_its_neighbour_held_when_their_users_actor_crashed(
    broker: Broker, caller: Caller
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    feed = await caller.make_feed("work", "rotator")
    holder, waiter = await ondemand(caller, feed), await ondemand(caller, feed)
    await caller.send(feed, "1")
    assert len(read(await caller.get(await holder.asynclet())).messages) == 1
    replies, asynclet = list[Reply](), await waiter.asynclet()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, asynclet, replies)
        (client,) = restms_of(broker).resources.domains["default"].clients.values()
        client.ref.run_in_turn(fail)
    (message,) = read(replies[0]).messages
    assert (text_of(message), message.redelivered) == ("1", "1")


async def test_ondemand_pipe_whose_poll_has_gone_takes_nothing(broker: Broker, caller: Caller) -> None:
    feed = await caller.make_feed("work", "rotator")
    pipe = await ondemand(caller, feed)
    gone = Caller(broker)
    await gone.stream.send_all(gone.peer.encode("GET", await pipe.asynclet()))
    await trio.testing.wait_all_tasks_blocked()
    await gone.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    await caller.send(feed, "1")
    assert (await broker.queue("work").statistics()).ready == 1


async def test_workers_with_ondemand_pipes_share_a_service_with_a_consumer_of_the_program(
    broker: Broker, caller: Caller
) -> None:
    feed = await caller.make_feed("work", "service")
    replies: list[Reply] = []
    pipes = [await ondemand(caller, feed) for _ in range(2)]
    async with broker.queue("work").open_feed(prefetch=1) as mine, trio.open_nursery() as nursery:
        for pipe in pipes:
            await waiting(nursery, Caller(broker), await pipe.asynclet(), replies)
        await caller.send(feed, "1", "2", "3")
        with await anext(mine) as delivery:
            got = [delivery.body.decode()]
    got += [text_of(read(reply).messages[0]) for reply in replies]
    assert sorted(got) == ["1", "2", "3"]


async def test_ondemand_pipe_is_joined_to_shared_queues_alone(caller: Caller) -> None:
    pipe = await caller.make_pipe("ondemand")
    reply = await caller.post(pipe.path, '<join feed="/restms/feed/amq.topic"/>')
    assert (reply.status, reply.headers["restms-error"]) == (403, "on-demand")


async def test_ondemand_pipe_takes_from_two_shared_queues_one_at_a_time(caller: Caller) -> None:
    pipe = await caller.make_pipe("ondemand")
    for name in ("a", "b"):
        feed = await caller.make_feed(name, "rotator")
        await pipe.join(feed)
        await caller.send(feed, f"{name}1", f"{name}2")
    assert {await pipe.next() for _ in range(4)} == {"a1", "a2", "b1", "b2"}


async def test_ondemand_pipes_count_among_the_queues_of_their_user(tmp_path: Path) -> None:
    limited = User(password="guest", permissions={"*": ALL}, limits=UserLimits(queues=2))
    async with open_restms(users={"guest": limited}, data_dir=tmp_path) as broker:
        caller = Caller(broker)
        await caller.make_pipe("fifo")
        await caller.make_pipe("ondemand")
    async with open_restms(users={"guest": limited}, data_dir=tmp_path) as broker:
        caller = Caller(broker)
        there = restms_of(broker).resources.domains["default"].book.pipes
        one, two = (PipeCaller(caller, f"/restms/resource/{name}") for name in there)
        for type_ in ("fifo", "ondemand"):
            reply = await caller.post(DOMAIN, f'<pipe type="{type_}"/>')
            assert (reply.status, reply.headers["restms-error"]) == (503, "overloaded")
        for pipe in (one, two):
            assert (await caller.delete(pipe.path)).status == 200
            await caller.make_pipe("ondemand")


async def test_pipes_that_nobody_asks_for_are_deleted_where_that_is_configured(virtual_time: None) -> None:
    async with open_restms(pipe_expires=10.0) as broker:
        caller = Caller(broker)
        idle, waited_for = await caller.make_pipe(), await caller.make_pipe()
        async with trio.open_nursery() as nursery:
            await waiting(nursery, Caller(broker), await waited_for.asynclet(), [])
            await trio.sleep(20)
            assert idle.name not in broker.directory.queues
            assert waited_for.name in broker.directory.queues
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("type_", ["", "ondemand"])
async def test_pipe_expires_also_when_its_user_may_not_delete_it_any_more(virtual_time: None, type_: str) -> None:
    async with open_restms(pipe_expires=10.0, users={"ada": User(password="ada", permissions={"*": ALL})}) as broker:
        pipe = await Caller(broker, "ada").make_pipe(type_)
        broker.set_users({"ada": User(password="ada", permissions={"*": Permission("", "", ".*")})})
        ada = Caller(broker, "ada")
        assert (await ada.get(pipe.path)).status == 200
        await trio.sleep(20)
        assert (await ada.get(pipe.path)).status == 404


async def test_shared_queue_that_is_deleted_takes_its_messages_out_of_pipes_and_nothing_else(
    broker: Broker, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    work = await caller.make_feed("work", "rotator")
    pipe, worker = await caller.make_pipe(), await caller.make_pipe("ondemand")
    await pipe.join(work)
    await caller.send(work, "1", "2", "3")
    await caller.send(DEFAULT, "own", address=pipe.name)
    assert await pipe.texts() == ["1", "2", "3", "own"]
    await worker.join(work)
    held = (await pipe.hrefs())[0]
    await broker.queue("work").delete()
    assert await pipe.texts() == ["own"]
    assert [(await caller.get(held)).status, (await caller.delete(held)).status] == [404, 200]
    assert [len((await each.document()).joins) for each in (pipe, worker)] == [1, 0]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("type_", ["rotator", "service"])
async def test_message_stays_when_its_join_goes_and_goes_with_its_queue(
    broker: Broker, caller: Caller, type_: str
) -> None:
    work, pipe = await caller.make_feed("work", type_), await caller.make_pipe()
    join = await pipe.join(work)
    await caller.send(work, "1", "2")
    held, _, asynclet = await pipe.hrefs()
    assert (await caller.delete(join)).status == 200
    if type_ == "rotator":
        assert await pipe.texts() == ["1", "2"]
        assert (await caller.delete(work)).status == 200
    assert [(await caller.ask(method, held)).status for method in ("GET", "DELETE")] == [404, 200]
    assert (await pipe.hrefs()) == [asynclet]
    await caller.send(DEFAULT, "3", address=pipe.name)
    assert await pipe.texts() == ["3"]
