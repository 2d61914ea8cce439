"""Clients and publishers that mean no good, or have bad luck: nothing is lost, doubled, or held for ever."""

import contextlib
import tracemalloc

import pytest
import trio
import trio.testing

from endpoints.restms.caller import DEFAULT, DOMAIN, XML, Caller, open_restms, path_of, restms_of
from triomq.app import Broker, User
from triomq.endpoints.restms.staged import PLACE, StagedContent
from triomq.security import ALL, Permission


async def test_texts_that_no_header_and_no_utf_8_can_carry_crash_nobody(broker: Broker, caller: Caller) -> None:
    pipe, poll, replies = await caller.make_pipe(), Caller(broker), []
    made = await caller.post(DOMAIN, '<feed name="%FF%FE" type="fanout" escaped="name"/>')
    assert made.status == 201

    async def wait() -> None:
        replies.append(await poll.get((await pipe.hrefs())[0]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        content = '<content type="a&#13;&#10;X: €">body</content>'
        hostile = f'<message address="{pipe.name}" message_id="%FF" escaped="message_id">{content}</message>'
        assert (await caller.post(DEFAULT, hostile)).status == 200
    assert [reply.status for reply in replies] == [200]
    message = (await pipe.hrefs())[0]
    for accept in ("application/restms+xml", "application/restms+json"):
        assert (await caller.get(message, Accept=accept)).status == 200
        assert (await caller.get(DOMAIN, Accept=accept)).status == 200
    reply = await caller.get(message.replace("/resource/", "/resource/content-"))
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"body", "a  X: ?")


async def test_content_that_was_deleted_or_used_takes_neither_room_nor_a_timer(broker: Broker, caller: Caller) -> None:
    timers = restms_of(broker).timers
    await caller.make_pipe()
    before = len(timers)
    for _ in range(2):
        made = await caller.post(DEFAULT, b"x" * 1000)
        staged = restms_of(broker).resources.found[made.headers["location"].rpartition("/")[2]]
        assert isinstance(staged, StagedContent)
        assert (len(timers), staged.body) == (before + 1, b"x" * 1000)
        await caller.delete(made.headers["location"])
        assert (len(timers), staged.body) == (before, b"")


async def test_head_of_a_stream_of_events_ends(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    request = caller.peer.encode("HEAD", pipe.path, b"", {"Accept": "text/event-stream"})
    await caller.stream.send_all(request)
    answer = bytes(await caller.stream.receive_some(10_000))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")
    assert (await caller.get(pipe.path)).status == 200


async def test_many_that_watch_a_pipe_look_at_it_some_at_a_time(broker: Broker, caller: Caller) -> None:
    pipe = await caller.make_pipe()
    since = (await caller.get(pipe.path)).headers["last-modified"]
    watchers = [Caller(broker) for _ in range(30)]
    replies = []

    async def watch(watcher: Caller) -> None:
        reply = await watcher.get(pipe.path, When_Modified_After=since)
        replies.append(reply.status)

    async with trio.open_nursery() as nursery:
        for watcher in watchers:
            nursery.start_soon(watch, watcher)
        await trio.testing.wait_all_tasks_blocked()
        found = restms_of(broker).resources.domains["default"].pipes[pipe.name]
        found.state.modified += 1
        found.tell_changed()
        assert len(found.watchers or ()) > 10
    assert replies == [200] * 30
    assert found.watchers is None


HEADERS = "".join(f'<header name="h{number}" value="v"/>' for number in range(10_000))


async def test_polls_for_a_message_with_very_many_headers_are_answered_one_by_one(
    broker: Broker, caller: Caller
) -> None:
    pipe = await caller.make_pipe()
    asynclet = await pipe.asynclet()
    answered: list[int] = []
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(Caller(broker).get, asynclet)
        await trio.testing.wait_all_tasks_blocked()
        polls = list(restms_of(broker).resources.domains["default"].pipes[pipe.name].asynclet.polls or ())
        nursery.start_soon(caller.post, DEFAULT, f'<message address="{pipe.name}">{HEADERS}</message>')
        while not answered or answered[-1] < len(polls):
            await trio.lowlevel.checkpoint()
            answered.append(sum(poll.is_over for poll in polls))  # type: ignore[attr-defined]
    assert len(set(answered)) > 5


@pytest.mark.parametrize(("message", "count"), [(HEADERS, 1), (f"<content>{'x' * 60_000}</content>", 18)])
async def test_page_of_large_messages_is_shorter_than_it_was_asked_to_be(
    caller: Caller, message: str, count: int
) -> None:
    pipe = await caller.make_pipe()
    for _ in range(20):
        await caller.post(DEFAULT, f'<message address="{pipe.name}" message_id="m">{message}</message>')
    assert [each.message_id for each in (await pipe.document()).messages] == ["m"] * 20 + [None]
    assert len(await pipe.texts()) == count


async def test_stream_of_events_begins_with_no_more_of_what_is_there_than_a_turn_may_take(
    broker: Broker, caller: Caller
) -> None:
    pipe = await caller.make_pipe()
    for _ in range(60):
        await caller.send(DEFAULT, "x" * 60_000, address=pipe.name)
    ours, theirs = trio.testing.lockstep_stream_pair()
    restms_of(broker).listener.connect_stream(theirs, "lockstep")
    await ours.send_all(caller.peer.encode("GET", pipe.path, b"", {"Accept": "text/event-stream"}))
    await trio.testing.wait_all_tasks_blocked()
    (stream,) = restms_of(broker).resources.domains["default"].pipes[pipe.name].watchers or ()
    assert stream.sent < 30  # type: ignore[attr-defined]
    data = b""
    while data.count(b"\ndata: ") < 60:
        data += bytes(await ours.receive_some(1 << 20))
    await ours.aclose()


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("POST", '<message><content type="text/plain">x</content></message>'),
        ("POST", ""),
        ("PUT", '<feed title="x"/>'),
    ],
)
@pytest.mark.parametrize("type_", ["service", "fanout"])
async def test_feed_that_is_deleted_while_a_body_comes_is_missing(
    broker: Broker, caller: Caller, method: str, body: str, type_: str
) -> None:
    feed = await caller.make_feed("brief", type_)
    headers = XML if body else {"Content-Type": "image/png"}
    slow, request = Caller(broker), f"<restms>{body}</restms>".encode()
    encoded = slow.peer.encode(method, feed, request, headers)
    await slow.stream.send_all(encoded[:-5])
    await trio.testing.wait_all_tasks_blocked()
    assert (await caller.delete(feed)).status == 200
    await slow.stream.send_all(encoded[-5:])
    assert (await slow.peer.reply()).status == 404
    assert restms_of(broker).resources.staged.users == {}


