"""The profile amqp: exchanges, queues, bindings, and messages in answers."""

from base64 import b64decode
from datetime import UTC, datetime
from math import inf

import pytest

from endpoints.mtl.conftest import Served
from endpoints.mtl.profiles.user import ProfileUser, bodies, choose, content
from triomq.core import Properties


async def bound(user: ProfileUser) -> None:
    await user.does("Exchange.Declare", name="news", type="topic")
    await user.does("Queue.Declare", name="work")
    await user.does("Queue.Bind", queue="work", exchange="news", routing_key="rec.#")


async def test_content_is_routed_by_its_address(served: Served) -> None:
    user = await choose(served, "amqp")
    await bound(user)
    writer = await user.writer("exchange/news", "exchange/", confirm="full")
    await writer.send(
        content(1, "exchange/news", b"one", address="rec.pets"),
        content(2, "exchange/", b"two", address="work"),
        content(3, "exchange/news", b"none", address="other"),
    )
    reader = await user.reader("queue/work")
    assert bodies(await reader.contents(2)) == [b"one", b"two"]
    await writer.until(lambda: bool(writer.of("reject")))
    (unroutable,) = writer.of("reject")
    assert (unroutable.sequence, unroutable.recycle) == (3, False)


async def test_declares_are_repeated_without_an_error_unless_they_differ(served: Served) -> None:
    user = await choose(served, "amqp")
    exchange = {"name": "news", "type": "topic", "auto-delete": True}
    assert await user.does("Exchange.Declare", **exchange) == {"name": "news", "created": True}
    assert (await user.does("Exchange.Declare", **exchange))["created"] is False
    assert await user.refused("Exchange.Declare", name="news", type="topic") == 409
    queue = {"name": "work", "arguments": {"x-max-length": 5, "x-anything": [1, {"a": None}]}}
    assert await user.does("Queue.Declare", **queue) == {
        "name": "work", "messages": 0, "consumers": 0, "created": True,
    }  # fmt: skip
    assert (await user.does("Queue.Declare", **queue))["created"] is False
    assert (await user.does("Queue.Declare", name="work", passive=True))["created"] is False
    assert await user.refused("Queue.Declare", name="work", arguments={"x-max-length": 6}) == 409
    assert served.broker.directory.queues["work"].declared.max_length == 5
    binding = {"queue": "work", "exchange": "news", "routing-key": "a", "arguments": {"b": 1}}
    assert await user.does("Queue.Bind", **binding) == {"created": True}
    assert await user.does("Queue.Bind", **binding) == {"created": False}
    assert await user.does("Queue.Unbind", **binding) == {"deleted": True}
    assert await user.does("Queue.Unbind", **binding) == {"deleted": False}


async def test_delete_of_what_is_not_there_is_done(served: Served) -> None:
    user = await choose(served, "amqp")
    await bound(user)
    assert await user.refused("Exchange.Delete", name="news", if_unused=True) == 412
    assert await user.does("Exchange.Delete", name="news") == {"deleted": True}
    assert await user.does("Exchange.Delete", name="news") == {"deleted": False}
    writer = await user.writer("exchange/")
    await writer.send(content(1, "", address="work"), content(2, "", address="work"))
    await served.ready("work", 2)
    assert await user.refused("Queue.Delete", name="work", if_empty=True) == 412
    assert await user.does("Queue.Purge", name="work") == {"messages": 2}
    assert await user.does("Queue.Delete", name="work", if_empty=True) == {"deleted": True, "messages": 0}
    assert await user.does("Queue.Delete", name="work") == {"deleted": False, "messages": 0}
    assert await user.refused("Queue.Declare", name="work", passive=True) == 404


@pytest.mark.parametrize(
    ("command", "fields", "code"),
    [
        ("Exchange.Declare", {"name": ""}, 403),
        ("Exchange.Declare", {"name": "amq.mine"}, 403),
        ("Exchange.Declare", {"name": "x", "type": "odd"}, 400),
        ("Exchange.Declare", {"name": "x" * 247}, 400),
        ("Exchange.Declare", {"name": "x", "passive": True}, 404),
        ("Exchange.Declare", {"name": "x", "durable": "yes"}, 400),
        ("Exchange.Delete", {"name": "amq.topic"}, 403),
        ("Queue.Declare", {"name": "amq.mine"}, 403),
        ("Queue.Declare", {"name": "q", "arguments": {"x-max-length": -1}}, 412),
        ("Queue.Declare", {"name": "q", "arguments": {"x-anything": 1 << 64}}, 400),
        ("Queue.Declare", {"name": "q", "arguments": {"x-queue-type": "quorum"}}, 412),
        ("Queue.Bind", {"queue": "q", "exchange": ""}, 403),
        ("Queue.Bind", {"queue": "q", "exchange": "amq.topic"}, 404),
        ("Queue.Bind", {"queue": "q", "exchange": "amq.topic", "routing-key": "x" * 256}, 400),
        ("Queue.Get", {"name": "q"}, 404),
        ("Queue.Confirm", {"delivery": 1}, 412),
    ],
)
async def test_what_amqp_refuses_is_refused(served: Served, command: str, fields: dict[str, object], code: int) -> None:
    assert await (await choose(served, "amqp")).refused(command, **fields) == code


