"""Leases: claimed once, moved from a flow that is silent, expired, and forgotten after a restart."""

import trio

from endpoints.mtl.conftest import Served, serving
from endpoints.mtl.raw import RawData
from peers.mtl_peer import Command


def content(number: int, body: bytes = b"x", *, persistent: bool = False) -> Command:
    return Command("content", number, "q", {"delivery-mode": 2} if persistent else {}, body=body)


async def test_whatever_comes_without_a_lease_is_refused_or_dropped(served: Served) -> None:
    data = served.data()
    assert await data.ask("lease", 1, "no such lease") == 403
    assert await data.ask("summon", 2, "q") == 403
    assert await data.ask("dismiss", 3, "q") == 403
    await data.send(content(4))
    assert await data.response(4) == 403
    await data.send(Command("ping"), Command("confirm", 1), Command("reject", 1))
    assert await data.ask("lease", 5, "") == 403
    assert not data.of("pong")  # so the client finds out that the server knows it no more
    await served.until(lambda: not served.endpoint.ref.children)


async def test_lease_is_claimed_by_one_flow_and_may_be_claimed_again_by_it(served: Served) -> None:
    control = await served.control().work_with("test")
    leased, other = await control.lease("Writer"), await control.lease("Reader")
    data = await served.claimed(leased)
    assert await data.ask("lease", 2, leased["lease"]) == 200
    assert await data.ask("lease", 3, other["lease"]) == 403  # one lease for each flow
    assert await served.data().ask("lease", 1, leased["lease"]) == 403  # its flow is alive
    assert await served.data().ask("lease", 1, other["lease"]) == 200


async def test_lease_that_nobody_claims_expires(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery) as served:
        control = await served.control().work_with("test")
        leased = await control.lease("Writer")
        trio.lowlevel.current_clock().jump(65)
        await served.until(lambda: not len(served.endpoint.leases))
        assert await served.data().ask("lease", 1, leased["lease"]) == 403


async def test_lease_of_a_flow_that_is_silent_goes_to_another_one(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery) as served:
        await served.broker.declare_queue("q", durable=False)
        control = await served.control().work_with("plain")
        leased = await control.lease("Reader", "q", confirm="full")
        first = await served.claimed(leased)
        assert await first.ask("summon", 2, "q") == 200
        for number in range(3):
            await served.broker.publish("", "q", b"%d" % number)
        assert [each.sequence for each in await first.contents(3)] == [1, 2, 3]
        await first.send(Command("confirm", 1))
        await first.answered()
        first.pongs = False
        trio.lowlevel.current_clock().jump(7)
        second = served.data()
        assert await second.ask("lease", 1, leased["lease"]) == 200
        assert await second.ask("summon", 2, "q") == 200
        found = await second.contents(2)
        assert [(each.sequence, each.body) for each in found] == [(1, b"1"), (2, b"2")]
        assert all(each.properties["redelivered"] for each in found)
        assert await first.ask("summon", 9, "q") == 403  # it was told nothing, and finds out


async def test_flow_that_is_silent_ends_and_what_it_had_goes_back(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery) as served:
        await served.broker.declare_queue("q", durable=False)
        control = await served.control().work_with("plain")
        leased = await control.lease("Reader", "q", confirm="full")
        first = await served.claimed(leased)
        await first.ask("summon", 2, "q")
        await served.broker.publish("", "q", b"x")
        await first.contents(1)
        first.pongs = False
        clock = trio.lowlevel.current_clock()
        for _ in range(8):
            clock.jump(2.5)
            await trio.sleep(0.01)
        await served.ready("q", 1)
        assert first.of("ping")
        assert await served.data().ask("lease", 1, leased["lease"]) == 200  # which lasts for a while
        clock.jump(20)


async def test_flow_that_pings_lives(nursery: trio.Nursery, jumping_time: None) -> None:
    async with serving(nursery) as served:
        data = await served.claimed(await (await served.control().work_with("test")).lease("Writer"))
        clock = trio.lowlevel.current_clock()
        for _ in range(10):
            data.heard.clear()
            await data.send(Command("ping"))
            await data.until(lambda: bool(data.of("pong")))
            clock.jump(2.5)
        assert len(served.endpoint.leases) == 1


async def test_content_that_is_sent_again_after_a_lease_has_moved_is_published_once(
    nursery: trio.Nursery, jumping_time: None
) -> None:
    async with serving(nursery) as served:
        await served.broker.declare_queue("q", durable=False)
        control = await served.control().work_with("plain")
        leased = await control.lease("Writer", "q", confirm="full")
        first = await served.claimed(leased)
        await first.send(*(content(number, b"%d" % number) for number in range(1, 6)))
        await first.until(lambda: confirmed(first) == {1, 2, 3, 4, 5})
        await first.close()
        trio.lowlevel.current_clock().jump(7)
        second = await served.claimed(leased)
        # The client has not got the last Confirms, and has one content more.
        await second.send(*(content(number, b"%d" % number) for number in range(3, 7)))
        await second.until(lambda: confirmed(second, 3) == {3, 4, 5, 6})
        bodies = [message.body for message in await served.broker.queue("q").browse(limit=100)]
        assert bodies == [b"1", b"2", b"3", b"4", b"5", b"6"]


def confirmed(data: RawData, first: int = 1) -> set[int]:
    """Return which contents are confirmed, of those from a number on."""
    found: set[int] = set()
    for each in data.of("confirm"):
        found |= set(range(first, each.sequence + 1)) if each.multiple else {each.sequence}
    return found


async def test_lease_is_asked_for_again_and_let_go_by_its_flow_at_once(served: Served) -> None:
    await served.broker.declare_queue("q", durable=False)
    control = await served.control().work_with("plain")
    leased = await control.lease("Reader", "q", confirm="full")
    first = await served.claimed(leased)
    await first.ask("summon", 2, "q")
    await served.broker.publish("", "q", b"x")
    await first.contents(1)
    # Other terms, or another user, make another lease of it.
    assert (await control.lease("Reader", "q", confirm="none", lease=leased["lease"]))["lease"] != leased["lease"]
    stranger = await served.control().work_with("plain", "other")
    assert (await stranger.lease("Reader", "q", confirm="full", lease=leased["lease"]))["lease"] != leased["lease"]
    assert (await control.lease("Reader", "q", confirm="full", lease=leased["lease"]))["lease"] == leased["lease"]
    second = await served.claimed(leased)
    await second.ask("summon", 2, "q")
    assert [each.body for each in await second.contents(1)] == [b"x"]


async def test_lease_is_released_by_its_own_user(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    data = await served.claimed(leased)
    stranger = await served.control().work_with("test", "other")
    assert (await stranger.ask("Connection.Release", lease=leased["lease"])).code == 200
    assert len(served.endpoint.leases) == 1
    assert (await control.ask("Connection.Release", lease=leased["lease"])).code == 200
    assert await data.ask("lease", 2, leased["lease"]) == 403
    assert (await control.ask("Connection.Release", lease=leased["lease"])).code == 200


async def test_session_and_leases_are_forgotten_when_the_endpoint_crashes(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    await served.claimed(leased)
    before = served.endpoint
    before.ref.crash(None, RuntimeError("a bug"))
    await served.until(lambda: served.endpoint is not before and served.endpoint.control.addresses != [])
    again = served.control()
    assert (await again.ask("Connection.Profile", profile="test")).code == 401
    assert await served.data().ask("lease", 1, leased["lease"]) == 403