@pytest.mark.parametrize(
    ("method", "body"), [("PUT", '<pipe title="x"/>'), ("POST", '<join feed="/restms/feed/jobs"/>')]
)
async def test_pipe_that_is_deleted_while_a_body_comes_is_missing(
    broker: Broker, caller: Caller, method: str, body: str
) -> None:
    await caller.make_feed("jobs", "rotator")
    pipe, slow = await caller.make_pipe("ondemand"), Caller(broker)
    encoded = slow.peer.encode(method, pipe.path, f"<restms>{body}</restms>".encode(), XML)
    await slow.stream.send_all(encoded[:-5])
    await trio.testing.wait_all_tasks_blocked()
    assert (await caller.delete(pipe.path)).status == 200
    await slow.stream.send_all(encoded[-5:])
    assert (await slow.peer.reply()).status == 404
    assert restms_of(broker).resources.domains["default"].clients["guest"].pipes == {}


async def test_join_to_a_feed_that_was_made_anew_replaces_the_old_one(caller: Caller) -> None:
    pipe = await caller.make_pipe()
    for _ in range(2):
        feed = await caller.make_feed("brief", "fanout")
        join = await pipe.join(feed)
        joins = [path_of(found.href or "") for found in (await pipe.document()).joins]
        assert joins[1:] == [join]
        await caller.delete(feed)


async def test_pipe_can_be_deleted_by_a_user_who_may_not_read_what_it_is_joined_to_any_more(
    broker: Broker, caller: Caller
) -> None:
    feed = await caller.make_feed("news", "fanout")
    broker.put_user("bob", User(password="bob", permissions={"*": ALL}))
    reader = Caller(broker, "bob")
    pipe = await reader.make_pipe()
    await pipe.join(feed)
    broker.put_user("bob", User(password="bob", permissions={"*": Permission("^pipe-", "^pipe-", "^pipe-")}))
    assert (await Caller(broker, "bob").delete(pipe.path)).status == 200
    assert restms_of(broker).resources.domains["default"].pipes == {}
    assert "pipe" not in str(list(restms_of(broker).resources.domains["default"].directory.queues))


