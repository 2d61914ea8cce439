"""Ledgers over tap: messages of an ordinary queue as records of a group."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from endpoints.tap.client import TapParty, append, declare_stream, dial, open_tap_broker, values
from triomq.app import Broker, User
from triomq.core import DeleteQueue, ledgers_of
from triomq.core.streams.ledgers import LEASE_SECONDS
from triomq.protocols.tap import (
    BoundsAnswered,
    DoneAnswered,
    GroupPosition,
    LeasedAnswered,
    PartitionBounds,
    RequestRefused,
)
from triomq.security import ALL, Permission

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("^$", "^$", "^orders$")}),
}


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_tap_broker(users=USERS, drain=1.0) as broker:
        await broker.declare_queue("jobs", durable=False)
        yield broker


@pytest.fixture
async def tap(broker: Broker) -> TapParty:
    return await dial(broker).open()


async def lease(tap: TapParty, most: int = 10, group: str = "g") -> LeasedAnswered:
    answer = await tap.ask(tap.engine.lease("jobs", group, most, 1 << 20))
    assert isinstance(answer, LeasedAnswered), answer
    return answer


async def refusal(tap: TapParty, number: int) -> str:
    answer = await tap.ask(number)
    assert isinstance(answer, RequestRefused), answer
    return answer.code


async def test_leased_messages_are_read_again_until_they_are_acknowledged(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"0", b"1", b"2", name="jobs")
    leased = await lease(tap, 2)
    identity = leased.bounds.identity
    assert leased == LeasedAnswered(1, PartitionBounds(identity, 0, 2), 1)
    for _ in range(2):
        assert values(await tap.ask(tap.fetch(0, 2, stream="jobs", group="g", identity=identity))) == [b"0", b"1"]
    other = await dial(broker).open()
    assert values(await other.ask(other.fetch(1, stream="jobs", group="g")))[-1] == b"1"
    done = await tap.ask(tap.engine.ack("jobs", "g", {0: GroupPosition(identity, 1)}))
    assert isinstance(done, DoneAnswered)
    bounds = await tap.ask(tap.engine.offsets("jobs", "g"))
    assert isinstance(bounds, BoundsAnswered)
    assert bounds.partitions == (PartitionBounds(identity, 1, 2, 1),)
    assert await refusal(tap, tap.fetch(0, stream="jobs", group="g")) == "OUT_OF_RANGE"
    assert (await lease(tap)).bounds.next == 3


async def test_fetch_waits_for_a_lease(broker: Broker, tap: TapParty) -> None:
    await lease(tap, 0)
    number = tap.fetch(0, stream="jobs", group="g", wait=60_000)
    await tap.flush()
    await append(broker, b"0", name="jobs")
    other = await dial(broker).open()
    await lease(other)
    assert values(await tap.ask(number)) == [b"0"]


async def test_ledger_that_is_not_there_is_unknown(broker: Broker, tap: TapParty) -> None:
    engine = tap.engine
    for number in (
        engine.offsets("jobs", "g"),
        engine.ack("jobs", "g", {0: GroupPosition(None, 0)}),
        tap.fetch(0, stream="jobs", group="g"),
        tap.fetch(0, stream="nowhere", group="g"),
        engine.lease("nowhere", "g", 1, 1),
    ):
        assert await refusal(tap, number) == "UNKNOWN_STREAM"
    await lease(tap)
    assert await refusal(tap, tap.fetch(0, stream="jobs", group="g", partition=1)) == "UNKNOWN_STREAM"
    assert await refusal(tap, engine.ack("jobs", "g", {1: GroupPosition(None, 0)})) == "UNKNOWN_STREAM"
    broker.domain_ref.ask_nowait(DeleteQueue("jobs", broker.session))
    assert await refusal(tap, tap.fetch(0, stream="jobs", group="g")) == "UNKNOWN_STREAM"


async def test_stream_is_not_leased(broker: Broker, tap: TapParty) -> None:
    declare_stream(broker, partitions=2)
    declare_stream(broker, "log")
    for name in ("orders", "orders-0", "log"):
        answer = await tap.ask(tap.engine.lease(name, "g", 1, 1))
        assert isinstance(answer, RequestRefused)
        assert (answer.code, "lease is not for stream" in answer.text) == ("REFUSED", True)


async def test_wrong_identity_and_offsets_change_nothing(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"0", b"1", name="jobs")
    identity = (await lease(tap)).bounds.identity
    assert await refusal(tap, tap.engine.ack("jobs", "g", {0: GroupPosition(identity + 1, 1)})) == "OTHER_STREAM"
    assert await refusal(tap, tap.engine.ack("jobs", "g", {0: GroupPosition(identity, 3)})) == "REFUSED"
    assert len(values(await tap.ask(tap.fetch(0, stream="jobs", group="g")))) == 2


async def test_right_to_lease_is_that_to_read_the_queue(broker: Broker) -> None:
    reader = await dial(broker, "reader").open()
    engine = reader.engine
    assert await refusal(reader, engine.lease("jobs", "g", 1, 1)) == "FORBIDDEN"
    assert await refusal(reader, reader.fetch(0, stream="jobs", group="g")) == "FORBIDDEN"


async def test_ledgers_are_shown_to_nobody(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"0", name="jobs")
    await lease(tap)
    assert list(broker.directory.queues) == ["jobs"]
    answer = await tap.ask(tap.engine.streams())
    assert answer.names == ()  # type: ignore[attr-defined]


async def test_what_is_leased_for_an_hour_goes_back(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"0", name="jobs")
    await lease(tap)
    ledgers, start = ledgers_of(broker.directory), trio.current_time()
    before = ledgers.wall()
    ledgers.wall = lambda: before + trio.current_time() - start
    await trio.sleep(LEASE_SECONDS - 10)
    assert values(await tap.ask(tap.fetch(0, stream="jobs", group="g"))) == [b"0"]
    await trio.sleep(30)
    assert await refusal(tap, tap.fetch(0, stream="jobs", group="g")) == "OUT_OF_RANGE"
    assert (await broker.queue("jobs").statistics()).ready == 1


async def test_ledger_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path) as broker:
            await broker.declare_queue("jobs")
            await append(broker, *[b"%d" % number for number in range(50)], name="jobs")
            tap = await dial(broker).open()
            before = await lease(tap, 40)
            await tap.ask(tap.engine.ack("jobs", "g", {0: GroupPosition(before.bounds.identity, 5)}))
        async with open_tap_broker(data_dir=tmp_path) as broker:
            tap = await dial(broker).open()
            number = tap.fetch(5, 40, stream="jobs", group="g", identity=before.bounds.identity)
            assert values(await tap.ask(number))[-35:] == [b"%d" % number for number in range(5, 40)]
            assert (await lease(tap, 100)).bounds.next == 50


async def test_ack_of_a_ledger_is_done_whole_or_not_at_all(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"0", b"1", name="jobs")
    await lease(tap)
    positions = {0: GroupPosition(None, 2), 1: GroupPosition(None, 0)}
    assert await refusal(tap, tap.engine.ack("jobs", "g", positions)) == "UNKNOWN_STREAM"
    assert (await lease(tap)).bounds.first == 0
