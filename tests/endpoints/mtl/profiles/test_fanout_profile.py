"""The profile test (11/MTL, "The Test Profile")."""

import trio

from endpoints.mtl.conftest import Served, serving
from endpoints.mtl.profiles.user import bodies, choose, content
from triomq.app import User
from triomq.security import Permission


async def test_content_goes_from_all_writers_to_all_readers(served: Served) -> None:
    user, other = await choose(served, "test"), await choose(served, "TEST", "other")
    readers = [await user.reader("resource"), await other.reader("resource")]
    writers = [await user.writer(), await other.writer("resource")]
    for number, writer in enumerate(writers):
        await writer.send(content(1, "resource", b"%d" % number))
    for reader in readers:
        assert sorted(bodies(await reader.contents(2))) == [b"0", b"1"]


async def test_there_is_one_resource_and_no_confirm(served: Served) -> None:
    user = await choose(served, "test")
    assert await user.leasing("Writer", "resources") == await user.leasing("Reader", "resources") == 404
    assert await user.leasing("Writer", confirm="full") == await user.leasing("Reader", confirm="full") == 501
    described = await user.does("Profile.Describe")
    assert described["readers"] == described["writers"] == {"confirm": ["none"], "resources": ["resource"]}


async def test_queue_of_a_reader_goes_when_the_resource_is_dismissed(served: Served) -> None:
    user = await choose(served, "test")
    reader, writer = await user.reader("resource"), await user.writer("resource")
    (queue,) = (name for name in served.broker.directory.queues if name.startswith("mtl.test-"))
    assert await reader.ask("dismiss", 9, "resource") == 200
    await served.until(lambda: queue not in served.broker.directory.queues)
    await writer.send(content(1, ""))
    await writer.answered()
    assert not reader.of("content")


async def test_user_without_the_rights_to_its_sink_and_queues_is_refused(served: Served) -> None:
    await choose(served, "test")  # which declares the sink
    reader = await choose(served, "test", "reader")
    assert await reader.leasing("Reader", "resource") == await reader.leasing("Writer", "resource") == 403


async def test_user_without_the_right_to_declare_cannot_choose_it_first(nursery: trio.Nursery) -> None:
    users = {"guest": User(password="guest", permissions={"*": Permission("", ".*", ".*")})}
    async with serving(nursery, broker={"users": users}) as served:
        control = await served.control().log_in()
        assert (await control.ask("Connection.Profile", profile="test")).code == 403
