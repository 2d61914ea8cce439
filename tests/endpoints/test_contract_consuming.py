"""What every endpoint owes whoever consumes, and its other clients: nothing is lost, nobody holds up others or the end.

In virtual time, without a store; see ``contract`` for the parties.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import trio
import trio.testing

from endpoints.conftest import crash, run_in_virtual_time, run_with_jumps
from endpoints.contract import Consuming
from endpoints.parties import CONSUMERS
from endpoints.restms.party import RestMSConsuming
from triomq.app import Broker, User, open_broker
from triomq.core import DeleteQueue, QueueStatistics
from triomq.endpoints import AMQP, Client, UnreadAccount
from triomq.endpoints.base.stream_client import StreamClient
from triomq.security import ALL, Permission, UserLimits

pytestmark = [pytest.mark.parametrize("kind", CONSUMERS), pytest.mark.usefixtures("time_of_kind")]

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "other": User(password="other", permissions={"*": ALL}),
    "writer": User(password="writer", permissions={"*": Permission(".*", ".*", "^$")}),
}
DRAIN = 3.0
"""Seconds that clients have to go."""
_CROWD = 8
"""Connections that do not read."""
_MOST_OF_ONE = 600_000
"""Bytes that one of them may hold."""


@pytest.fixture
def time_of_kind(request: pytest.FixtureRequest, kind: str) -> None:
    """Let time be virtual, or at least jump."""
    run = run_with_jumps if CONSUMERS[kind].has_threads else run_in_virtual_time
    request.node.add_marker(pytest.mark.trio(run=run), append=False)


@asynccontextmanager
async def opened(kind: str, *, user: str = "guest") -> AsyncIterator[tuple[Broker, Consuming]]:
    """Open a broker and a party that consumes from a queue ``q`` in memory."""
    config = AMQP(host="127.0.0.1", port=0)
    async with open_broker(config, users=USERS, drain=DRAIN) as broker, trio.open_nursery() as nursery:
        party = CONSUMERS[kind](broker, nursery, user)
        await party.open()
        yield broker, party
        nursery.cancel_scope.cancel()


async def publish(party: Consuming, *bodies: bytes) -> None:
    for body in bodies:
        await party.broker.publish("", "q", body)
    await party.settled()


def state(broker: Broker) -> QueueStatistics:
    """Look at the queue, which may be its consumer's own."""
    return broker.directory.queues["q"].statistics()


async def require_returned(broker: Broker, *bodies: bytes) -> None:
    """See that messages are back in the queue, marked as delivered before."""
    for body in bodies:
        delivery = await broker.queue("q").get()
        assert delivery is not None
        assert (delivery.body, delivery.redelivered) == (body, True)


def skip_without_users(kind: str) -> None:
    if not CONSUMERS[kind].has_users:
        pytest.skip("the program itself is nobody's user")


async def test_messages_come_once_and_in_order(kind: str) -> None:
    async with opened(kind) as (broker, party):
        bodies = [b"%d" % number for number in range(300)]
        for body in bodies:
            broker.publish_nowait("", "q", body)
        await party.settled()
        while len(party.got) < 300 and party.has_threads:
            await party.settled()
        assert party.got == (bodies[:100] if kind == "program" else bodies)  # it has a prefetch of its own


async def test_user_without_the_right_to_consume_gets_nothing_and_is_refused(kind: str) -> None:
    skip_without_users(kind)
    async with opened(kind, user="writer") as (_, party):
        await publish(party, b"x")
        assert (party.ended, party.got) == (True, [])


async def test_removed_user_is_put_out_and_what_it_has_goes_back(kind: str) -> None:
    skip_without_users(kind)
    async with opened(kind) as (broker, party):
        await publish(party, b"x")
        broker.set_users({"writer": USERS["writer"]})
        await party.passes(5)
        assert party.ended
        assert not party.clients
        if party.settles:
            await require_returned(broker, b"x")


