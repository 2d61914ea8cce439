"""Writers: Content, its properties, Confirm, Reject, Response, and what is done under pressure."""

from pathlib import Path

import pytest
import trio

from endpoints.conftest import knock_out
from endpoints.mtl.conftest import Served, serving
from endpoints.mtl.raw import RawData
from endpoints.mtl.test_leases import confirmed
from peers.mtl_peer import Command
from triomq.endpoints.mtl.data_peer import MTLDataPeer


def contents(*numbers: int, resource: str = "q", **properties: object) -> list[Command]:
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    return [Command("content", number, resource, named, body=b"%d" % number) for number in numbers]


async def bodies(served: Served, queue: str = "q") -> list[bytes]:
    return [message.body for message in await served.broker.queue(queue).browse(limit=10_000)]


async def writing(served: Served, *resources: str, confirm: str = "full") -> RawData:
    """Connect a writer; the queues that it writes to are declared."""
    for resource in resources:
        if "/" not in resource and resource not in served.broker.directory.queues:
            await served.broker.declare_queue(resource, durable=False)
    return await served.flow("Writer", *resources, confirm=confirm)


async def test_contents_are_placed_in_order_and_confirmed_many_at_once(served: Served) -> None:
    data = await writing(served, "q")
    await data.send(*contents(*range(1, 1001)))
    await data.until(lambda: confirmed(data) == set(range(1, 1001)))
    assert len(data.of("confirm")) < 500
    assert await bodies(served) == [b"%d" % number for number in range(1, 1001)]


async def test_numbers_may_be_left_out_and_repeated_ones_are_answered_and_not_placed(served: Served) -> None:
    data = await writing(served, "q")
    await data.send(*contents(1, 5, 6))
    await data.until(lambda: confirmed(data) >= {1, 5, 6})
    before = len(data.of("confirm"))
    await data.send(*contents(5))
    await data.until(lambda: len(data.of("confirm")) > before)
    assert data.of("confirm")[-1].sequence == 5
    assert await bodies(served) == [b"1", b"5", b"6"]


async def test_content_without_confirms_is_placed_and_what_is_wrong_with_it_told_by_a_response(served: Served) -> None:
    data = await writing(served, "q", "p", confirm="none")
    await data.send(*contents(1, 1, 2), *contents(7, resource="other"), *contents(8, resource=""))
    assert [await data.response(7), await data.response(8)] == [403, 400]
    assert await bodies(served) == [b"1", b"1", b"2"]
    assert not data.of("confirm")


async def test_content_that_is_wrong_is_rejected_for_good(served: Served) -> None:
    async with trio.open_nursery() as nursery, serving(nursery, max_message_size=10) as small:
        data = await writing(small, "q")
        await data.send(
            *contents(1),
            *contents(2, resource="other"),
            Command("content", 3, "q", {}, body=bytes(11)),
            *contents(4, user_id="other"),
            *contents(5, content_type=7),
            *contents(6, expiration="soon"),
            *contents(7),
        )
        await data.until(lambda: confirmed(data) >= {1, 7} and len(data.of("reject")) == 5)
        assert {(each.sequence, each.multiple, each.recycle) for each in data.of("reject")} == {
            (number, False, False) for number in range(2, 7)
        }
        assert await bodies(small) == [b"1", b"7"]
        await data.send(*contents(2, resource="other"))  # and again
        await data.until(lambda: len(data.of("reject")) == 6)


async def test_content_for_a_queue_that_has_gone_is_rejected_for_good(served: Served) -> None:
    data = await writing(served, "q")
    await data.send(*contents(1))
    await data.until(lambda: confirmed(data) == {1})
    await served.broker.queue("q").delete()
    await data.send(*contents(2, 3))
    await data.until(lambda: len(data.of("reject")) == 2)
    assert not any(each.recycle for each in data.of("reject"))


async def test_content_that_a_full_queue_refuses_is_rejected_and_may_be_tried_again(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False, max_length=2, overflow="reject-publish")
    data = await writing(served, "q")
    await data.send(*contents(1, 2, 3, 4))
    await data.until(lambda: len(data.of("reject")) == 2 and confirmed(data) >= {1, 2})
    assert [(each.sequence, each.recycle) for each in data.of("reject")] == [(3, True), (4, True)]


