"""Long work on a domain's topology: cut into turns, with a sensible state between them."""

import pytest
import trio
import trio.testing

from memory_store import MemoryStore
from triomq.core import (
    Bind,
    CloseFeed,
    DeclareQueue,
    DeclareSink,
    DeleteSink,
    ForgetOrigin,
    Ledger,
    Outcome,
    Policy,
    PolicyOptions,
    Purge,
    QueueLocked,
    QueueOptions,
    QueueStore,
    SetPolicies,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    UnknownDelivery,
    make_binding,
)
from triomq.core.refusals import BeingDeleted

from .cast import House, open_house, publish, ready, settle
from .kept import open_kept, open_kept_house

MANY = 3_000
"""More than fit into a turn."""


async def turns(house: House) -> int:
    """Let chores be done, and count the turns of others that came between."""
    count = 0
    while house.directory.chores.waiting:
        await trio.lowlevel.checkpoint()
        count += 1
    return count


async def test_a_session_with_many_exclusive_queues_ends_in_turns_and_they_are_locked_until_gone() -> None:
    async with open_house() as house:
        session, other = house.new_session(), house.new_session()
        for number in range(MANY):
            house.queue(str(number), QueueOptions(exclusive=True), session)
        session.detach()
        assert 0 < len(house.directory.queues) < MANY
        last = str(MANY - 1)
        with pytest.raises(QueueLocked):
            house.queue(last, session=other)
        assert await turns(house) > 3
        assert not house.directory.queues
        house.queue(last, session=other)


async def test_few_exclusive_queues_are_gone_at_once() -> None:
    async with open_house() as house:
        session = house.new_session()
        for number in range(100):
            house.queue(str(number), QueueOptions(exclusive=True), session)
        session.detach()
        assert not house.directory.queues


def bound_house(house: House) -> None:
    """A sink with many bindings to one queue."""
    house.sink("s", SinkKind.TOPIC)
    house.queue("q")
    for number in range(MANY):
        house.bind("s", "q", f"{number}.*")


async def test_a_sink_with_many_bindings_is_gone_at_once_and_its_bindings_go_in_turns() -> None:
    async with open_house() as house:
        bound_house(house)
        house.domain.ask_nowait(DeleteSink("s"))
        assert "s" not in house.directory.sinks
        queue = house.directory.queues["q"]
        assert queue.bound
        assert await turns(house) > 3
        assert not queue.bound


async def test_a_sink_that_is_made_anew_meanwhile_keeps_its_bindings() -> None:
    async with open_house() as house:
        bound_house(house)
        house.domain.ask_nowait(DeleteSink("s"))
        house.sink("s", SinkKind.TOPIC)
        for key in ("0.*", f"{MANY - 1}.*"):
            assert house.bind("s", "q", key)
        await turns(house)
        queue, sink = house.directory.queues["q"], house.directory.sinks["s"]
        assert set(queue.bound or ()) == set(sink.bindings)
        assert len(sink.bindings) == 2
        assert house.directory.route("s", f"{MANY - 1}.x", dict).queues == (queue.ref,)
        assert house.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "0.*"), house.session))


async def test_a_queue_with_many_bindings_is_gone_at_once_and_routes_pass_over_it() -> None:
    async with open_house() as house:
        bound_house(house)
        house.queue("other")
        house.bind("s", "other", "#")
        house.delete("q")
        key = f"{next(iter(house.directory.sinks['s'].bindings)).key[:-1]}x"
        assert house.directory.route("s", key, dict).queues == (house.directory.queues["other"].ref,)
        assert await turns(house) > 3
        assert len(house.directory.sinks["s"].bindings) == 1


async def test_a_queue_that_is_made_anew_meanwhile_is_bound_anew() -> None:
    async with open_house() as house:
        bound_house(house)
        house.delete("q")
        store = house.queue("q")
        assert house.bind("s", "q", "0.*")
        assert not house.bind("s", "q", "0.*")
        await turns(house)
        assert [binding.key for binding in house.directory.sinks["s"].bindings] == ["0.*"]
        (found,) = house.directory.route("s", "0.x", dict).queues
        assert found is store.ref
        publish(store, b"here")
        assert ready(store) == [b"here"]


