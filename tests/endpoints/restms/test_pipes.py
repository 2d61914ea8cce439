"""Pipes: what comes into them, what waits for it, and what a DELETE does (2/RestMS, pipes and messages)."""

import trio
import trio.testing

from endpoints.conftest import crash
from endpoints.restms.caller import DEFAULT, Caller, PipeCaller, path_of, read, restms_of, text_of
from endpoints.toys.http_peer import Reply
from triomq.app import Broker, User
from triomq.security import ALL


async def waiting(nursery: trio.Nursery, caller: Caller, path: str, replies: list[Reply], **headers: str) -> None:
    async def ask() -> None:
        replies.append(await caller.get(path, **headers))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()


async def test_pipe_has_its_name_in_its_uri_a_default_join_and_one_asynclet(caller: Caller) -> None:
    reply = await caller.post("/restms/domain/default", '<pipe name="mine" title="worker"/>')
    assert reply.status == 201
    (pipe,) = read(reply).pipes
    assert (pipe.type, pipe.title) == ("", "worker")
    assert reply.headers["location"] == f"http://toy/restms/resource/{pipe.name}"
    ((join,), (asynclet,)) = pipe.joins, pipe.messages
    assert (join.address, join.feed) == (pipe.name, "http://toy/restms/feed/default")
    assert asynclet.asynclet == "1"


async def test_each_post_of_a_pipe_makes_another_one(caller: Caller) -> None:
    assert (await caller.make_pipe()).name != (await caller.make_pipe()).name


async def test_poll_is_answered_by_the_message_that_then_has_its_uri(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    asynclet = await pipe.asynclet()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, asynclet, replies)
        assert not replies
        assert (await Caller(broker).send(DEFAULT, "hello", address=pipe.name)).status == 200
    (reply,) = replies
    assert (reply.status, text_of(read(reply).messages[0])) == (200, "hello")
    again = await caller.get(asynclet)
    assert (again.status, again.body) == (200, reply.body)
    hrefs = await pipe.hrefs()
    assert (len(hrefs), hrefs[0]) == (2, asynclet)
    assert hrefs[1] != asynclet


