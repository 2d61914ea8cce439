"""While memory is short, or the disk cannot be written: who publishes waits for a while, and who reads never does."""

from pathlib import Path

import trio
import trio.testing

from endpoints.faults import unwritable
from endpoints.restms.caller import DEFAULT, Caller, PipeCaller, open_restms, read, restms_of, text_of
from endpoints.toys.http_peer import Reply
from triomq.app import Broker
from triomq.endpoints.restms.staged import PLACE

MARK = 10_000


async def begin_alarm(broker: Broker) -> None:
    """Have more in a queue than may be in memory."""
    await broker.declare_queue("full", durable=False)
    await broker.publish("", "full", bytes(2 * MARK))
    broker.set_memory_high_watermark(MARK)


class Reading:
    """A poll of an asynclet, one of a page, and a stream of events, all of one pipe."""

    def __init__(self, broker: Broker, pipe: PipeCaller, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._pipe = pipe
        self.answered: list[Reply] = []
        self.events = b""
        for wait in (self._poll, self._page, self._listen):
            nursery.start_soon(wait)

    async def _poll(self) -> None:
        self.answered.append(await Caller(self._broker).get(await self._pipe.asynclet()))

    async def _page(self) -> None:
        caller = Caller(self._broker)
        self.answered.append(await caller.get(f"{self._pipe.path}?messages=9", Prefer="wait=100000"))

    async def _listen(self) -> None:
        page = Caller(self._broker)
        await page.stream.send_all(page.peer.encode("GET", self._pipe.path, b"", {"Accept": "text/event-stream"}))
        while data := await page.stream.receive_some(65536):
            self.events += data

    async def have_only(self, text: str) -> None:
        """Wait until all of them have a message, and see that it is all they have."""
        while len(self.answered) < 2 or b"data: " not in self.events:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert [text_of(message) for reply in self.answered for message in read(reply).messages] == [text, text]
        assert (self.events.count(b"data: "), text.encode() in self.events) == (1, True)


async def test_those_who_wait_for_a_message_get_it_while_memory_is_short(virtual_time: None) -> None:
    async with open_restms() as broker, trio.open_nursery() as nursery:
        caller = Caller(broker)
        work = await caller.make_feed("work", "rotator")
        busy, idle = await caller.make_pipe(), await caller.make_pipe()
        await busy.join(work)
        await caller.send(work, "job")
        assert await busy.texts() == ["job"]
        await idle.join(work)
        await begin_alarm(broker)
        reading = Reading(broker, PipeCaller(Caller(broker), idle.path), nursery)
        await trio.sleep(3600)
        assert not reading.answered
        assert (await Caller(broker).delete(busy.path)).status == 200  # its message goes to the other one
        await reading.have_only("job")
        nursery.cancel_scope.cancel()


async def test_posts_that_wait_for_memory_are_published_once_when_there_is_some(virtual_time: None) -> None:
    async with open_restms(patience=30.0) as broker:
        caller, statuses = Caller(broker), list[int]()
        pipe = await caller.make_pipe()
        await caller.send(DEFAULT, "before", address=pipe.name)
        await begin_alarm(broker)

        async def post(number: int) -> None:
            statuses.append((await Caller(broker).send(DEFAULT, str(number), address=pipe.name)).status)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(post, number)
            await trio.sleep(20)
            assert not statuses
            assert await pipe.next() == "before"  # reading and deleting go on, as does making
            assert await (await caller.make_pipe()).texts() == []
            broker.set_memory_high_watermark(0)
        assert statuses == [200] * 50
        assert sorted(map(int, await pipe.texts())) == list(range(50))


async def test_content_is_not_staged_while_memory_is_short(virtual_time: None) -> None:
    async with open_restms(patience=30.0) as broker, trio.open_nursery() as nursery:
        replies: list[Reply] = []

        async def stage(size: int) -> None:
            replies.append(await Caller(broker).post(DEFAULT, b"x" * size))

        await begin_alarm(broker)
        nursery.start_soon(stage, 100)
        await trio.sleep(40)
        assert [(reply.status, reply.headers["restms-error"]) for reply in replies] == [(503, "overloaded")]
        nursery.start_soon(stage, 200)
        await trio.sleep(20)
        broker.set_memory_high_watermark(0)
        await trio.testing.wait_all_tasks_blocked()
        assert [reply.status for reply in replies] == [503, 201]
        assert restms_of(broker).resources.staged.users == {"guest": 200 + PLACE}


async def test_persistent_message_waits_for_the_disk_in_vain_while_others_are_posted_and_read(tmp_path: Path) -> None:
    async with open_restms(data_dir=tmp_path, patience=0.2) as broker, trio.open_nursery() as nursery:
        caller = Caller(broker)
        pipe = await caller.make_pipe()
        reading = Reading(broker, PipeCaller(Caller(broker), pipe.path), nursery)
        await trio.testing.wait_all_tasks_blocked(0.01)
        with unwritable(broker):
            refused = await Caller(broker).send(DEFAULT, "kept", address=pipe.name, delivery_mode="2")
            assert (refused.status, refused.headers["restms-error"]) == (507, "disk-full")
            assert int(refused.headers["retry-after"]) > 0
            assert not reading.answered
            assert (await caller.send(DEFAULT, "passing", address=pipe.name)).status == 200
            await reading.have_only("passing")
        assert (await caller.send(DEFAULT, "kept", address=pipe.name, delivery_mode="2")).status == 200
        assert await pipe.texts() == ["passing", "kept"]
        nursery.cancel_scope.cancel()