async def test_sinks_that_lead_to_each_other_go_with_all_bindings() -> None:
    async with open_house() as house:
        house.sink("a", SinkKind.TOPIC)
        house.sink("b", SinkKind.TOPIC)
        for number in range(MANY // 2):
            house.bind_sinks("a", "b", f"{number}.*")
            house.bind_sinks("b", "a", f"{number}.*")
        house.domain.ask_nowait(DeleteSink("a"))
        assert not house.directory.route("b", "1.x", dict).queues
        house.domain.ask_nowait(DeleteSink("b"))
        assert await turns(house) > 3
        assert not house.directory.sinks


async def test_an_auto_delete_sink_goes_when_the_last_of_many_bindings_goes() -> None:
    async with open_house() as house:
        house.sink("s", auto_delete=True)
        house.queue("q")
        for number in range(MANY):
            house.bind("s", "q", str(number))
        house.delete("q")
        assert "s" in house.directory.sinks
        await turns(house)
        assert "s" not in house.directory.sinks


async def test_what_a_peer_had_made_is_forgotten_in_turns() -> None:
    async with open_house() as house:
        house.domain.ask_nowait(DeclareSink("s", SinkOptions(), origin="peer"))
        for number in range(MANY):
            house.domain.ask_nowait(DeclareQueue(str(number), QueueOptions(), house.session, "peer"))
            house.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, str(number)), house.session, "peer"))
        assert house.domain.ask_nowait(ForgetOrigin("peer")) == 2 * MANY + 1
        assert house.directory.queues
        assert await turns(house) > 3
        assert not house.directory.queues
        assert not house.directory.sinks


async def test_policies_come_to_many_queues_in_turns_and_to_new_ones_at_once() -> None:
    async with open_house() as house:
        for number in range(MANY):
            house.queue(f"q{number}")
        policies = (Policy("p", "^q", PolicyOptions(max_length=5)),)
        change = house.domain.ask_nowait(SetPolicies(policies))
        assert 0 < change.changed < MANY
        assert house.queue("q new").options.max_length == 5
        assert await change.wait_done() == MANY
        assert all(queue.options.max_length == 5 for queue in house.directory.queues.values())


async def test_several_long_chores_take_turns() -> None:
    async with open_house() as house:
        sessions = [house.new_session() for _ in range(2)]
        for number in range(MANY):
            for session in sessions:
                house.queue(f"{session.number} {number}", QueueOptions(exclusive=True), session)
        for session in sessions:
            session.detach()
        left = [len(session.queues) for session in sessions]
        for _ in range(8):
            await trio.lowlevel.checkpoint()
        assert all(len(session.queues) < before for session, before in zip(sessions, left, strict=True))
        await turns(house)
        assert not house.directory.queues


async def test_a_domain_that_crashes_meanwhile_goes_on_when_it_is_back() -> None:
    async with open_house() as house:
        session = house.new_session()
        for number in range(MANY):
            house.queue(str(number), QueueOptions(exclusive=True), session)
        session.detach()
        house.crash_domain_nowait()
        await house.domain.wait_running()
        await turns(house)
        assert not house.directory.queues


async def test_the_name_of_something_durable_is_free_when_its_last_binding_has_left_the_store() -> None:
    store = MemoryStore()
    async with open_kept_house(store) as kept:
        house = kept.house
        house.domain.ask_nowait(DeclareSink("s", SinkOptions(durable=True), house.session))
        house.queue("q", QueueOptions(durable=True))
        for number in range(MANY):
            house.bind("s", "q", str(number))
        house.delete("q")
        with pytest.raises(BeingDeleted) as refused:
            house.queue("q", QueueOptions(durable=True))
        with trio.fail_after(5):
            await refused.value.wait_over()
        house.queue("q", QueueOptions(durable=True))
        kept.disk.work()
    _, directory = open_kept(store, 0)
    assert not directory.sinks["s"].bindings


async def test_bindings_of_a_sink_are_removed_at_the_next_start_if_the_broker_was_killed_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with open_kept_house(store) as kept:
        house = kept.house
        house.domain.ask_nowait(DeclareSink("s", SinkOptions(durable=True), house.session))
        house.queue("q", QueueOptions(durable=True))
        for number in range(MANY):
            house.bind("s", "q", str(number))
        house.domain.ask_nowait(DeleteSink("s"))
        kept.disk.work()
        assert house.directory.chores.waiting
    caplog.clear()
    disk, directory = open_kept(store, 0)
    assert not directory.sinks
    assert "bindings led nowhere and are removed" in caplog.text
    disk.work()
    caplog.clear()
    open_kept(store, 0)
    assert "led nowhere" not in caplog.text