async def test_queue_without_a_name_gets_one(served: Served) -> None:
    user = await choose(served, "amqp")
    declared = await user.does("Queue.Declare", auto_delete=True)
    assert declared["name"].startswith("amq.gen-")
    assert await user.leasing("Reader", f"queue/{declared['name']}") == 202


async def test_exclusive_queue_is_its_sessions_and_goes_with_it(served: Served) -> None:
    user, other = await choose(served, "amqp"), await choose(served, "amqp", "other")
    await user.does("Queue.Declare", name="mine", exclusive=True)
    assert await other.refused("Queue.Declare", name="mine", exclusive=True) == 409
    assert await other.leasing("Reader", "queue/mine") == 409
    reader, writer = await user.reader("queue/mine"), await other.writer("exchange/")
    await writer.send(content(1, "", b"one", address="mine"))
    assert bodies(await reader.contents(1)) == [b"one"]
    await user.does("Connection.Close")
    await served.until(lambda: "mine" not in served.broker.directory.queues)


async def test_message_is_got_with_its_properties(served: Served) -> None:
    user = await choose(served, "amqp")
    await bound(user)
    assert await user.does("Queue.Get", name="work") == {"empty": True}
    writer = await user.writer("exchange/news")
    await writer.send(
        content(1, "", b"\x00one", address="rec.a", content_type="text/plain", headers={"n": 5, "b": b"\xff"})
    )
    await served.ready("work", 1)
    got = await user.does("Queue.Get", name="work")
    assert b64decode(got.pop("body-base64")) == b"\x00one"
    properties = got.pop("properties")
    assert got == {"empty": False, "messages": 0}
    assert properties.pop("headers")["n"] == 5
    assert properties == {"content-type": "text/plain", "address": "rec.a", "exchange": "news"}
    assert await user.does("Queue.Get", name="work") == {"empty": True}


async def test_what_json_has_no_form_for_is_got_in_another(served: Served) -> None:
    user = await choose(served, "amqp")
    await user.does("Queue.Declare", name="work")
    moment = datetime(2000, 1, 1, tzinfo=UTC)
    headers = {"bytes": b"\xff", "infinite": inf, "time": moment, "list": [1.5, None, True]}
    await served.broker.publish("", "work", b"one", Properties(headers=headers))
    got = (await user.does("Queue.Get", name="work"))["properties"]["headers"]
    assert got == {
        "bytes": {"base64": "/w=="},
        "infinite": "inf",
        "time": moment.timestamp(),
        "list": [1.5, None, True],
    }


async def test_got_message_is_held_until_it_is_confirmed_or_the_session_ends(served: Served) -> None:
    user = await choose(served, "amqp")
    await user.does("Queue.Declare", name="work")
    writer = await user.writer("exchange/")
    await writer.send(*(content(number, "", b"%d" % number, address="work") for number in range(1, 5)))
    await served.ready("work", 4)
    numbers = [(await user.does("Queue.Get", name="work", confirm=True))["delivery"] for _ in range(3)]
    assert await user.does("Queue.Reject", delivery=numbers[2], recycle=True) == {"messages": 1}
    again = await user.does("Queue.Get", name="work")
    assert (b64decode(again["body-base64"]), again["properties"]) == (b"3", {"address": "work", "redelivered": True})
    assert await user.does("Queue.Confirm", delivery=numbers[0]) == {"messages": 1}
    assert await user.refused("Queue.Confirm", delivery=numbers[0]) == 412
    await user.does("Connection.Close")
    await served.ready("work", 2)  # the second, which was held, and the fourth


async def test_large_message_is_left_to_the_data_flow(served: Served) -> None:
    user = await choose(served, "amqp")
    await user.does("Queue.Declare", name="work")
    writer = await user.writer("exchange/")
    await writer.send(content(1, "", bytes(1024 * 1024 + 1), address="work"))
    await served.ready("work", 1)
    assert await user.refused("Queue.Get", name="work") == 413
    await served.ready("work", 1)


async def test_rights_are_asked_as_amqp_asks_them(served: Served) -> None:
    owner, user = await choose(served, "amqp"), await choose(served, "amqp", "reader")
    await bound(owner)
    assert await user.refused("Exchange.Declare", name="mine") == 403
    assert await user.refused("Exchange.Delete", name="news") == 403
    assert await user.refused("Queue.Declare", name="mine") == 403
    assert await user.refused("Queue.Delete", name="work") == 403
    assert await user.refused("Queue.Bind", queue="work", exchange="news", routing_key="x") == 403
    assert await user.refused("Queue.Unbind", queue="work", exchange="news", routing_key="rec.#") == 403
    assert await user.leasing("Writer", "exchange/news") == await user.leasing("Writer", "exchange/") == 403
    assert await user.does("Queue.Get", name="work") == {"empty": True}
    assert await user.leasing("Reader", "queue/work") == 202


async def test_internal_exchange_is_not_written_to(served: Served) -> None:
    user = await choose(served, "amqp")
    await user.does("Exchange.Declare", name="inside", internal=True)
    assert await user.leasing("Writer", "exchange/inside") == 403
    described = (await user.does("Profile.Describe"))["writers"]["resources"]
    assert "exchange/amq.topic" in described
    assert "exchange/inside" not in described
