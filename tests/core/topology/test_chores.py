"""Long work on a domain's topology: cut into turns, with a sensible state between them."""

import pytest
import trio
import trio.testing

from core.durable import open_durable_directory, open_durable_harness
from core.harness import Harness, publish, ready, settle
from memory_store import MemoryStore
from triomq.core import (
    Bind,
    CloseFeed,
    DeclareQueue,
    DeclareSink,
    DeleteSink,
    Domain,
    ForgetOrigin,
    Ledger,
    Outcome,
    Policy,
    PolicyOptions,
    Purge,
    QueueLocked,
    QueueOptions,
    QueueState,
    SetPolicies,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    UnknownDelivery,
    make_binding,
)
from triomq.core.refusals import BeingDeleted

MANY = 3_000
"""More than fit into a turn."""


async def turns(harness: Harness) -> int:
    """Let chores be done, and count the turns of others that came between."""
    count = 0
    while harness.directory.chores.waiting:
        await trio.lowlevel.checkpoint()
        count += 1
    return count


async def test_session_with_many_exclusive_queues_ends_in_turns_and_they_are_locked_until_gone(
    harness: Harness,
) -> None:
    session, other = harness.new_session(), harness.new_session()
    for number in range(MANY):
        harness.queue(str(number), QueueOptions(exclusive=True), session)
    session.detach()
    assert 0 < len(harness.directory.queues) < MANY
    last = str(MANY - 1)
    with pytest.raises(QueueLocked):
        harness.queue(last, session=other)
    assert await turns(harness) > 3
    assert not harness.directory.queues
    harness.queue(last, session=other)


async def test_few_exclusive_queues_are_gone_at_once(harness: Harness) -> None:
    session = harness.new_session()
    for number in range(100):
        harness.queue(str(number), QueueOptions(exclusive=True), session)
    session.detach()
    assert not harness.directory.queues


def fill_with_bindings(harness: Harness) -> None:
    """A sink with many bindings to one queue."""
    harness.sink("s", SinkKind.TOPIC)
    harness.queue("q")
    for number in range(MANY):
        harness.bind("s", "q", f"{number}.*")


async def test_sink_with_many_bindings_is_gone_at_once_and_its_bindings_go_in_turns(harness: Harness) -> None:
    fill_with_bindings(harness)
    harness.domain.ask_nowait(DeleteSink("s"))
    assert "s" not in harness.directory.sinks
    queue = harness.directory.queues["q"]
    assert queue.bound
    assert await turns(harness) > 3
    assert not queue.bound


async def test_sink_that_is_made_anew_meanwhile_keeps_its_bindings(harness: Harness) -> None:
    fill_with_bindings(harness)
    harness.domain.ask_nowait(DeleteSink("s"))
    harness.sink("s", SinkKind.TOPIC)
    for key in ("0.*", f"{MANY - 1}.*"):
        assert harness.bind("s", "q", key)
    await turns(harness)
    queue, sink = harness.directory.queues["q"], harness.directory.sinks["s"]
    assert set(queue.bound or ()) == set(sink.bindings)
    assert len(sink.bindings) == 2
    assert harness.directory.route("s", f"{MANY - 1}.x", dict).queues == (queue.ref,)
    assert harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "0.*"), harness.session))


async def test_queue_with_many_bindings_is_gone_at_once_and_routes_pass_over_it(harness: Harness) -> None:
    fill_with_bindings(harness)
    harness.queue("other")
    harness.bind("s", "other", "#")
    harness.delete("q")
    key = f"{next(iter(harness.directory.sinks['s'].bindings)).key[:-1]}x"
    assert harness.directory.route("s", key, dict).queues == (harness.directory.queues["other"].ref,)
    assert await turns(harness) > 3
    assert len(harness.directory.sinks["s"].bindings) == 1


async def test_queue_that_is_made_anew_meanwhile_is_bound_anew(harness: Harness) -> None:
    fill_with_bindings(harness)
    harness.delete("q")
    queue = harness.queue("q")
    assert harness.bind("s", "q", "0.*")
    assert not harness.bind("s", "q", "0.*")
    await turns(harness)
    assert [binding.key for binding in harness.directory.sinks["s"].bindings] == ["0.*"]
    (found,) = harness.directory.route("s", "0.x", dict).queues
    assert found is queue.ref
    publish(queue, b"here")
    assert ready(queue) == [b"here"]