async def test_messages_of_a_consumer_that_hangs_up_go_back(kind: str) -> None:
    async with opened(kind) as (broker, party):
        await publish(party, b"1", b"2")
        assert party.got == [b"1", b"2"]
        await party.hang_up()
        await party.passes(5)
        assert state(broker).unsettled == 0
        if party.settles:
            await require_returned(broker, b"1", b"2")


async def test_consumer_learns_that_its_queue_is_deleted(kind: str) -> None:
    async with opened(kind) as (broker, party):
        await publish(party, b"x")
        owner = broker.directory.queues["q"].owner
        broker.domain_ref.ask_nowait(DeleteQueue("q", owner or broker.session))
        await party.passes(5)
        assert party.cancelled or party.ended


async def test_crash_of_a_queue_loses_nothing_and_its_consumer_goes_on_or_learns_of_it(kind: str) -> None:
    async with opened(kind) as (broker, party):
        await publish(party, b"x")
        crash(broker, "q")
        await broker.directory.queues["q"].ref.wait_running()
        await party.settled()
        if party.goes_on:
            assert party.got == [b"x"] if party.keeps else [b"x", b"x"]
        else:
            assert party.cancelled or party.ended
            assert state(broker).ready == (1 if party.settles else 0)


async def test_consumer_that_does_not_read_holds_a_bounded_amount_and_no_other_up(kind: str) -> None:
    async with opened(kind) as (broker, slow), trio.open_nursery() as nursery:
        other = CONSUMERS[kind](broker, nursery)
        await other.open("r")
        await slow.stop_reading()
        body = bytes(50_000)
        for _ in range(300):
            await broker.publish("", "q", body)
        found = state(broker)
        assert found.ready + found.unsettled >= 300 - 50  # the rest is on its way: no more than a few writes
        await broker.publish("", "r", b"for the other one")
        await other.settled()
        assert other.got == [b"for the other one"]
        nursery.cancel_scope.cancel()


