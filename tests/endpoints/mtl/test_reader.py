"""Readers: Summon, Content, Confirm, Reject, Dismiss, and what becomes of unconfirmed content."""

from contextlib import suppress

import pytest
import trio
import zmq

from endpoints.conftest import crash, knock_out, queue_ref
from endpoints.mtl.conftest import Served, serving
from peers.mtl_peer import Command
from triomq import Permission, Properties, User
from triomq.errors import ActorStopped


async def filled(served: Served, count: int, queue: str = "q", **options: object) -> None:
    """Declare a queue, and put so many messages into it."""
    await served.broker.declare_queue(queue, durable=False, **options)
    for number in range(count):
        await served.broker.publish("", queue, b"%d" % number)


async def test_content_comes_behind_the_response_to_summon_and_none_behind_that_to_dismiss(served: Served) -> None:
    await filled(served, 3)
    data = await served.flow("Reader", "q", confirm="full")
    await data.send(Command("summon", 7, "q"))
    await data.contents(3)
    assert [each.kind for each in data.heard] == ["response", "response", "content", "content", "content"]
    assert [(each.sequence, each.name, each.body) for each in data.of("content")] == [
        (1, "q", b"0"),
        (2, "q", b"1"),
        (3, "q", b"2"),
    ]
    assert await data.ask("dismiss", 8, "q") == 200
    await served.broker.publish("", "q", b"later")
    await data.answered()
    assert len(data.of("content")) == 3
    await data.send(Command("confirm", 3, multiple=True))  # what is unconfirmed may still be confirmed
    await data.answered()
    await data.close()
    await served.ready("q", 1)


async def test_contents_say_of_which_of_several_resources_they_are(served: Served) -> None:
    await filled(served, 1, "q")
    await filled(served, 1, "p")
    data = await served.reading("q", "p", confirm="none")
    assert {(each.name, each.sequence) for each in await data.contents(2)} == {("q", 1), ("p", 2)}


