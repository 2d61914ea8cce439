"""The profile restms: feeds, pipes and joins."""

from pathlib import Path

import pytest
import trio

from endpoints.mtl.conftest import USERS, Served, serving
from endpoints.mtl.profiles.user import ProfileUser, bodies, choose, content
from endpoints.restms.caller import Caller, PipeCaller, restms_of
from peers.mtl_peer import Command
from triomq.app import User, UserLimits, open_broker
from triomq.endpoints import MTL
from triomq.endpoints.restms.config import RestMS
from triomq.security import ALL

TYPES = ["", "fanout", "direct", "topic", "headers", "rotator", "service"]


async def piped(user: ProfileUser, feed: str, *addresses: str, type_: str = "") -> str:
    """Make a pipe with joins."""
    name: str = (await user.does("Pipe.Create", type=type_))["name"]
    for address in addresses:
        await user.does("Join.Create", pipe=name, feed=feed, address=address)
    return name


@pytest.mark.parametrize("type_", TYPES)
async def test_feed_of_each_type_is_made_once(served: Served, type_: str) -> None:
    user = await choose(served, "restms")
    assert await user.does("Feed.Create", name="news", type=type_) == {"name": "news", "type": type_, "created": True}
    assert (await user.does("Feed.Create", name="news", type=type_))["created"] is False
    other = "topic" if type_ != "topic" else "fanout"
    assert await user.refused("Feed.Create", name="news", type=other) == 409
    assert await user.does("Feed.Delete", name="news") == {"deleted": True}
    assert await user.does("Feed.Delete", name="news") == {"deleted": False}


async def test_messages_are_routed_by_their_address(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="news", type="topic")
    pets = await piped(user, "news", "rec.pets.*")
    reader = await user.reader(f"pipe/{pets}", confirm="full")
    writer = await user.writer("feed/news", confirm="full")
    await writer.send(
        content(1, "", b"no", address="rec.cars"), content(2, "", b"yes", address="rec.pets.cats", message_id="m2")
    )
    (found,) = await reader.contents(1)
    assert (found.body, found.name) == (b"yes", f"pipe/{pets}")
    assert found.properties == {"address": "rec.pets.cats", "message-id": "m2", "exchange": "news"}
    await writer.until(lambda: bool(writer.of("reject")) and bool(writer.of("confirm")))
    (unroutable,) = writer.of("reject")
    assert (unroutable.sequence, unroutable.recycle) == (1, False)


async def test_request_finds_its_way_back_over_the_default_feed(served: Served) -> None:
    # 3/Defaults: the address of a default join is the name of its pipe.
    user, other = await choose(served, "restms"), await choose(served, "restms", "other")
    pipe = (await user.does("Pipe.Create"))["name"]
    reader, writer = await user.reader(f"pipe/{pipe}"), await other.writer("feed/default")
    await writer.send(content(1, "", b"answer", address=pipe))
    assert bodies(await reader.contents(1)) == [b"answer"]


async def test_workers_share_what_a_rotator_has(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="work", type="rotator")
    pipes = [await piped(user, "work", "*", type_=type_) for type_ in ("", "ondemand")]
    writer = await user.writer("feed/work", confirm="full")
    await writer.send(*(content(number, "", address="task") for number in range(1, 5)))
    await writer.until(lambda: any(each.sequence == 4 for each in writer.of("confirm")))
    ondemand = await user.reader(f"pipe/{pipes[1]}", confirm="full")
    (found,) = await ondemand.contents(1)
    # 4/AMQP9: into a queue the address travels as the message-id.
    assert found.properties["message-id"] == "task"
    reader = await user.reader(f"pipe/{pipes[0]}", confirm="full")
    assert len(await reader.contents(3)) == 3
    assert len(ondemand.of("content")) == 1  # it has one message at a time
    assert await reader.ask("dismiss", 9, f"pipe/{pipes[0]}") == 200
    await reader.send(Command("reject", 3, recycle=True))
    await ondemand.send(Command("confirm", 1))
    assert (await ondemand.contents(2))[1].properties["redelivered"] is True