async def test_address_is_the_key_and_what_no_queue_is_bound_for_is_rejected_for_good(served: Served) -> None:
    sink = await served.broker.declare_sink("news", "direct", durable=False)
    await sink.bind(await served.broker.declare_queue("a", durable=False), "a")
    await sink.bind(await served.broker.declare_queue("b", durable=False), "b")
    data = await writing(served, "news/b")
    await data.send(*contents(1, 2, resource="", address="a"), *contents(3, resource="", address="nowhere"))
    await data.send(*contents(4, resource=""))
    await data.until(lambda: len(data.of("reject")) == 1 and confirmed(data) >= {1, 2, 4})
    assert data.of("reject") == [Command("reject", 3)]
    assert (await bodies(served, "a"), await bodies(served, "b")) == ([b"1", b"2"], [b"4"])


async def test_properties_come_out_at_the_other_end_as_they_went_in(served: Served) -> None:
    data = await writing(served, "q")
    reader = await served.reading("q")
    told = {
        "content-type": "text/plain",
        "headers": {"a": 1, "b": [True, None]},
        "priority": 4,
        "message-id": "m",
        "own": "kept",
        "user-id": "guest",
    }
    await data.send(Command("content", 1, "q", {**told, "redelivered": True, "exchange": "forged"}, body=b"x"))
    (found,) = await reader.contents(1)
    assert (found.properties, found.body) == (told, b"x")


async def test_consumers_of_other_wires_see_the_properties(served: Served) -> None:
    data = await writing(served, "q", confirm="none")
    await data.send(
        Command("content", 1, "q", {"content-type": "a/b", "own": 1, "headers": {"h": "x"}, "expiration": "60000"})
    )
    await served.ready("q", 1)
    (message,) = await served.broker.queue("q").browse(limit=1)
    found = message.properties
    assert (found.content_type, found.headers, found.expiration) == ("a/b", {"own": 1, "h": "x"}, 60.0)


async def test_header_may_be_set_in_what_becomes_a_dead_letter(served: Served) -> None:
    await served.broker.declare_queue("dead", durable=False)
    await served.broker.declare_queue("q", durable=False, dead_letter_sink="", dead_letter_key="dead")
    data = await writing(served, "q")
    reader = await served.reading("q")
    await data.send(*contents(1, content_type="a/b", address="somewhere"))
    await reader.contents(1)
    await reader.send(Command("reject", 1))
    dead = await served.reading("dead")
    (found,) = await dead.contents(1)
    assert found.properties is not None
    assert found.properties["content-type"] == "a/b"
    assert found.properties["headers"]["x-death"][0]["queue"] == "q"


async def test_durable_content_is_confirmed_when_it_is_on_disk(nursery: trio.Nursery, tmp_path: Path) -> None:
    async with serving(nursery, broker={"data_dir": tmp_path, "store_host": "thread"}) as served:
        await served.broker.declare_queue("q")
        data = await writing(served, "q")
        await data.send(*contents(*range(1, 101), delivery_mode=2))
        await data.until(lambda: confirmed(data) == set(range(1, 101)))
        persistence = served.broker.directory.persistence
        assert persistence is not None
        assert persistence.journal.pending_bytes == 0
        control = await served.control().work_with("plain")
        await control.done("Thing.Make", name="durable", durable=True)
    async with serving(nursery, broker={"data_dir": tmp_path, "store_host": "thread"}) as served:
        assert await bodies(served) == [b"%d" % number for number in range(1, 101)]
        assert "durable" in served.broker.directory.queues
        reader = await served.reading("q", confirm="none")
        await reader.contents(100)


async def test_content_waits_while_memory_is_short_and_is_rejected_when_it_is_too_much(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MTLDataPeer, "most_parked", 3)
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    data = await writing(served, "q")
    quiet = await writing(served, "p", confirm="none")
    served.broker.set_memory_high_watermark(10_000)
    await data.send(*contents(1, 2, 3, 4, 5))
    await data.until(lambda: len(data.of("reject")) == 2)
    assert [(each.sequence, each.recycle) for each in data.of("reject")] == [(4, True), (5, True)]
    await quiet.send(*contents(1, 2, 3, 4, resource="p"))
    assert await quiet.response(4) == 503
    assert served.endpoint.troubles["not-now"] == 3
    await data.send(Command("ping"))
    await data.until(lambda: bool(data.of("pong")))  # which overtakes
    assert not data.of("confirm")
    assert not await bodies(served)
    served.broker.set_memory_high_watermark(0)
    await data.until(lambda: confirmed(data) >= {1, 2, 3})
    assert await bodies(served) == [b"1", b"2", b"3"]
    await data.send(*contents(6))  # under a new number, since 4 and 5 are rejected
    await data.until(lambda: 6 in confirmed(data))