async def test_dismiss_calls_back_what_waits_for_a_reader_that_is_slow(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    leased = await (await served.control().work_with("plain")).lease("Reader", "q", confirm="none")
    data = served.data(small)
    assert await data.ask("lease", 1, leased["lease"]) == 200
    assert await data.ask("summon", 2, "q") == 200
    data.stop_reading()
    for _ in range(400):
        await served.broker.publish("", "q", bytes(100_000))
    await served.until(lambda: served.endpoint.data._router.has_unsent)
    await data.send(Command("dismiss", 3, "q"))
    await served.until(lambda: not served.broker.directory.queues["q"].feeds)
    served.nursery.start_soon(data.run)
    assert await data.response(3) == 200
    count = len(data.of("content"))
    assert data.heard[-1].kind == "response"
    await data.answered()
    assert len(data.of("content")) == count < 400
    await served.ready("q", 400 - count)


async def test_confirms_and_rejects_settle_what_they_mean_and_pass_over_all_else(served: Served) -> None:
    await served.broker.declare_queue("dead", durable=False)
    await filled(served, 6, dead_letter_sink="", dead_letter_key="dead")
    data = await served.reading("q")
    await data.contents(6)
    await data.send(
        Command("confirm", 2),
        Command("confirm", 2),
        Command("confirm", 2, multiple=True),  # 1; the number itself is settled
        Command("reject", 3),
        Command("reject", 3, recycle=True),
        Command("confirm", 0),
        Command("confirm", 99),
        Command("reject", 5, multiple=True, recycle=True),  # 4 and 5, which come again
    )
    again = await data.contents(8)
    assert [(each.sequence, each.body) for each in again[6:]] == [(7, b"3"), (8, b"4")]
    assert all(each.properties is not None and each.properties["redelivered"] for each in again[6:])
    await served.ready("dead", 1)
    await data.send(Command("confirm", 2**64 - 1, multiple=True))
    await data.answered()
    await data.close()
    assert [message.body for message in await served.broker.queue("dead").browse(limit=10)] == [b"2"]
    await served.until(lambda: queue_statistics(served, "q") == (0, 0))


def queue_statistics(served: Served, queue: str) -> tuple[int, int]:
    state = served.broker.directory.queues[queue]
    return state.backlog.ready, state.backlog.unsettled


async def test_no_more_is_unconfirmed_than_was_asked_for(served: Served) -> None:
    await filled(served, 5)
    data = await served.reading("q", prefetch=2)
    await data.contents(2)
    await data.answered()
    assert len(data.of("content")) == 2
    await data.send(Command("confirm", 2, multiple=True))
    await data.contents(4)


async def test_reader_without_confirms_takes_all_and_its_confirms_are_dropped(served: Served) -> None:
    await filled(served, 3)
    data = await served.reading("q", confirm="none")
    await data.contents(3)
    await data.send(Command("confirm", 1), Command("reject", 2, recycle=True))
    await data.answered()
    await data.close()
    await served.ready("q", 0)
    assert served.endpoint.troubles["unasked"] == 2


async def test_commands_that_make_no_sense_are_refused(served: Served) -> None:
    await filled(served, 0)
    await filled(served, 0, "other")
    data = await served.reading("q")
    assert await data.ask("summon", 3, "q") == 400  # twice
    assert await data.ask("summon", 4, "other") == 400  # not of the lease
    assert await data.ask("dismiss", 5, "other") == 400
    assert await data.ask("dismiss", 6, "") == 200  # the lease has one resource
    assert await data.ask("dismiss", 7, "q") == 400
    await data.send(Command("content", 8, "q", {}, body=b"x"))
    await data.until(lambda: bool(data.of("reject")))
    assert data.of("reject") == [Command("reject", 8)]
    writer = await served.flow("Writer", "q")
    assert await writer.ask("summon", 2, "q") == 400
    everything = await served.flow("Reader")
    assert await everything.ask("summon", 2, "") == 400
    assert await everything.ask("summon", 3, "other") == 200
    assert await everything.ask("summon", 4, "nowhere") == 400


async def test_right_to_read_is_asked_for_when_a_resource_is_summoned(served: Served) -> None:
    await filled(served, 0)
    control = await served.control().work_with("plain", "reader")
    data = await served.claimed(await control.lease("Reader"))
    served.broker.put_user("reader", User(password="reader", permissions={"*": Permission("", "", "^r")}))
    # The user may do less, so its leases have ended.
    assert await data.ask("summon", 2, "q") == 403


async def test_content_shows_what_is_known_of_a_message_of_another_wire(served: Served) -> None:
    sink = await served.broker.declare_sink("news", "topic", durable=False)
    queue = await served.broker.declare_queue("q", durable=False)
    await sink.bind(queue, "rec.#")
    data = await served.reading("q")
    headers = {"a": 1, "": "no name"}
    properties = Properties(content_type="text/plain", headers=headers, persistent=False, priority=3, message_id="m")
    await served.broker.publish("news", "rec.pets", b"x", properties)
    (found,) = await data.contents(1)
    assert found.properties == {
        "content-type": "text/plain",
        "headers": {"a": 1},
        "delivery-mode": 1,
        "priority": 3,
        "message-id": "m",
        "exchange": "news",
        "address": "rec.pets",
    }


async def test_queue_that_crashes_is_read_again_and_one_that_is_deleted_is_told(served: Served) -> None:
    await filled(served, 1)
    data = await served.reading("q")
    await data.contents(1)
    await knock_out(served.broker, "q")
    assert (await data.contents(2))[1].body == b"0"
    await served.broker.queue("q").delete()
    assert await data.response(2, len(data.heard) - 1) == 404  # the number of its Summon
    assert await data.ask("dismiss", 3, "q") == 400


async def test_queue_that_is_given_up_is_told_as_one_that_has_gone(served: Served) -> None:
    await filled(served, 1)
    data = await served.reading("q")
    queue = queue_ref(served.broker, "q")
    while queue.state != "stopped":
        with suppress(ActorStopped):
            await queue.wait_running()
            crash(served.broker, "q")
    assert await data.response(2, 2) == 404
    assert await data.ask("summon", 3, "q") == 400


async def test_queue_that_is_being_restarted_is_summoned_when_it_runs(served: Served) -> None:
    await filled(served, 1)
    data = await served.flow("Reader", "q", confirm="full")
    await knock_out(served.broker, "q")
    assert await data.ask("summon", 2, "q") == 200
    await data.contents(1)


def small(socket: "zmq.Socket[bytes]") -> None:
    """Let libzmq hold little."""
    socket.set_hwm(10)
    socket.setsockopt(zmq.RCVBUF, 4096)


async def test_reader_that_reads_nothing_is_let_go_and_loses_nothing(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery, silence=1000.0) as served:
        await served.broker.declare_queue("q", durable=False)
        control = await served.control().work_with("plain")
        leased = await control.lease("Reader", "q", confirm="full", prefetch=10_000)
        data = served.data(small)
        assert await data.ask("lease", 1, leased["lease"]) == 200
        assert await data.ask("summon", 2, "q") == 200
        data.stop_reading()
        for _ in range(400):
            await served.broker.publish("", "q", bytes(100_000))
        await served.until(lambda: served.endpoint.data._router.has_unsent)
        trio.lowlevel.current_clock().jump(130)
        await served.ready("q", 400)


async def test_drain_lets_a_reader_confirm_what_it_has(nursery: trio.Nursery) -> None:
    async with serving(nursery, broker={"drain": 30.0}) as served:
        await filled(served, 2)
        data = await served.reading("q")
        await data.contents(2)
        with trio.fail_after(10):
            async with trio.open_nursery() as inner:
                inner.start_soon(served.broker.drain)
                await served.until(lambda: served.endpoint.is_stopping)
                await data.send(Command("confirm", 2, multiple=True))


async def test_pings_of_a_flood_are_not_all_answered(served: Served) -> None:
    data = await served.reading()
    await data.send(*[Command("ping")] * 200)
    await data.answered()
    assert 1 <= len(data.of("pong")) <= 60


async def test_drain_dismisses_what_is_asked_for_and_summons_nothing(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(nursery, broker={"drain": 30.0}) as served:
        await filled(served, 2)
        await filled(served, 0, "other")
        data = await served.flow("Reader", confirm="full")
        assert await data.ask("summon", 2, "q") == 200
        await data.contents(2)
        nursery.start_soon(served.broker.drain)
        await served.until(lambda: served.endpoint.is_stopping)
        assert await data.ask("dismiss", 3, "q") == 200
        assert await data.ask("summon", 4, "other") == 400
        await data.send(Command("confirm", 2, multiple=True))
    assert "crashed" not in caplog.text


async def test_properties_that_readers_would_drop_are_left_out(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    for body, properties in enumerate(
        (
            Properties(headers={"a": {"": 1}}, message_id="m"),
            Properties(headers={"a": deep}),
            Properties(content_type="x" * 300),
            Properties(headers={"a\n": 1, "b": 2}),
        )
    ):
        await served.broker.publish("", "q", b"%d" % body, properties)
    data = await served.reading("q")
    found = await data.contents(4)
    assert [each.properties for each in found] == [
        {"message-id": "m", "delivery-mode": 2},
        {"delivery-mode": 2},
        {"delivery-mode": 2},
        {"headers": {"b": 2}, "delivery-mode": 2},
    ]