async def test_joins_come_and_go_while_a_pipe_is_read(served: Served) -> None:
    user = await choose(served, "restms")
    pipe = (await user.does("Pipe.Create"))["name"]
    reader = await user.reader(f"pipe/{pipe}", confirm="full")
    await user.does("Feed.Create", name="work", type="service")
    joined = await user.does("Join.Create", pipe=pipe, feed="work")
    writer = await user.writer("feed/work")
    await writer.send(content(1, "", b"one"))
    await reader.contents(1)
    assert await user.does("Join.Delete", id=joined["id"]) == {"deleted": True}
    # The service has gone with its last join.
    await served.until(lambda: "work" not in served.broker.directory.queues)
    assert await user.leasing("Writer", "feed/work") == 404
    assert await user.does("Join.Delete", id=joined["id"]) == {"deleted": False}


async def test_join_is_made_once_and_found_by_all_that_it_is(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="news", type="headers")
    pipe = (await user.does("Pipe.Create"))["name"]
    wanted = {"pipe": pipe, "feed": "news", "headers": {"colour": "red"}}
    first, second = await user.does("Join.Create", **wanted), await user.does("Join.Create", **wanted)
    assert (first["created"], second) == (True, {"id": first["id"], "created": False})
    shown = (await user.does("Pipe.Get", name=pipe))["joins"]
    assert [each["feed"] for each in shown] == ["default", "news"]
    assert shown[1] == {"id": first["id"], "feed": "news", "address": "*", "headers": {"colour": "red"}}
    assert (await user.does("Join.List", pipe=pipe))["joins"] == shown
    assert (await user.does("Feed.Get", name="news"))["joins"] == 1
    reader, writer = await user.reader(f"pipe/{pipe}"), await user.writer("feed/news")
    await writer.send(
        content(1, "", b"no", headers={"colour": "blue"}), content(2, "", b"yes", headers={"colour": "red"})
    )
    assert bodies(await reader.contents(1)) == [b"yes"]
    assert await user.does("Join.Delete", **wanted) == {"deleted": True}
    assert await user.does("Join.Delete", **wanted) == {"deleted": False}


async def test_joins_that_must_not_be_are_refused(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="news")
    pipe, ondemand = await piped(user, "news"), await piped(user, "news", type_="ondemand")
    default = (await user.does("Pipe.Get", name=pipe))["joins"][0]["id"]
    # 3/Defaults: MUST 403.
    assert await user.refused("Join.Create", pipe=pipe, feed="default", address="x") == 403
    assert await user.refused("Join.Delete", id=default) == 403
    assert await user.refused("Join.Delete", pipe=pipe, feed="default") == 403
    # 4/AMQP9: SHOULD 403.
    assert await user.refused("Join.Create", pipe=ondemand, feed="news") == 403
    assert await user.refused("Join.Create", pipe=pipe, feed="missing") == 404
    assert await user.refused("Join.Create", pipe="pipe-missing", feed="news") == 404
    assert await user.refused("Join.Create", pipe=pipe, feed="news", address="x" * 256) == 400
    assert await user.refused("Join.Delete") == 400


async def test_private_feed_has_a_name_that_nobody_can_guess(served: Served) -> None:
    user, other = await choose(served, "restms"), await choose(served, "restms", "other")
    made = await user.does("Feed.Create", name="known", private=True, type="fanout")
    assert made["name"].startswith("feed-")
    assert len(made["name"]) > 20
    assert await other.leasing("Writer", f"feed/{made['name']}") == 202
    assert made["name"] not in [each["name"] for each in (await other.does("Feed.List"))["feeds"]]


async def test_feeds_are_listed_with_what_they_are(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="news", type="topic", title="All of it", license="none")
    await user.does("Feed.Create", name="work", type="rotator")
    listed = {each["name"]: each["type"] for each in (await user.does("Feed.List"))["feeds"]}
    assert listed.items() >= {"default": "", "news": "topic", "work": "rotator"}.items()
    assert [each["name"] for each in (await user.does("Feed.List", prefix="n"))["feeds"]] == ["news"]
    found = await user.does("Feed.Get", name="news")
    assert found == {"name": "news", "type": "topic", "title": "All of it", "license": "none", "joins": 0}
    assert await user.refused("Feed.Get", name="missing") == 404
    assert "feed/news" in (await user.does("Profile.Describe"))["writers"]["resources"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "a/b"}, 400),
        ({"name": "a b"}, 400),
        ({"name": "x" * 251}, 400),
        ({"name": "news", "type": "stream"}, 400),
        ({"name": "amq.news"}, 403),
        ({"name": "pipe-mine"}, 409),
        ({"name": 5}, 400),
    ],
)
async def test_feed_that_cannot_be_made_is_refused(served: Served, fields: dict[str, object], code: int) -> None:
    assert await (await choose(served, "restms")).refused("Feed.Create", **fields) == code


