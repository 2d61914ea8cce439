"""Messages after a restart: what is persistent is there again, with all that it says and that the queue knows of it."""

import itertools
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
import trio

from endpoints.client import Delivered
from endpoints.conftest import endpoint_of, open_client
from endpoints.restarts import PERSISTENT, TRANSIENT, Home, at_home, headers
from triomq.app import open_broker
from triomq.protocols import BasicProperties, Timestamp, Typed, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicReject,
    ControlRequest,
    ControlResponse,
    GetOk,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxRollback,
    TxSelect,
)
from triomq.protocols.control import BrowseQueue, MessageRecord, Page, encode

ALL = BasicProperties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={
        "byte": Typed("B", 7),
        "decimal": Decimal("1.50"),
        "moment": Timestamp(86400),
        "list": [1, "two", {"deep": None}],
        "octets": b"\xff",
    },
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    expiration="3600000",
    message_id="m",
    timestamp=1_767_225_600,
    type="t",
    app_id="a",
)

Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Let the wall clock, by which the time between two lives of a broker is told, be so many seconds ahead."""

    def later(seconds: float) -> None:
        for place in ("triomq.core.persistence.records.time", "triomq.core.persistence.recorded_delay.time"):
            monkeypatch.setattr(place, lambda: time.time() + seconds)

    return later


async def declare(home: Home, name: str = "q", **arguments: object) -> None:
    named = {f"x-{word.replace('_', '-')}": value for word, value in arguments.items()}
    await home.done(QueueDeclare(name, durable=True, arguments=named))  # type: ignore[arg-type]


async def test_message_has_all_its_properties_key_and_exchange(tmp_path: Path) -> None:
    properties = encode_properties(ALL)
    async with at_home(tmp_path) as home:
        await declare(home)
        await home.done(QueueBind("q", "amq.topic", "a.#"))
        await home.publish("a.b\udcff", b"body", exchange="amq.topic", properties=properties)
    async with at_home(tmp_path) as home:
        found = await home.get("q")
        assert (found.body, found.exchange, found.key) == (b"body", "amq.topic", "a.b\udcff")
        assert found.properties == properties
        assert not found.redelivered


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 200_000, 3_000_000])
async def test_body_of_any_size_is_there_again(tmp_path: Path, size: int) -> None:
    """Also for a client that takes smaller frames than the publisher sent."""
    body = (b"0123456789" * (size // 10 + 1))[:size]
    async with at_home(tmp_path) as home:
        await declare(home)
        await home.publish("q", body, b"next")
    async with at_home(tmp_path) as home:
        small = await open_client(endpoint_of(home.broker), frame_max=4096)
        assert (await small.get("q", no_ack=True)).body == body
        await small.leave()
        assert await home.drain("q") == [b"next"]


async def test_messages_keep_their_order_over_several_restarts(tmp_path: Path) -> None:
    bodies = [str(number).encode() for number in range(900)]
    for part in range(3):
        async with at_home(tmp_path) as home:
            await declare(home)
            await home.publish("q", *bodies[part * 300 : part * 300 + 300])
            assert await home.count("q") == (part + 1) * 300
    async with at_home(tmp_path) as home:
        assert await home.drain("q") == bodies


async def test_more_than_memory_has_room_for_is_there_again_in_order(tmp_path: Path) -> None:
    bodies = [str(number).encode() * 100 for number in range(2000)]
    async with at_home(tmp_path, queue_memory=100_000) as home:
        await declare(home)
        await home.publish("q", *bodies)
        assert [(await home.get("q")).body for _ in range(500)] == bodies[:500]
    async with at_home(tmp_path, queue_memory=100_000) as home:
        assert await home.drain("q") == bodies[500:]


async def test_acknowledged_messages_are_gone_and_delivered_ones_come_back_marked(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home)
        await home.publish("q", b"acked", b"delivered", b"rejected", b"requeued", b"never out")
        tags = [(await home.get("q", no_ack=False)).tag for _ in range(4)]
        await home.client.say(
            1, BasicAck(tags[0]), BasicReject(tags[2], requeue=False), BasicNack(tags[3], requeue=True)
        )
        assert await home.count("q") == 2
    async with at_home(tmp_path) as home:
        found = [await home.get("q") for _ in range(3)]
        assert [(each.body, each.redelivered) for each in found] == [
            (b"delivered", True),
            (b"requeued", True),
            (b"never out", False),
        ]


async def test_messages_that_went_out_without_acknowledgements_are_gone(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home)
        await home.publish("q", b"1", b"2")
        await home.done(BasicConsume("q", "c", no_ack=True))
        await home.client.deliveries(2)
    async with at_home(tmp_path) as home:
        assert await home.count("q") == 0


async def test_how_often_a_message_came_back_is_still_known(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home, queue_type="quorum", delivery_limit=3)
        await home.publish("q", b"x")
        for _ in range(2):
            found = await home.get("q", no_ack=False)
            await home.client.say(1, BasicNack(found.tag, requeue=True))
        assert await home.count("q") == 1
    async with at_home(tmp_path) as home:
        found = await home.get("q", no_ack=False)
        assert headers(found)["x-delivery-count"] == 2
        await home.client.say(1, BasicNack(found.tag, requeue=True))
        found = await home.get("q", no_ack=False)
        await home.client.say(1, BasicNack(found.tag, requeue=True))
        assert await home.count("q") == 0  # one more than it may


async def test_priorities_count_after_a_restart(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home, max_priority=9)
        for level in (1, 5, 0, 9, 5):
            properties = encode_properties(BasicProperties(delivery_mode=2, priority=level))
            await home.publish("q", b"%d" % level, properties=properties)
        first = await home.get("q", no_ack=False)
        assert first.body == b"9"
    async with at_home(tmp_path) as home:
        found = [await home.get("q") for _ in range(5)]
        assert [each.body for each in found] == [b"9", b"5", b"5", b"1", b"0"]
        assert [each.redelivered for each in found] == [True, False, False, False, False]


@pytest.mark.parametrize("of_queue", [True, False])
async def test_message_lives_for_what_is_left_of_its_time(tmp_path: Path, later: Later, of_queue: bool) -> None:
    lasting = encode_properties(BasicProperties(delivery_mode=2, expiration=None if of_queue else "60000"))
    async with at_home(tmp_path) as home:
        await declare(home, **({"message_ttl": 60_000} if of_queue else {}))
        await home.publish("q", b"x", properties=lasting)
    later(50)
    async with at_home(tmp_path) as home:
        queue = home.broker.directory.queues["q"]
        assert (await home.broker.queue("q").browse())[0].body == b"x"
        left = queue.backlog.next_deadline() - home.broker.directory.clock.now()
        assert 0 < left <= 10
    later(70)
    async with at_home(tmp_path) as home:
        await home.client.call(1, BasicGet("q"), BasicGetEmpty)


async def test_message_that_expires_while_no_broker_runs_becomes_a_dead_letter(tmp_path: Path, later: Later) -> None:
    async with at_home(tmp_path) as home:
        await declare(home, "letters")
        await declare(home, dead_letter_exchange="", dead_letter_routing_key="letters", message_ttl=60_000)
        await home.publish("q", b"x")
    later(70)
    async with at_home(tmp_path, drain=0.1) as home:
        await home.done(BasicConsume("letters", no_ack=True))
        with trio.fail_after(60):
            (letter,) = await home.client.deliveries(1)
        (death,) = headers(letter)["x-death"]  # type: ignore[misc]
        assert (death["reason"], death["queue"]) == ("expired", "q")


async def test_dead_letter_keeps_its_history(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home, "letters", dead_letter_exchange="", dead_letter_routing_key="more")
        await declare(home, "more")
        await declare(home, dead_letter_exchange="", dead_letter_routing_key="letters")
        await home.publish("q", b"x")
        await reject(home, "q")
        before = headers(await home.get("letters", no_ack=False))["x-death"]
    async with at_home(tmp_path) as home:
        letter = await home.get("letters", no_ack=False)
        assert headers(letter)["x-death"] == before
        await home.client.say(1, BasicReject(letter.tag, requeue=False))
        deaths = headers(await home.get("more"))["x-death"]
        assert [(death["queue"], death["reason"]) for death in deaths] == [  # type: ignore[attr-defined]
            ("letters", "rejected"),
            ("q", "rejected"),
        ]


async def reject(home: Home, queue: str) -> Delivered:
    found = await home.get(queue, no_ack=False)
    await home.client.say(1, BasicReject(found.tag, requeue=False))
    return found


async def test_delayed_message_is_delayed_for_what_is_left(tmp_path: Path, later: Later) -> None:
    async with at_home(tmp_path) as home:
        await declare(home)
        await home.broker.publish("", "q", b"soon", delay=60)
        await home.broker.publish("", "q", b"late", delay=6000)
        assert await home.count("q") == 0
    for seconds, body in ((70, b"soon"), (6100, b"late")):
        later(seconds)
        async with at_home(tmp_path) as home:
            await home.done(BasicConsume("q", no_ack=True))
            (found,) = await home.client.deliveries(1)
            assert (found.body, found.redelivered) == (body, False)
    async with at_home(tmp_path) as home:
        assert await home.count("q") == 0


async def test_messages_are_delayed_before_those_of_an_earlier_life_are_read(tmp_path: Path, later: Later) -> None:
    async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
        await broker.declare_queue("q")
        await broker.publish("", "q", b"1", delay=60)
        await broker.publish("", "q", b"2", delay=60)
    async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
        broker.publish_nowait("", "q", b"3", delay=60)
        await broker.publish("", "q", b"4")
    later(70)
    async with at_home(tmp_path) as home:
        await home.done(BasicConsume("q", no_ack=True))
        assert sorted([found.body for found in await home.client.deliveries(4)]) == [b"1", b"2", b"3", b"4"]


async def test_delayed_messages_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [b"1", b"2", b"3"]
    async with at_home(tmp_path) as home:
        await declare(home)
        for body in bodies:
            await home.broker.publish("", "q", body, delay=60)
    ticks = itertools.count(time.time() + 100)
    monkeypatch.setattr("triomq.core.persistence.recorded_delay.time", lambda: next(ticks))
    async with at_home(tmp_path) as home:
        await home.done(BasicConsume("q", no_ack=True))
        assert [found.body for found in await home.client.deliveries(3)] == bodies


async def test_paged_messages_expire_too(tmp_path: Path) -> None:
    async with at_home(tmp_path, queue_memory=2000, drain=0.1) as home:
        await declare(home, "letters")
        await declare(home, dead_letter_exchange="", dead_letter_routing_key="letters", message_ttl=100)
        await home.publish("q", bytes(3000), properties=TRANSIENT)
        await home.publish("q", b"away", properties=TRANSIENT)
        await home.done(BasicConsume("letters", no_ack=True))
        with trio.fail_after(60):
            assert [found.body for found in await home.client.deliveries(2)] == [bytes(3000), b"away"]


async def test_get_tells_how_many_messages_are_left_on_disk_too(tmp_path: Path) -> None:
    async with at_home(tmp_path, queue_memory=64 * 1024) as home:
        await declare(home)
        await home.publish("q", *[bytes(1024)] * 300)
        await home.client.say(1, BasicGet("q"))
        assert (await home.client.expect(GetOk)).method.message_count == 299


async def test_paging_through_a_queue_shows_what_is_only_on_disk(tmp_path: Path) -> None:
    async with at_home(tmp_path, queue_memory=64 * 1024) as home:
        await declare(home)
        await home.publish("q", *[bytes(1024)] * 500)
        seen: list[int] = []
        after = 0
        while True:
            asked = ControlRequest("browse", encode(BrowseQueue("q", after, body=0, limit=50)))
            answer = (await home.client.call(1, asked, ControlResponse)).result
            page = msgspec.json.decode(answer, type=Page[MessageRecord])
            seen += [record.id for record in page.items]
            if page.next is None:
                break
            assert isinstance(page.next, int)
            after = page.next
        assert seen == [*range(1, 501)]


async def test_bound_holds_after_a_restart(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home, max_length=3)
        await home.publish("q", b"1", b"2", b"3", b"4")
    async with at_home(tmp_path) as home:
        await home.publish("q", b"5")
        while await home.count("q") != 3:  # the oldest has to be read before it can give way
            pass
        assert await home.drain("q") == [b"3", b"4", b"5"]


async def test_commit_is_stored_whole_and_a_rollback_not_at_all(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await declare(home)
        await declare(home, "other")
        await home.publish("q", b"old")
        client = home.client
        await home.done(TxSelect())
        tag = (await home.get("q", no_ack=False)).tag
        client.publish(1, "", "q", b"new", properties=PERSISTENT)
        client.publish(1, "", "other", b"new", properties=PERSISTENT)
        await client.say(1, BasicAck(tag))
        await home.done(TxCommit())
        await client.send(1, "", "q", b"never", properties=PERSISTENT)
        await home.done(TxRollback())
    async with at_home(tmp_path) as home:
        assert await home.drain("q") == [b"new"]
        assert await home.drain("other") == [b"new"]


async def test_copies_in_several_queues_are_settled_apart(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        for name in ("a", "b"):
            await declare(home, name)
            await home.done(QueueBind(name, "amq.fanout"))
        await home.publish("", b"x", exchange="amq.fanout")
        await home.get("a")
    async with at_home(tmp_path) as home:
        assert (await home.count("a"), await home.count("b")) == (0, 1)


async def test_confirm_is_for_what_is_on_disk(tmp_path: Path) -> None:
    """A copy of the store that is made at once has what was confirmed."""
    async with at_home(tmp_path / "store", store_host="process") as home:
        await declare(home)
        await home.publish("q", b"1", b"2")
        await home.broker.back_up(tmp_path / "copy")
        await home.publish("q", b"3")
    async with at_home(tmp_path / "copy") as home:
        assert await home.drain("q") == [b"1", b"2"]
    async with at_home(tmp_path / "store") as home:
        assert await home.drain("q") == [b"1", b"2", b"3"]