async def test_sinks_that_lead_to_each_other_go_with_all_bindings(harness: Harness) -> None:
    harness.sink("a", SinkKind.TOPIC)
    harness.sink("b", SinkKind.TOPIC)
    for number in range(MANY // 2):
        harness.bind_sinks("a", "b", f"{number}.*")
        harness.bind_sinks("b", "a", f"{number}.*")
    harness.domain.ask_nowait(DeleteSink("a"))
    assert not harness.directory.route("b", "1.x", dict).queues
    harness.domain.ask_nowait(DeleteSink("b"))
    assert await turns(harness) > 3
    assert not harness.directory.sinks


async def test_auto_delete_sink_goes_when_the_last_of_many_bindings_goes(harness: Harness) -> None:
    harness.sink("s", auto_delete=True)
    harness.queue("q")
    for number in range(MANY):
        harness.bind("s", "q", str(number))
    harness.delete("q")
    assert "s" in harness.directory.sinks
    await turns(harness)
    assert "s" not in harness.directory.sinks


async def test_peer_is_forgotten_in_turns(harness: Harness) -> None:
    harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), origin="peer"))
    for number in range(MANY):
        harness.domain.ask_nowait(DeclareQueue(str(number), QueueOptions(), harness.session, "peer"))
        harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, str(number)), harness.session, "peer"))
    assert harness.domain.ask_nowait(ForgetOrigin("peer")) == 2 * MANY + 1
    assert harness.directory.queues
    assert await turns(harness) > 3
    assert not harness.directory.queues
    assert not harness.directory.sinks


async def test_policies_come_to_many_queues_in_turns_and_to_new_ones_at_once(harness: Harness) -> None:
    for number in range(MANY):
        harness.queue(f"q{number}")
    policies = (Policy("p", "^q", PolicyOptions(max_length=5)),)
    change = harness.domain.ask_nowait(SetPolicies(policies))
    assert 0 < change.changed < MANY
    assert harness.queue("q new").options.max_length == 5
    assert await change.wait_done() == MANY
    assert all(queue.options.max_length == 5 for queue in harness.directory.queues.values())


async def test_several_long_chores_take_turns(harness: Harness) -> None:
    sessions = [harness.new_session() for _ in range(2)]
    for number in range(MANY):
        for session in sessions:
            harness.queue(f"{session.number} {number}", QueueOptions(exclusive=True), session)
    for session in sessions:
        session.detach()
    left = [len(session.queues) for session in sessions]
    for _ in range(8):
        await trio.lowlevel.checkpoint()
    assert all(len(session.queues) < before for session, before in zip(sessions, left, strict=True))
    await turns(harness)
    assert not harness.directory.queues


async def test_domain_that_crashes_meanwhile_goes_on_when_it_is_back(harness: Harness) -> None:
    session = harness.new_session()
    for number in range(MANY):
        harness.queue(str(number), QueueOptions(exclusive=True), session)
    session.detach()
    harness.crash_domain_nowait()
    await harness.domain.wait_running()
    await turns(harness)
    assert not harness.directory.queues


async def test_name_of_something_durable_is_free_when_its_last_binding_has_left_the_store() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(durable=True), harness.session))
        harness.queue("q", QueueOptions(durable=True))
        for number in range(MANY):
            harness.bind("s", "q", str(number))
        harness.delete("q")
        with pytest.raises(BeingDeleted) as refused:
            harness.queue("q", QueueOptions(durable=True))
        with trio.fail_after(60):
            await refused.value.wait_over()
        harness.queue("q", QueueOptions(durable=True))
        durable.disk.work()
    _, directory = open_durable_directory(store, 0)
    assert not directory.sinks["s"].bindings


async def test_bindings_of_a_sink_are_removed_at_the_next_start_if_the_broker_was_killed_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(durable=True), harness.session))
        harness.queue("q", QueueOptions(durable=True))
        for number in range(MANY):
            harness.bind("s", "q", str(number))
        harness.domain.ask_nowait(DeleteSink("s"))
        durable.disk.work()
        assert harness.directory.chores.waiting
    caplog.clear()
    disk, directory = open_durable_directory(store, 0)
    assert not directory.sinks
    assert "bindings led nowhere and are removed" in caplog.text
    disk.work()
    caplog.clear()
    open_durable_directory(store, 0)
    assert "led nowhere" not in caplog.text


def big(harness: Harness) -> QueueState:
    """A queue with many messages in runs, some of which have come back."""
    queue, consumer = harness.queue(), harness.consumer()
    feed = harness.feed(queue, consumer, messages=60_000)
    for _ in range(300):
        publish(queue, *[b"x"] * 1000)
    assert consumer.batches
    queue.ref.ask_nowait(CloseFeed(feed))
    for batch in consumer.batches:
        settle(batch, Outcome.REQUEUE)
    consumer.batches.clear()
    return queue


async def test_purge_forgets_millions_of_messages_at_once_and_frees_them_in_turns(harness: Harness) -> None:
    queue = big(harness)
    assert queue.ref.ask_nowait(Purge()) == 300_000
    assert queue.statistics().ready == 0
    publish(queue, b"new")
    assert await turns(harness) > 3
    assert ready(queue) == [b"new"]


async def test_deleted_queue_frees_its_messages_in_turns(harness: Harness) -> None:
    queue = big(harness)
    harness.delete("q")
    assert await turns(harness) > 3
    assert queue.backlog.ready == 0


def with_all_out(harness: Harness, *, in_turns: bool) -> tuple[QueueState, Ledger]:
    """A queue whose hundred thousand messages are out, and the ledger of their deliveries."""
    queue, consumer, ledger = harness.queue(), harness.consumer(), Ledger()
    if in_turns:
        ledger.begin_later = harness.directory.chores.add
    feed = harness.feed(queue, consumer)
    for number in range(100):
        publish(queue, *[b"%d" % number] * 1000)
    for batch in consumer.batches:
        ledger.enter(batch)
    queue.ref.ask_nowait(CloseFeed(feed))
    return queue, ledger