async def test_many_that_read_a_large_content_slowly_share_its_bytes() -> None:
    size = 8 * 1024 * 1024
    async with open_restms() as broker, contextlib.AsyncExitStack() as streams:
        caller = Caller(broker)
        pipe = await caller.make_pipe()
        made = await caller.post(DEFAULT, b"x" * size, Content_Type="image/png")
        staged = path_of(made.headers["location"])
        await caller.post(DEFAULT, f'<message address="{pipe.name}"><content href="{staged}"/></message>')
        request = caller.peer.encode("GET", (await pipe.hrefs())[0].replace("/resource/", "/resource/content-"))
        tracemalloc.start()
        streams.callback(tracemalloc.stop)
        for _ in range(5):
            stream = await streams.enter_async_context(
                await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
            )
            await stream.send_all(request)
            assert await stream.receive_some(5) == b"HTTP/"
        assert tracemalloc.get_traced_memory()[1] < size


async def test_staged_content_is_gone_after_a_while_also_when_its_endpoint_has_crashed(
    broker: Broker, caller: Caller
) -> None:
    def fail(_now: float) -> None:
        raise RuntimeError("a bug")

    made = await caller.post(DEFAULT, b"x" * 1000)
    endpoint, resources = restms_of(broker), restms_of(broker).resources
    assert resources.staged.users == {"guest": 1000 + PLACE}
    endpoint.timers.set("bug", trio.current_time(), fail)
    await trio.sleep(5)
    assert restms_of(broker) is not endpoint
    assert (await Caller(broker).get(made.headers["location"])).status == 200
    await trio.sleep(400)
    assert (await Caller(broker).get(made.headers["location"])).status == 404
    assert (resources.staged.users, resources.staged.total, resources.contents) == ({}, 0, {})


async def test_pipes_of_a_user_that_is_gone_are_deleted(broker: Broker, caller: Caller) -> None:
    await caller.make_feed("work", "service")
    for name in ("bob", "eve"):
        broker.put_user(name, User(password=name, permissions={"*": ALL}))
        pipe = await Caller(broker, name).make_pipe()
        await pipe.join("/restms/feed/work")
        await Caller(broker, name).make_pipe("ondemand")
    mine = await caller.make_pipe()
    broker.remove_user("bob")
    await trio.sleep(150)
    book = restms_of(broker).resources.domains["default"].book
    assert sorted(pipe.record.user for pipe in book.pipes.values()) == ["eve", "eve", "guest"]
    assert len([name for name in book.directory.queues if name.startswith("pipe-")]) == 2
    broker.remove_user("eve")
    broker.put_user("eve", User(password="eve", permissions={"*": ALL}))
    await trio.sleep(150)
    assert len(book.pipes) == 3
    broker.remove_user("eve")
    await trio.sleep(150)
    assert list(book.pipes) == [mine.name]
    assert (await Caller(broker).get("/restms/feed/work")).status == 404


async def test_pipe_that_sleeps_expires_too(virtual_time: None) -> None:
    async with open_restms(pipe_expires=10.0) as broker:
        broker.put_user("bob", User(password="bob", permissions={"*": ALL}))
        await Caller(broker, "bob").make_pipe()
        shown = restms_of(broker).resources.domains["default"]
        (pipe,) = shown.pipes.values()
        broker.set_users({"guest": "guest"})
        broker.put_user("bob", User(password="bob", permissions={"*": ALL}))
        await trio.testing.wait_all_tasks_blocked()
        assert pipe.client is None
        await trio.sleep(9)
        assert shown.pipes
        await trio.sleep(9)
        assert not shown.pipes
        assert pipe.name not in shown.directory.queues


async def test_broker_that_is_cancelled_ends_without_a_crash(caplog: pytest.LogCaptureFixture) -> None:
    with trio.CancelScope() as scope:
        async with open_restms() as broker, trio.open_nursery() as nursery:
            caller = Caller(broker)
            pipe = await caller.make_pipe()
            await caller.send(DEFAULT, "x", address=pipe.name)
            nursery.start_soon(caller.get, await pipe.asynclet())
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_document_of_many_messages_for_many_pipes_keeps_nobody_else_waiting(
    broker: Broker, caller: Caller
) -> None:
    feed, answered = await caller.make_feed("all", "fanout"), list[str]()
    pipes = [await caller.make_pipe() for _ in range(100)]
    for pipe in pipes:
        await pipe.join(feed)

    async def post() -> None:
        assert (await caller.send(feed, *map(str, range(200)))).status == 200
        answered.append("POST")

    async def get() -> None:
        assert (await Caller(broker).get(feed)).status == 200
        answered.append("GET")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(get)
    assert answered == ["GET", "POST"]
    assert await pipes[-1].texts() == list(map(str, range(200)))
