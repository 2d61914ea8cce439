"""What of RestMS is there after a restart, in a broker with a store; docs/topics/restms.rst has the table."""

from pathlib import Path

import trio
import trio.testing

from endpoints.faults import frozen, journal_of
from endpoints.restms.caller import DEFAULT, DOMAIN, Caller, PipeCaller, open_restms, read, restms_of, text_of
from endpoints.toys.http_peer import Reply


async def test_feeds_pipes_joins_and_persistent_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        await caller.post(DOMAIN, '<feed name="news" type="topic" title="t" license="l"/>')
        await caller.make_feed("work", "service")
        private = (await caller.post(DOMAIN, '<feed type="fanout" title="p"/>')).headers["location"]
        fifo, worker = await caller.make_pipe("fifo"), await caller.make_pipe("ondemand")
        joins = [
            await fifo.join("/restms/feed/news", "a.*"),
            await fifo.join(private),
            await worker.join("/restms/feed/work"),
        ]
        await caller.send("/restms/feed/news", "kept", address="a.b", delivery_mode="2")
        await caller.send("/restms/feed/news", "lost", address="a.b")
        await caller.send("/restms/feed/work", "job", delivery_mode="2")
        assert text_of(read(await caller.get(await worker.asynclet())).messages[0]) == "job"
        old = await fifo.hrefs()
        staged = (await caller.post(DEFAULT, b"x")).headers["location"]
        documents = [(await caller.get(path)).body for path in ("/restms/feed/news", private, *joins)]
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        assert [(await caller.get(path)).body for path in ("/restms/feed/news", private, *joins)] == documents
        assert (await broker.queue("work").statistics()).feeds == 0  # nobody has asked for its pipe
        fifo, worker = PipeCaller(caller, fifo.path), PipeCaller(caller, worker.path)
        assert ((await fifo.document()).type, (await worker.document()).type) == ("fifo", "ondemand")
        assert [(await caller.get(path)).status for path in (*old, staged)] == [404] * 4
        assert (await caller.delete(old[0])).status == 200
        (message,) = read(await caller.get(f"{fifo.path}?messages=9", Prefer="wait=5")).messages
        assert (text_of(message), message.redelivered) == ("kept", "1")
        assert text_of(read(await caller.get(await worker.asynclet())).messages[0]) == "job"
        await caller.send("/restms/feed/news", "new", address="a.c")
        assert await fifo.texts() == ["kept", "new"]
        assert (await caller.delete(worker.path)).status == 200
        assert (await caller.get("/restms/feed/work")).status == 404
        assert (await caller.delete(fifo.path)).status == 200
        assert (await caller.delete(private)).status == 200
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        assert [(await caller.get(path)).status for path in (fifo.path, worker.path, private, *joins)] == [404] * 6
        assert not restms_of(broker).resources.found


async def test_what_was_deleted_over_another_protocol_is_not_there_after_a_restart(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        await caller.make_feed("news", "topic")
        pipe, other = await caller.make_pipe(), await caller.make_pipe()
        join = await other.join("/restms/feed/news")
        await broker.queue(pipe.name).delete()
        await broker.sink("news").delete()
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        assert [(await caller.get(path)).status for path in (pipe.path, join, "/restms/feed/news")] == [404] * 3
        assert len((await PipeCaller(caller, other.path).document()).joins) == 1
        await broker.wait_idle()


async def test_what_was_made_is_answered_when_it_is_on_disk_and_not_before(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker, trio.open_nursery() as nursery:
        pipe = await Caller(broker).make_pipe()
        replies: list[Reply] = []

        async def ask(path: str, document: str) -> None:
            replies.append(await Caller(broker).post(path, document))

        with frozen(broker):
            nursery.start_soon(ask, DOMAIN, "<pipe/>")
            nursery.start_soon(ask, DOMAIN, '<feed name="news" type="topic"/>')
            nursery.start_soon(ask, pipe.path, '<join feed="/restms/feed/amq.topic"/>')
            nursery.start_soon(ask, DEFAULT, f'<message address="{pipe.name}" delivery_mode="2"/>')
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not replies
            transient = await Caller(broker).send(DEFAULT, "x", address=pipe.name)
            assert transient.status == 200
        while len(replies) < 4:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert sorted(reply.status for reply in replies) == [200, 201, 201, 201]


async def test_delete_is_answered_when_it_is_on_disk_if_the_message_was(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker, trio.open_nursery() as nursery:
        caller, replies = Caller(broker), []
        pipe, other = await caller.make_pipe(), await caller.make_pipe()
        await caller.send(DEFAULT, "kept", "kept, too", address=pipe.name, delivery_mode="2")
        await caller.send(DEFAULT, "in memory", address=other.name)
        transient, (_, kept, _) = (await other.hrefs())[0], await pipe.hrefs()

        async def delete() -> None:
            replies.append((await caller.delete(kept)).status)

        with frozen(broker):
            assert (await Caller(broker).delete(transient)).status == 200
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not replies
        while not replies:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert replies == [200]
        assert journal_of(broker).pending_bytes == 0
        assert not (await pipe.document()).messages[:-1]


async def test_what_is_done_for_the_second_time_is_answered_no_earlier_than_for_the_first(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker, trio.open_nursery() as nursery:
        caller = Caller(broker)
        pipe = await caller.make_pipe()
        await caller.send(DEFAULT, "x", address=pipe.name, delivery_mode="2")
        message, join = (await pipe.hrefs())[0], '<join feed="/restms/feed/amq.topic"/>'
        replies: list[int] = []

        async def ask(method: str, path: str, document: str = "") -> None:
            replies.append((await Caller(broker).ask(method, path, document)).status)

        with frozen(broker):
            for _ in range(2):
                nursery.start_soon(ask, "DELETE", message)
                nursery.start_soon(ask, "POST", DOMAIN, '<feed name="news" type="topic"/>')
                nursery.start_soon(ask, "POST", pipe.path, join)
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert not replies
        while len(replies) < 6:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert sorted(replies) == [200, 200, 200, 200, 201, 201]


async def test_records_hold_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path) as broker:
        caller = Caller(broker)
        await caller.make_feed("news", "direct")
        pipe = await caller.make_pipe()
        join = '<join feed="/restms/feed/news" address="%FF€" escaped="address"/>'
        made = (await caller.post(pipe.path, join)).headers["location"]
        document = (await caller.get(made)).body
    async with open_restms(data_dir=tmp_path) as broker:
        reply = await Caller(broker).get(made)
        assert (reply.status, reply.body) == (200, document)
