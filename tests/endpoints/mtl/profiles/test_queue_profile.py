"""The profile queue."""

import pytest

from endpoints.mtl.conftest import Served
from endpoints.mtl.profiles.user import bodies, choose, content
from peers.mtl_peer import Command


async def test_each_message_goes_to_one_of_the_readers(served: Served) -> None:
    user = await choose(served, "queue")
    assert await user.does("Queue.Create", name="work") == {"name": "work", "created": True}
    first, second = await user.reader("work", confirm="full"), await user.reader("work", confirm="full")
    writer = await user.writer("work", confirm="full")
    await writer.send(*(content(number, "", b"%d" % number) for number in range(1, 11)))
    await writer.until(lambda: any(each.sequence == 10 for each in writer.of("confirm")))
    await served.until(lambda: len(first.of("content")) + len(second.of("content")) == 10)
    found = bodies(first.of("content")) + bodies(second.of("content"))
    assert sorted(found, key=int) == [b"%d" % number for number in range(1, 11)]
    assert first.of("content")
    assert second.of("content")


async def test_what_is_not_confirmed_is_counted_and_comes_again(served: Served) -> None:
    user = await choose(served, "queue")
    await user.does("Queue.Create", name="work", durable=False)
    writer = await user.writer("work")
    await writer.send(content(1, "", b"one"), content(2, "", b"two"))
    reader = await user.reader("work", confirm="full")
    await reader.contents(2)
    await reader.send(Command("confirm", 1), Command("reject", 2, recycle=True))
    again = (await reader.contents(3))[2]
    assert (again.body, again.properties) == (b"two", {"redelivered": True})
    stats = await user.does("Queue.Stats", name="work")
    assert (stats["messages"], stats["unconfirmed"], stats["consumers"], stats["published"]) == (0, 1, 1, 2)
    assert stats["durable"] is False


async def test_create_of_what_is_there_is_no_error_unless_it_is_of_another_type(served: Served) -> None:
    user = await choose(served, "queue")
    wanted = {"name": "work", "durable": False, "max-length": 3}
    assert (await user.does("Queue.Create", **wanted))["created"] is True
    assert (await user.does("Queue.Create", **wanted))["created"] is False
    assert await user.refused("Queue.Create", name="work") == 409
    assert await user.refused("Queue.Create", **{**wanted, "overflow": "drop-head"}) == 409


async def test_full_queue_has_content_sent_again_later(served: Served) -> None:
    user = await choose(served, "queue")
    await user.does("Queue.Create", name="work", max_length=1)
    writer = await user.writer("work", confirm="full")
    await writer.send(content(1, "", b"one"), content(2, "", b"two"))
    await writer.until(lambda: bool(writer.of("reject")))
    (rejected,) = writer.of("reject")
    assert (rejected.sequence, rejected.recycle) == (2, True)


async def test_delete_of_what_is_not_there_is_done(served: Served) -> None:
    user = await choose(served, "queue")
    await user.does("Queue.Create", name="work")
    writer = await user.writer("work")
    await writer.send(content(1, ""), content(2, ""))
    await served.ready("work", 2)
    assert await user.does("Queue.Purge", name="work") == {"messages": 2}
    await writer.send(content(3, ""))
    await served.ready("work", 1)
    assert await user.does("Queue.Delete", name="work") == {"deleted": True, "messages": 1}
    assert await user.does("Queue.Delete", name="work") == {"deleted": False, "messages": 0}
    assert await user.refused("Queue.Purge", name="work") == 404
    assert await user.refused("Queue.Stats", name="work") == 404


async def test_list_goes_on_where_the_last_page_ended(served: Served) -> None:
    user = await choose(served, "queue")
    for name in ("b", "a", "other", "aa"):
        await user.does("Queue.Create", name=name)
    first = await user.does("Queue.List", limit=2)
    assert [each["name"] for each in first["queues"]] == ["a", "aa"]
    rest = await user.does("Queue.List", after=first["after"])
    assert ([each["name"] for each in rest["queues"]], "after" in rest) == (["b", "other"], False)
    assert [each["name"] for each in (await user.does("Queue.List", prefix="a"))["queues"]] == ["a", "aa"]
    assert await user.refused("Queue.List", limit=0) == 400


async def test_list_has_no_queue_that_is_somebodys_own(served: Served) -> None:
    user = await choose(served, "queue")
    await user.does("Queue.Create", name="shared")
    feeds = await choose(served, "restms")
    await feeds.does("Pipe.Create")
    exchanges = await choose(served, "amqp", "other")
    await exchanges.does("Queue.Declare", name="mine", exclusive=True)
    assert [each["name"] for each in (await user.does("Queue.List"))["queues"]] == ["shared"]
    assert (await user.does("Profile.Describe"))["readers"]["resources"] == ["shared"]
    assert await user.leasing("Reader", "mine") == await user.leasing("Writer", "mine") == 409


@pytest.mark.parametrize("name", ["", "a" * 256, "ä" * 128, "a\nb", "\x7f"])
async def test_name_that_no_summon_can_have_is_refused(served: Served, name: str) -> None:
    assert await (await choose(served, "queue")).refused("Queue.Create", name=name) == 400


async def test_what_is_the_brokers_is_left_to_it(served: Served) -> None:
    user = await choose(served, "queue")
    assert await user.refused("Queue.Create", name="amq.mine") == 403


async def test_rights_are_asked_for_each_command_and_lease(served: Served) -> None:
    owner, user = await choose(served, "queue"), await choose(served, "queue", "reader")
    await owner.does("Queue.Create", name="work")
    assert await user.refused("Queue.Create", name="mine") == 403
    assert await user.refused("Queue.Delete", name="work") == 403
    assert await user.leasing("Writer", "work") == 403
    assert await user.leasing("Reader", "work") == 202
    assert await user.does("Queue.Purge", name="work") == {"messages": 0}
    assert await user.leasing("Reader", "missing") == await owner.leasing("Writer", "missing") == 404


async def test_stream_is_written_to_and_not_read(served: Served) -> None:
    user = await choose(served, "amqp")
    await user.does("Queue.Declare", name="log", durable=True, arguments={"x-queue-type": "stream"})
    queues = await choose(served, "queue")
    assert await queues.leasing("Reader", "log") == 400
    writer = await queues.writer("log", confirm="full")
    await writer.send(content(1, ""))
    await writer.until(lambda: bool(writer.of("confirm")))