async def test_content_that_waits_when_its_flow_ends_was_never_received(
    nursery: trio.Nursery, jumping_time: None
) -> None:
    async with serving(nursery) as served:
        await served.broker.declare_queue("full", durable=False)
        await served.broker.declare_queue("q", durable=False)
        await served.broker.publish("", "full", bytes(20_000))
        control = await served.control().work_with("plain")
        leased = await control.lease("Writer", "q", confirm="full")
        first = await served.claimed(leased)
        await first.send(*contents(1))
        await first.until(lambda: confirmed(first) == {1})
        served.broker.set_memory_high_watermark(10_000)
        await first.send(*contents(2, 3))
        await first.send(Command("ping"))
        await first.until(lambda: bool(first.of("pong")))
        await first.close()
        await control.lease("Writer", "q", confirm="full", lease=leased["lease"])
        second = await served.claimed(leased)
        served.broker.set_memory_high_watermark(0)
        await second.send(*contents(1, 2, 3))
        await second.until(lambda: confirmed(second) >= {1, 2, 3})
        assert await bodies(served) == [b"1", b"2", b"3"]
        assert served.endpoint.data.parked == 0


async def test_content_for_a_queue_that_is_being_restarted_is_placed_when_it_runs(served: Served) -> None:
    data = await writing(served, "q")
    await knock_out(served.broker, "q")
    await data.send(*contents(1, 2))
    await data.until(lambda: confirmed(data) == {1, 2})
    assert await bodies(served) == [b"1", b"2"]


async def test_ill_formed_data_is_dropped_and_counted(served: Served) -> None:
    data = await writing(served, "q")
    sequence = bytes(7) + b"\x01"
    for frames in (
        [b"\x08"],
        [b"\x08", b"", b""],
        [b"", b"\x08", b""],
        [b"", b""],
        [b"\0", b""],
        [b"\x0a", b""],
        [b"\x05" + sequence[:3], b""],
        [b"\x08\0", b""],
        [b"\x05" + sequence + b"\x02q\x01" + bytes(4), b""],
        [b"\x05" + sequence + b"\x01\xff" + bytes(4), b""],
        [b"\x06" + sequence + b"\x02", b""],
        [b"\x05" + sequence + b"\x01q" + b"\0\0\0\x09", b""],
        [b"\x05" + sequence + b"\x01q" + b"\0\0\0\x03\x01aZ", b""],
        [b"\x05" + bytes(8) + b"\x01q" + bytes(4), b""],
        [b"\x02" + sequence, b"200"],
        [b"\x09", b""],
        [b"\x07" + sequence + b"\0\0", b""],
    ):
        await data.say(*frames)
    await data.send(*contents(1))
    await data.until(lambda: confirmed(data) == {1})
    assert sum(served.endpoint.troubles.values()) == 17
    assert await bodies(served) == [b"1"]


async def test_what_is_too_much_and_ill_formed_or_known_already_is_answered_as_it_is_otherwise(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MTLDataPeer, "most_parked", 1)
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    data = await writing(served, "q")
    await data.send(*contents(1))
    await data.until(lambda: confirmed(data) == {1})
    served.broker.set_memory_high_watermark(10_000)
    await data.send(*contents(2))
    await data.say(b"\x05", b"x")
    await data.say(b"", b"x")
    before = len(data.of("confirm"))
    await data.send(*contents(1, 3))
    await data.until(lambda: bool(data.of("reject")) and len(data.of("confirm")) > before)
    assert (data.of("reject"), data.of("confirm")[-1].sequence) == ([Command("reject", 3, recycle=True)], 1)
    assert served.endpoint.troubles["header"] == 2
    served.broker.set_memory_high_watermark(0)
    await data.until(lambda: 2 in confirmed(data))
    assert await bodies(served) == [b"1", b"2"]