async def test_feeds_and_pipes_of_others_are_left_to_them(served: Served) -> None:
    user, other = await choose(served, "restms"), await choose(served, "restms", "other")
    await user.does("Feed.Create", name="news")
    pipe = (await user.does("Pipe.Create", title="Mine"))["name"]
    assert await other.refused("Feed.Delete", name="news") == 403
    assert await other.refused("Feed.Delete", name="default") == 403
    assert await other.does("Pipe.Delete", name=pipe) == {"deleted": False}
    assert await other.refused("Pipe.Get", name=pipe) == 404
    assert await other.refused("Join.Create", pipe=pipe, feed="news") == 404
    assert await other.leasing("Reader", f"pipe/{pipe}") == 404
    assert (await other.does("Pipe.List"))["pipes"] == []
    shown = {"name": pipe, "type": "", "title": "Mine", "messages": 0, "readers": 0}
    assert (await user.does("Pipe.List"))["pipes"] == [shown]


async def test_rights_are_asked_for_each_command_and_lease(served: Served) -> None:
    owner, user = await choose(served, "restms"), await choose(served, "restms", "reader")
    await owner.does("Feed.Create", name="work", type="rotator")
    assert await user.refused("Feed.Create", name="news") == 403
    for type_ in ("", "ondemand"):  # the second one has no queue, and needs the right to one all the same
        assert await user.refused("Pipe.Create", type=type_) == 403
    assert await user.leasing("Writer", "feed/work") == await user.leasing("Writer", "feed/default") == 403


async def test_what_has_no_queue_or_binding_of_its_own_is_limited_as_if_it_had(served: Served) -> None:
    user = await choose(served, "restms", "other")
    await user.does("Feed.Create", name="work", type="rotator")
    await user.does("Feed.Create", name="more", type="rotator")
    limits = UserLimits(queues=3, bindings=1)
    served.broker.put_user("other", User(password="other", permissions={"*": ALL}, limits=limits))
    pipe = await piped(user, "work", "*", type_="ondemand")
    assert await user.refused("Pipe.Create", type="ondemand") == 503
    assert await user.refused("Join.Create", pipe=pipe, feed="more") == 503
    await user.does("Join.Delete", pipe=pipe, feed="work")
    await user.does("Join.Create", pipe=pipe, feed="more")
    await user.does("Pipe.Delete", name=pipe)
    await piped(user, "work", "*", type_="ondemand")


async def test_pipes_of_a_user_who_is_gone_are_deleted_after_a_while(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery) as served:
        user = await choose(served, "restms", "other")
        pipe = (await user.does("Pipe.Create"))["name"]
        served.broker.remove_user("other")
        clock = trio.lowlevel.current_clock()
        for is_there in (True, False):
            clock.jump(61)  # type: ignore[attr-defined]
            await choose(served, "restms")
            assert (pipe in served.broker.directory.queues) is is_there


async def test_deleted_pipe_is_summoned_no_more(served: Served) -> None:
    user = await choose(served, "restms")
    await user.does("Feed.Create", name="work", type="rotator")
    pipe = await piped(user, "work", "*")
    reader, writer = await user.reader(f"pipe/{pipe}", confirm="full"), await user.writer("feed/work")
    await writer.send(content(1, "", b"kept"))
    await reader.contents(1)
    assert await user.does("Pipe.Delete", name=pipe) == {"deleted": True}
    assert await reader.response(2, after=len(reader.heard) - 1) == 404
    await reader.send(Command("reject", 1, recycle=True))  # what it has is its own still
    await served.ready("work", 1)
    assert await user.does("Pipe.Delete", name=pipe) == {"deleted": False}


