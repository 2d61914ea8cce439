"""What every endpoint owes whoever publishes: nothing taken is lost or comes twice, nothing else is said to be taken.

In a broker with a store, in real time; see ``contract`` for the parties.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from endpoints.conftest import knock_out
from endpoints.contract import Publishing, Sent
from endpoints.faults import frozen, unwritable, written
from endpoints.parties import PUBLISHERS
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP
from triomq.security import ALL, Permission

pytestmark = pytest.mark.parametrize("kind", PUBLISHERS)

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission(".*", "^$", ".*")}),
}
LARGE = [Sent(bytes(1 << 20))] * 20
"""More than may be on its way to the disk, which is 16 MiB."""


@asynccontextmanager
async def opened(
    kind: str, directory: Path, *, user: str = "guest", sink: str = "", store_host: str = "thread"
) -> AsyncIterator[tuple[Broker, Publishing]]:
    """Open a broker with a durable queue ``q``, and a party that is ready to publish into a sink."""
    party_class = PUBLISHERS[kind]
    with trio.fail_after(60):
        async with open_broker(
            AMQP(host="127.0.0.1", port=0),
            users=USERS,
            data_dir=directory,
            store_host=store_host,  # type: ignore[arg-type]
            drain=0.1,
        ) as broker:
            await broker.declare_queue("q")
            if sink:
                await by_header(broker, sink)
            async with trio.open_nursery() as nursery:
                party = party_class(broker, nursery, user)
                await party.open(sink)
                yield broker, party
                nursery.cancel_scope.cancel()


async def by_header(broker: Broker, name: str) -> None:
    """Bind a queue in memory to the header ``a``, a durable one to ``b``."""
    sink = await broker.declare_sink(name, "headers")
    await sink.bind(await broker.declare_queue("a", durable=False), arguments={"a": 1})
    await sink.bind(await broker.declare_queue("b"), arguments={"b": 1})


async def placed(broker: Broker, *queues: str) -> list[bytes]:
    """List what is in some queues."""
    return [message.body for queue in queues or ("q",) for message in await broker.queue(queue).browse(limit=1000)]


async def filled(party: Publishing, count: int) -> None:
    """Wait until so many messages are in the queue."""
    while (await party.broker.queue("q").statistics()).ready < count:
        await party.settled()


async def told(party: Publishing, count: int) -> None:
    """Wait until a party has heard of so many messages, if it does at all."""
    await party.told(count)
    await party.settled()


async def require_honest(party: Publishing, sent: int, found: list[bytes]) -> None:
    """Compare what was said with what is there: once each, and nothing else."""
    await told(party, sent)
    assert len(set(found)) == len(found)
    if party.answers:
        assert (party.taken, party.taken + party.refused) == (len(found), sent)
    else:
        assert len(found) == sent


def skip_without_users(kind: str) -> None:
    if not PUBLISHERS[kind].has_users:
        pytest.skip("the program itself is nobody's user")


def skip_without_persistence(kind: str) -> None:
    if not PUBLISHERS[kind].persists:
        pytest.skip("its messages are never durable")


# Who may


async def test_unknown_user_gets_nowhere(kind: str, tmp_path: Path) -> None:
    skip_without_users(kind)
    async with opened(kind, tmp_path) as (broker, known):
        with pytest.raises(AssertionError):
            await PUBLISHERS[kind](broker, known.nursery, "nobody").open()


async def test_user_without_the_right_to_publish_places_nothing_and_is_refused(kind: str, tmp_path: Path) -> None:
    skip_without_users(kind)
    async with opened(kind, tmp_path, user="reader") as (broker, party):
        if not party.ended:
            await party.publish(Sent(b"x"))
            await party.settled()
        assert party.ended
        assert await placed(broker) == []


async def test_removed_user_is_put_out(kind: str, tmp_path: Path) -> None:
    skip_without_users(kind)
    async with opened(kind, tmp_path) as (broker, party):
        await party.publish(Sent(b"before"))
        await party.settled()
        broker.set_users({"reader": USERS["reader"]})
        await party.settled()
        assert await party.is_put_out()
        assert await placed(broker) == [b"before"]


# Pressure


async def test_messages_wait_for_the_end_of_an_alarm_and_are_taken_once_afterwards(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (broker, party):
        await broker.declare_queue("full", durable=False)
        await broker.publish("", "full", bytes(20_000))
        broker.set_memory_high_watermark(10_000)
        await party.publish(Sent(b"1"), Sent(b"2", persistent=False), Sent(b"3"))
        await party.settled()
        assert (await placed(broker), party.taken) == ([], 0)
        broker.set_memory_high_watermark(0)
        await told(party, 3)
        await require_honest(party, 3, await placed(broker))


async def test_persistent_messages_are_not_taken_while_the_disk_is_full(kind: str, tmp_path: Path) -> None:
    skip_without_persistence(kind)
    async with opened(kind, tmp_path) as (broker, party):
        await written(broker)
        with unwritable(broker):
            await party.publish(Sent(b"1"), Sent(b"2"))
            await party.settled()
            assert (await placed(broker), party.taken) == ([], 0)
        await party.settled()
        if kind == "amqp":  # it cannot be told otherwise
            assert (party.ended, await placed(broker)) == (True, [])
        else:
            await require_honest(party, 2, await placed(broker))


async def test_full_disk_in_the_middle_of_a_run_loses_nothing_and_doubles_nothing(kind: str, tmp_path: Path) -> None:
    skip_without_persistence(kind)
    if not PUBLISHERS[kind].names_sinks:
        pytest.skip("it has no word for sinks")
    async with opened(kind, tmp_path, sink="h") as (broker, party):
        with unwritable(broker):
            await party.publish(Sent(b"1", header="a"), Sent(b"2", header="b"), Sent(b"3", header="a"))
            await party.settled()
            during = await placed(broker, "a", "b")
            assert party.taken == (len(during) if party.answers else 0)
        await party.settled()
        if kind == "amqp":
            assert (party.ended, await placed(broker, "a", "b")) == (True, [])
        else:
            await require_honest(party, 3, await placed(broker, "a", "b"))


async def test_publishers_wait_for_a_store_that_is_behind(kind: str, tmp_path: Path) -> None:
    skip_without_persistence(kind)
    async with opened(kind, tmp_path, store_host="process") as (broker, party):
        with frozen(broker):
            await party.publish(*LARGE)
            await filled(party, 16)
            await party.settled()
            assert (await broker.queue("q").statistics()).ready < len(LARGE)
            assert (party.taken, party.refused) == (0, 0)
        await filled(party, len(LARGE))
        await told(party, len(LARGE))
        assert party.refused == 0


async def test_message_is_confirmed_when_it_is_on_disk_and_not_before(kind: str, tmp_path: Path) -> None:
    if not PUBLISHERS[kind].answers:
        pytest.skip("it is told nothing")
    async with opened(kind, tmp_path, store_host="process") as (broker, party):
        with frozen(broker):
            await party.publish(Sent(b"x"))
            await party.settled()
            assert (await placed(broker), party.taken) == ([b"x"], 0)
        await told(party, 1)
        assert party.taken == 1


# Queues


async def test_full_queue_refuses_what_it_has_no_room_for(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (broker, party):
        await broker.declare_queue("small", max_length=1, overflow="reject-publish")
        await party.publish(Sent(b"1"), Sent(b"2"), key="small")
        await told(party, 2)
        assert await placed(broker, "small") == [b"1"]
        if party.answers:
            assert (party.taken, party.refused) == (1, 1)
        assert not party.ended


async def test_deleted_queue_gets_nothing_and_one_of_the_same_name_does(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (broker, party):
        await party.publish(Sent(b"1"))
        await party.settled()
        await broker.queue("q").delete()
        await party.publish(Sent(b"2"))
        await party.settled()
        if party.declares:
            await broker.queue("q").delete()
        await broker.declare_queue("q")
        await party.publish(Sent(b"3"))
        await told(party, 3)
        assert await placed(broker) == [b"3"]
        assert not party.ended


async def test_queue_that_is_being_restarted_gets_what_was_published_meanwhile(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (broker, party):
        await knock_out(broker, "q")
        await party.publish(Sent(b"1"), Sent(b"2"))
        await broker.directory.queues["q"].ref.wait_running()
        await told(party, 2)
        await require_honest(party, 2, await placed(broker))


async def test_message_that_its_publisher_does_not_finish_is_not_published(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as (broker, party):
        await party.break_off(Sent(b"whole"), Sent(b"half of it"))
        await party.settled()
        assert await placed(broker) == [b"whole"]