async def test_all_polls_of_an_asynclet_are_answered(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    asynclet = await pipe.asynclet()
    async with trio.open_nursery() as nursery:
        for _ in range(300):
            await waiting(nursery, Caller(broker), asynclet, replies)
        await caller.send(DEFAULT, "hello", address=pipe.name)
    assert [reply.status for reply in replies] == [200] * 300


async def test_get_consumes_nothing_and_delete_takes_the_message_and_all_older_ones(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "1", "2", "3", "4", address=pipe.name)
    assert await pipe.texts() == await pipe.texts() == ["1", "2", "3", "4"]
    hrefs = await pipe.hrefs()
    assert (await caller.delete(hrefs[2])).status == 200
    assert await pipe.texts() == ["4"]
    assert [(await caller.get(href)).status for href in hrefs[:3]] == [404, 404, 404]


async def test_repeated_delete_touches_nothing_newer(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "1", address=pipe.name)
    first = (await pipe.hrefs())[0]
    assert (await caller.delete(first)).status == 200
    await caller.send(DEFAULT, "2", address=pipe.name)
    assert (await caller.delete(first)).status == 200
    assert await pipe.texts() == ["2"]


async def test_delete_of_an_asynclet_is_404_and_of_what_never_was_200(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    assert (await caller.delete(await pipe.asynclet())).status == 404
    assert (await caller.delete("/restms/resource/never-was")).status == 200
    assert (await caller.delete("/restms/feed/never-was")).status == 200
    assert (await caller.delete("/elsewhere")).status == 404


async def test_connection_of_a_poll_has_no_table_of_attributes_of_its_own(broker: Broker, caller: Caller) -> None:
    await caller.post(DEFAULT, "<message/>")
    asynclet = await (await caller.make_pipe()).asynclet()
    await caller.stream.send_all(caller.peer.encode("GET", asynclet))
    await trio.testing.wait_all_tasks_blocked()
    (connection,) = (ref.actor for ref in restms_of(broker).children.values() if hasattr(ref.actor, "engine"))
    # With thirty an object has a table of its own, which takes 1,300 bytes more: a sixth of what a poll takes.
    assert len(vars(connection)) < 30


async def test_client_that_leaves_a_poll_changes_nothing(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    asynclet = await pipe.asynclet()
    for behind in (b"", b"GET / HTTP/1.1\r\nHost: toy\r\n\r\n"):
        gone = Caller(broker)
        await gone.stream.send_all(gone.peer.encode("GET", asynclet) + behind)
        await trio.testing.wait_all_tasks_blocked()
        await gone.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
    assert (await pipe.asynclet()) == asynclet
    await caller.send(DEFAULT, "hello", address=pipe.name)
    assert await pipe.texts() == ["hello"]


async def test_poll_ends_with_204_when_its_client_wants_to_wait_no_longer(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    asynclet = await pipe.asynclet()
    began = trio.current_time()
    assert (await caller.get(asynclet, Prefer="wait=30")).status == 204
    assert 30 <= trio.current_time() - began < 32
    assert await pipe.asynclet() == asynclet


async def test_poll_is_404_when_its_pipe_is_deleted(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, await pipe.asynclet(), replies)
        assert (await Caller(broker).delete(pipe.path)).status == 200
    assert [reply.status for reply in replies] == [404]
    assert (await caller.get(pipe.path)).status == 404
    assert (await caller.delete(pipe.path)).status == 200
    assert pipe.name not in broker.directory.queues


async def test_poll_is_503_when_the_broker_ends(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, await pipe.asynclet(), replies)
        await broker.drain()
    (reply,) = replies
    assert (reply.status, reply.headers["restms-error"], reply.headers["retry-after"]) == (503, "closing", "1")


async def test_head_of_an_asynclet_waits_for_nothing(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    for path, status in ((await pipe.asynclet(), b"404"), (pipe.path, b"200")):
        await caller.stream.send_all(caller.peer.encode("HEAD", path))
        assert (await caller.stream.receive_some()).startswith(b"HTTP/1.1 " + status)


async def test_pipe_shows_a_window_of_its_messages_and_the_others_when_there_is_room(
    broker: Broker, caller: Caller
) -> None:
    pipe = await caller.make_pipe()
    for start in range(0, 400, 100):
        await caller.send(DEFAULT, *map(str, range(start, start + 100)), address=pipe.name)
    hrefs = await pipe.hrefs()
    assert len(hrefs) == 257
    assert (await caller.get(hrefs[-1], Prefer="wait=1")).status == 204
    assert (await caller.delete(hrefs[-2])).status == 200
    assert await pipe.texts() == [str(number) for number in range(256, 400)]
    assert (await pipe.hrefs())[0] == hrefs[-1]


async def test_title_of_a_pipe_can_be_changed_and_nothing_else(caller: Caller) -> None:
    pipe = await caller.make_pipe("fifo")
    assert (await caller.put(pipe.path, '<pipe name="" type="" title="new"/>')).status == 200
    document = await pipe.document()
    assert (document.title, document.type) == ("new", "fifo")
    assert (await caller.put(pipe.path, '<pipe type="ondemand"/>')).status == 403
    assert (await caller.put(pipe.path)).status == 204


async def test_conditions_are_about_what_a_pipe_shows(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    tag = (await caller.get(pipe.path)).headers["etag"]
    assert (await caller.get(pipe.path, If_None_Match=tag)).status == 304
    await caller.send(DEFAULT, "1", address=pipe.name)
    assert (await caller.get(pipe.path, If_None_Match=tag)).status == 200
    assert (await caller.delete(pipe.path, If_Match=tag)).status == 412
    json = (await caller.get(pipe.path, Accept="application/restms+json")).headers["etag"]
    assert json != (await caller.get(pipe.path)).headers["etag"]
    assert (await caller.delete(pipe.path, If_Match=json)).status == 200


async def test_get_waits_until_a_pipe_has_changed(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    tag = (await caller.get(pipe.path)).headers["etag"]
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, pipe.path, replies, When_None_Match=tag)
        assert not replies
        await Caller(broker).send(DEFAULT, "1", address=pipe.name)
    assert len(read(replies[0]).pipes[0].messages) == 2


async def test_get_of_messages_waits_for_the_first_if_it_may(broker: Broker, caller: Caller) -> None:
    pipe, replies = await caller.make_pipe(), list[Reply]()
    assert read(await caller.get(f"{pipe.path}?messages=10")).messages == ()
    assert (await caller.get(f"{pipe.path}?messages=10", Prefer="wait=2")).status == 204
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, f"{pipe.path}?messages=2", replies, Prefer="wait=60")
        await Caller(broker).send(DEFAULT, "1", "2", "3", address=pipe.name)
    messages = read(replies[0]).messages
    assert [text_of(message) for message in messages] == ["1", "2"]
    assert (await caller.delete(path_of(messages[-1].href or ""))).status == 200
    assert await pipe.texts() == ["3"]


async def test_pipe_belongs_to_its_user(broker: Broker, caller: Caller) -> None:
    broker.set_users({"guest": "guest", "other": User(password="other", permissions={"*": ALL})})
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "secret", address=pipe.name)
    message = (await pipe.hrefs())[0]
    other = Caller(broker, "other")
    for path in (pipe.path, message, (await pipe.document()).joins[0].href or ""):
        assert (await other.get(path)).status == 404
    assert (await other.delete(message)).status == 200  # as for what is not there
    assert await pipe.texts() == ["secret"]
    stranger = PipeCaller(other, pipe.path)
    assert (await other.post(stranger.path, '<join feed="/restms/feed/amq.topic"/>')).status == 404


async def test_pipe_sleeps_when_its_users_actor_has_ended_and_wakes_when_it_is_asked_for(
    broker: Broker, caller: Caller
) -> None:
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "1", "2", address=pipe.name)
    old = await pipe.hrefs()
    (client,) = restms_of(broker).resources.domains["default"].clients.values()
    client.closing("a test")
    await trio.testing.wait_all_tasks_blocked()
    assert not client.pipes
    assert (await broker.queue(pipe.name).statistics()).ready == 2
    assert await pipe.texts() == ["1", "2"]
    assert (await caller.get(old[0])).status == 404
    assert (await caller.delete(old[0])).status == 200
    assert await pipe.texts() == ["1", "2"]
    assert read(await caller.get(f"{pipe.path}?messages=1")).messages[0].redelivered == "1"


async def test_polls_go_on_when_their_users_actor_or_the_queue_crashes(broker: Broker, caller: Caller) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    pipe, replies = await caller.make_pipe(), list[Reply]()
    asynclet = await pipe.asynclet()
    async with trio.open_nursery() as nursery:
        await waiting(nursery, caller, asynclet, replies)
        (client,) = restms_of(broker).resources.domains["default"].clients.values()
        client.ref.run_in_turn(fail)
        await trio.testing.wait_all_tasks_blocked()
        crash(broker, pipe.name)
        await broker.directory.queues[pipe.name].ref.wait_running()
        await trio.testing.wait_all_tasks_blocked()
        assert not replies
        await Caller(broker).send(DEFAULT, "hello", address=pipe.name)
    assert [reply.status for reply in replies] == [200]
    assert (await pipe.hrefs())[0] == asynclet


async def test_messages_of_a_queue_that_crashed_come_again_at_other_uris(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    await caller.send(DEFAULT, "1", "2", address=pipe.name)
    old = await pipe.hrefs()
    crash(broker, pipe.name)
    await broker.directory.queues[pipe.name].ref.wait_running()
    assert await pipe.texts() == ["1", "2"]
    assert [(await caller.get(href)).status for href in old[:2]] == [404, 404]