async def test_pipe_whose_queue_is_deleted_elsewhere_has_gone_and_a_rotator_has_not_taken_it_along(
    served: Served,
) -> None:
    user, exchanges = await choose(served, "restms"), await choose(served, "amqp")
    await user.does("Feed.Create", name="work", type="rotator")
    pipe, ondemand = await piped(user, "work", "*"), await piped(user, "work", "*", type_="ondemand")
    reader, other = await user.reader(f"pipe/{pipe}"), await user.reader(f"pipe/{ondemand}")
    await exchanges.does("Queue.Delete", name="work")
    await exchanges.does("Queue.Delete", name=pipe)
    await reader.until(lambda: len(reader.of("response")) == 3)
    assert (reader.of("response")[2].sequence, reader.of("response")[2].body) == (2, b"404")
    assert [each["name"] for each in (await user.does("Pipe.List"))["pipes"]] == [ondemand]
    await user.does("Feed.Create", name="again", type="rotator")
    await user.does("Join.Create", pipe=ondemand, feed="again")
    writer = await user.writer("feed/again")
    await writer.send(content(1, "", b"one"))
    assert bodies(await other.contents(1)) == [b"one"]


async def test_pipe_and_its_joins_are_there_after_a_restart(nursery: trio.Nursery, tmp_path: Path) -> None:
    async with serving(nursery, broker={"data_dir": tmp_path}) as served:
        user = await choose(served, "restms")
        await user.does("Feed.Create", name="news", type="topic", title="All of it")
        pipe = await piped(user, "news", "rec.#")
        writer = await user.writer("feed/news", confirm="full")
        await writer.send(content(1, "", b"kept", address="rec", delivery_mode=2))
        await writer.until(lambda: bool(writer.of("confirm")))
    async with serving(nursery, broker={"data_dir": tmp_path}) as served:
        user = await choose(served, "restms")
        assert (await user.does("Feed.Get", name="news"))["title"] == "All of it"
        assert [each["address"] for each in (await user.does("Pipe.Get", name=pipe))["joins"]] == [pipe, "rec.#"]
        assert bodies(await (await user.reader(f"pipe/{pipe}")).contents(1)) == [b"kept"]


async def test_pipe_is_the_same_over_http(nursery: trio.Nursery) -> None:
    config = MTL(port=0), RestMS(host="127.0.0.1", port=0)
    async with open_broker(*config, users=USERS) as broker:
        served, caller = Served(broker, nursery), Caller(broker)
        user = await choose(served, "restms")
        name = (await user.does("Pipe.Create", title="Shared"))["name"]
        pipe = PipeCaller(caller, f"/restms/resource/{name}")
        await caller.make_feed("news", "fanout")
        await user.does("Join.Create", pipe=name, feed="news")
        assert len((await pipe.document()).joins) == 2
        await caller.send("/restms/feed/news", "over HTTP", address="a")
        assert await pipe.next() == "over HTTP"
        assert (await user.does("Pipe.List"))["pipes"][0]["title"] == "Shared"
        # What HTTP waits for ends with the pipe.
        asynclet = await pipe.asynclet()
        async with trio.open_nursery() as polling:
            polling.start_soon(wait_for_404, Caller(broker), asynclet)
            served_pipe = restms_of(broker).resources.domains["default"].pipes[name]
            await served.until(lambda: served_pipe.is_waited_for)
            assert await user.does("Pipe.Delete", name=name) == {"deleted": True}
        assert (await caller.get(pipe.path)).status == 404
        await served.close()


async def wait_for_404(caller: Caller, path: str) -> None:
    assert (await caller.get(path)).status == 404


async def test_service_that_http_reads_ends_with_its_last_join_here(nursery: trio.Nursery) -> None:
    config = MTL(port=0), RestMS(host="127.0.0.1", port=0)
    async with open_broker(*config, users=USERS) as broker:
        served, caller = Served(broker, nursery), Caller(broker)
        user = await choose(served, "restms")
        pipe = await caller.make_pipe()
        feed = await caller.make_feed("work", "service")
        join = await pipe.join(feed)
        assert await user.does("Join.Delete", id=join.rpartition("/")[2]) == {"deleted": True}
        assert (await caller.get(feed)).status == 404
        assert (await caller.get(join)).status == 404
        await served.close()