def big(house: House) -> QueueStore:
    """A queue with many messages in runs, some of which have come back."""
    store, consumer = house.queue(), house.consumer()
    feed = house.feed(store, consumer, messages=60_000)
    for _ in range(300):
        publish(store, *[b"x"] * 1000)
    assert consumer.batches
    store.ref.ask_nowait(CloseFeed(feed))
    for batch in consumer.batches:
        settle(batch, Outcome.REQUEUE)
    consumer.batches.clear()
    return store


async def test_a_purge_forgets_millions_of_messages_at_once_and_frees_them_in_turns() -> None:
    async with open_house() as house:
        store = big(house)
        assert store.ref.ask_nowait(Purge()) == 300_000
        assert store.statistics().ready == 0
        publish(store, b"new")
        assert await turns(house) > 3
        assert ready(store) == [b"new"]


async def test_a_deleted_queue_frees_its_messages_in_turns() -> None:
    async with open_house() as house:
        store = big(house)
        house.delete("q")
        assert await turns(house) > 3
        assert store.backlog.ready == 0


@pytest.mark.parametrize("how", ["requeue all", "nack up to 0", "nack up to the last", "accept"])
@pytest.mark.parametrize("in_turns", [True, False])
async def test_a_hundred_thousand_deliveries_are_settled_in_turns(how: str, in_turns: bool) -> None:
    async with open_house() as house:
        store, consumer, ledger = house.queue(), house.consumer(), Ledger()
        if in_turns:
            ledger.begin_later = house.directory.chores.begin_later
        feed = house.feed(store, consumer)
        for number in range(100):
            publish(store, *[b"%d" % number] * 1000)
        for batch in consumer.batches:
            ledger.enter(batch)
        store.ref.ask_nowait(CloseFeed(feed))
        match how:
            case "requeue all":
                house.turn(ledger.requeue_all)
            case "nack up to 0":
                house.turn(lambda: ledger.settle_up_to(0, Outcome.REQUEUE))
            case "nack up to the last":
                house.turn(lambda: ledger.settle_up_to(100_000, Outcome.REQUEUE))
            case "accept":
                house.turn(lambda: ledger.settle_up_to(0, Outcome.ACCEPT))
        assert ledger.is_empty
        with pytest.raises(UnknownDelivery):
            ledger.settle_each([50_000], Outcome.ACCEPT)
        assert (store.backlog.unsettled > 50_000) is in_turns
        assert (await turns(house) > 3) is in_turns
        assert (store.backlog.ready, store.backlog.unsettled) == (0 if how == "accept" else 100_000, 0)
        if how != "accept":
            entries = [*store.backlog.entries()]
            assert [entry.id for entry in entries] == [*range(1, 100_001)]
            assert {entry.attempts for entry in entries} == {1}


async def test_deliveries_up_to_any_number_are_settled_in_turns_and_those_behind_it_are_left() -> None:
    async with open_house() as house:
        store, consumer, ledger = house.queue(), house.consumer(), Ledger()
        ledger.begin_later = house.directory.chores.begin_later
        feed = house.feed(store, consumer)
        for number in range(100):
            publish(store, *[b"%d" % number] * 1000)
        for batch in consumer.batches:
            ledger.enter(batch)
        store.ref.ask_nowait(CloseFeed(feed))
        house.turn(lambda: ledger.settle_up_to(99_000, Outcome.REQUEUE))
        assert (ledger.oldest, store.backlog.unsettled > 50_000) == (99_001, True)
        with pytest.raises(UnknownDelivery):
            ledger.settle_up_to(99_000, Outcome.REQUEUE)
        assert await turns(house) > 3
        assert [entry.id for entry in store.backlog.entries()] == [*range(1, 99_001)]
        house.turn(lambda: ledger.settle_up_to(100_000, Outcome.ACCEPT))
        assert (ledger.is_empty, store.backlog.unsettled) == (True, 0)