async def test_many_connections_of_a_user_that_do_not_read_hold_a_bounded_amount_together(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_users(kind)
    if CONSUMERS[kind] is RestMSConsuming or "toy" in kind or kind == "lines":
        pytest.skip("it asks for each message, or is the example of an endpoint that others cover")
    async with opened(kind, user="guest") as (broker, _), trio.open_nursery() as nursery:
        monkeypatch.setattr(UnreadAccount, "room", 256 * 1024)
        others = CONSUMERS[kind](broker, nursery, "other")
        await others.open("of-another-user")
        for number in range(_CROWD):
            party = CONSUMERS[kind](broker, nursery)
            await party.open(f"q{number}")
            await party.stop_reading()
            for _ in range(10):
                await broker.publish("", f"q{number}", bytes(50_000))
        await others.passes(2)
        clients = [ref.actor for each in broker.endpoints.children.values() for ref in each.actor.children.values()]  # type: ignore[union-attr]
        unread = sum(client.writer.unread for client in clients if isinstance(client, StreamClient))
        assert max(unread, broker.context.unread.held) <= 2 * 128 * 1024 + _MOST_OF_ONE
        await broker.publish("", "of-another-user", b"for the other one")
        await others.settled()
        assert others.got == [b"for the other one"]
        assert not others.ended
        nursery.cancel_scope.cancel()


async def test_consumer_that_reads_gets_a_backlog_of_any_size(kind: str) -> None:
    if kind == "program":
        pytest.skip("it has a prefetch of its own")
    async with opened(kind) as (_, party):
        await publish(party, *[bytes(50_000)] * 100)
        for _ in range(60):  # of which most parties need one; a loaded machine takes some for real sockets
            if len(party.got) < 100:
                await party.passes(1)
        assert len(party.got) == 100


async def test_drain_ends_in_time_with_a_consumer_that_reads(kind: str) -> None:
    async with opened(kind) as (broker, party):
        await publish(party, b"x")
        began = trio.current_time()
        await broker.drain()
        assert trio.current_time() - began < DRAIN
        assert not party.clients


async def test_end_of_the_broker_does_not_wait_for_a_client_that_does_not_read(kind: str) -> None:
    async with opened(kind) as (broker, party):
        await party.stop_reading()
        for _ in range(100):
            await broker.publish("", "q", bytes(50_000))
        began = trio.current_time()
        await party.lasts(broker.drain, DRAIN)
        assert trio.current_time() - began <= DRAIN + 1


# Users


async def test_client_whose_user_expires_is_put_out_and_what_it_has_goes_back(kind: str) -> None:
    skip_without_users(kind)
    async with opened(kind) as (broker, party):
        await publish(party, b"x")
        soon = datetime.now(tz=UTC) + timedelta(seconds=60)
        broker.set_users({"guest": User(password="guest", permissions={"*": ALL}, expires=soon)})
        await party.passes(50)
        assert not party.ended
        await party.passes(20)
        assert party.ended
        assert not party.clients
        if party.settles:
            await require_returned(broker, b"x")


async def test_client_above_its_users_limit_is_refused(kind: str) -> None:
    skip_without_users(kind)
    async with opened(kind) as (broker, party), trio.open_nursery() as nursery:
        count = broker.context.quotas.count("guest", "connections")
        assert count
        limits = UserLimits(connections=count)
        broker.set_users({"guest": User(password="guest", permissions={"*": ALL}, limits=limits)})
        other = CONSUMERS[kind](broker, nursery)
        try:
            await other.open("r")
        except AssertionError:
            other.ended = True
        assert other.ended
        assert broker.context.quotas.count("guest", "connections") == count
        await publish(party, b"for the first one")
        assert party.got == [b"for the first one"]
        await party.hang_up()
        await party.passes(5)
        assert broker.context.quotas.count("guest", "connections") < count
        nursery.cancel_scope.cancel()


# Ends


async def test_crash_of_a_client_puts_back_what_it_has_and_ends_no_other(kind: str) -> None:
    skip_without_users(kind)

    def fail() -> None:
        raise RuntimeError("the client's code has a bug")

    async with opened(kind) as (broker, party), trio.open_nursery() as nursery:
        endpoint = party.own_endpoint
        crashing = [ref.actor for ref in endpoint.children.values() if isinstance(ref.actor, Client)]
        other = CONSUMERS[kind](broker, nursery)
        await other.open("r")
        await publish(party, b"x")
        for client in crashing:
            client.ref.run_in_turn(fail)
        for _ in range(5):
            await party.passes(1)
            await other.settled()  # a peer that is silent for long ends as well
        assert party.ended
        if party.settles:
            await require_returned(broker, b"x")
        await broker.publish("", "r", b"for the other one")
        await other.settled()
        assert (other.got, endpoint.ref.epoch) == ([b"for the other one"], 1)
        nursery.cancel_scope.cancel()


async def test_crash_of_the_endpoint_puts_back_what_its_clients_have(kind: str) -> None:
    skip_without_users(kind)  # nor has it an endpoint

    async def fail() -> None:
        raise RuntimeError("the endpoint has a bug")

    async with opened(kind) as (broker, party), trio.open_nursery() as nursery:
        await publish(party, b"x")
        endpoint = party.own_endpoint
        ref = endpoint.ref
        endpoint.start_task(fail)
        await party.passes(5)
        assert party.ended
        assert (ref.epoch, ref.state) == (2, "running")
        assert broker.context.quotas.count("guest", "connections") == 0
        if party.settles:
            await require_returned(broker, b"x")
        other = CONSUMERS[kind](broker, nursery)
        await other.open("r")
        await broker.publish("", "r", b"for the other one")
        await other.settled()
        assert other.got == [b"for the other one"]
        nursery.cancel_scope.cancel()


async def test_endpoint_that_is_stopped_does_not_wait_for_a_client_that_does_not_read(kind: str) -> None:
    skip_without_users(kind)
    async with opened(kind) as (broker, party):
        await party.stop_reading()
        for _ in range(100):
            await broker.publish("", "q", bytes(50_000))
        began = trio.current_time()
        await party.lasts(partial(broker.endpoints.stop_child, party.own_endpoint.ref), DRAIN)
        assert trio.current_time() - began <= DRAIN + 1
        if party.settles:
            assert (state(broker).ready, state(broker).unsettled) == (100, 0)