@pytest.mark.parametrize("how", ["requeue all", "nack up to 0", "nack up to the last", "accept"])
@pytest.mark.parametrize("in_turns", [True, False])
async def test_hundred_thousand_deliveries_are_settled_in_turns(harness: Harness, how: str, in_turns: bool) -> None:
    queue, ledger = with_all_out(harness, in_turns=in_turns)
    match how:
        case "requeue all":
            harness.turn(ledger.requeue_all)
        case "nack up to 0":
            harness.turn(lambda: ledger.settle_up_to(0, Outcome.REQUEUE))
        case "nack up to the last":
            harness.turn(lambda: ledger.settle_up_to(100_000, Outcome.REQUEUE))
        case "accept":
            harness.turn(lambda: ledger.settle_up_to(0, Outcome.ACCEPT))
    assert ledger.is_empty
    with pytest.raises(UnknownDelivery):
        ledger.settle_each([50_000], Outcome.ACCEPT)
    assert (queue.backlog.unsettled > 50_000) is in_turns
    assert (await turns(harness) > 3) is in_turns
    assert (queue.backlog.ready, queue.backlog.unsettled) == (0 if how == "accept" else 100_000, 0)
    if how != "accept":
        entries = [*queue.backlog.entries()]
        assert [entry.id for entry in entries] == [*range(1, 100_001)]
        assert {entry.attempts for entry in entries} == {1}


async def test_deliveries_up_to_any_number_are_settled_in_turns_and_those_behind_it_are_left(harness: Harness) -> None:
    queue, ledger = with_all_out(harness, in_turns=True)
    harness.turn(lambda: ledger.settle_up_to(99_000, Outcome.REQUEUE))
    assert (ledger.oldest, queue.backlog.unsettled > 50_000) == (99_001, True)
    with pytest.raises(UnknownDelivery):
        ledger.settle_up_to(99_000, Outcome.REQUEUE)
    assert await turns(harness) > 3
    assert [entry.id for entry in queue.backlog.entries()] == [*range(1, 99_001)]
    harness.turn(lambda: ledger.settle_up_to(100_000, Outcome.ACCEPT))
    assert (ledger.is_empty, queue.backlog.unsettled) == (True, 0)


class _Crashing:
    """A chore whose first step crashes, and whose second one is the last."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, domain: Domain) -> bool:
        self.steps += 1
        if self.steps == 1:
            raise RuntimeError("the first step")
        return False


async def test_chore_that_crashes_the_domain_goes_on_in_its_next_incarnation(harness: Harness) -> None:
    queue, chore = harness.queue("q"), _Crashing()
    harness.directory.chores.add(chore)
    with trio.fail_after(60):
        while chore.steps < 2:
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert not harness.directory.chores.waiting
    await harness.domain.wait_running()
    publish(queue, b"x")
    assert ready(queue) == [b"x"]


async def test_chore_that_crashes_in_the_turn_in_which_it_begins_goes_on_later(harness: Harness) -> None:
    chores, chore = harness.directory.chores, _Crashing()
    with pytest.raises(RuntimeError, match="the first step"):
        chores.begin(chore, harness.domain.actor)  # type: ignore[arg-type]
    assert chores.waiting == 1
    await turns(harness)
    assert chore.steps == 2


async def test_name_of_a_deleted_queue_stays_taken_until_its_own_bindings_are_gone_whatever_else_had_the_name() -> None:
    async with open_durable_harness() as kept:
        harness = kept.harness
        harness.sink("s", SinkKind.TOPIC, durable=True)
        for durable in (False, True):
            harness.queue("q", QueueOptions(durable=durable))
            for number in range(MANY * (2 if durable else 1)):
                harness.bind("s", "q", f"{durable}.{number}.*")
            harness.delete("q")
        over = harness.directory.leaving[QueueState, "q"]
        while harness.directory.chores.waiting > 1:
            await trio.lowlevel.checkpoint()
        assert not over.is_set()
        with pytest.raises(BeingDeleted):
            harness.queue("q", QueueOptions(durable=True))


async def test_binding_that_is_no_longer_the_peers_stays_when_the_peer_is_forgotten(harness: Harness) -> None:
    harness.sink("s", SinkKind.TOPIC)
    harness.queue("q")
    for number in range(MANY):
        binding = make_binding("s", Target.QUEUE, "q", f"{number}.*")
        harness.domain.ask_nowait(Bind(binding, harness.session, "peer"))
    harness.domain.ask_nowait(ForgetOrigin("peer"))
    assert harness.directory.chores.waiting
    harness.domain.ask_nowait(Unbind(binding, harness.session, "peer"))
    harness.domain.ask_nowait(Bind(binding, harness.session))
    await turns(harness)
    assert list(harness.directory.sinks["s"].bindings) == [binding]
