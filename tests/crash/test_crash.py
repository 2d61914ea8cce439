"""Whoever is killed, whenever: nothing that was confirmed is lost, nothing that is settled comes back."""

import signal
from pathlib import Path

import pytest
import trio
from pamqp import commands

from .consumers import FENCES
from .harness import Harness
from .message import body_of
from .oracle import Oracle
from .scenarios import LIAR, SCENARIOS, drawn_kills, run
from .wire import Answer, Delivery, Event, publish

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the store's process in /proc")

FEW = ("the broker", "the store", "both, the store frozen before")


def assert_nothing_lost(name: str, seed: int, oracle: Oracle) -> None:
    """All is well, and enough has happened to say so."""
    print(f"{name}, seed {seed}: {oracle}")
    assert not oracle.problems, "\n".join([f"{name}, seed {seed}: {oracle}", *oracle.problems])
    assert oracle.confirmed
    assert all(queue.delivered for name, queue in oracle.queues.items() if name != FENCES)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_kills_of_broker_and_store_lose_no_message(name: str, tmp_path: Path) -> None:
    with trio.fail_after(300):
        oracle = await run(SCENARIOS[name], tmp_path, FEW, seed=1)
    assert_nothing_lost(name, 1, oracle)


@pytest.mark.crash
@pytest.mark.parametrize("name", SCENARIOS)
async def test_many_kills_lose_no_message(name: str, tmp_path: Path, rounds_and_seed: tuple[int, int]) -> None:
    rounds, seed = rounds_and_seed
    kills = drawn_kills(rounds, seed)
    with trio.fail_after(300 + 20 * rounds):
        oracle = await run(SCENARIOS[name], tmp_path, kills, seed, work=8000)
    assert_nothing_lost(name, seed, oracle)


async def test_broker_that_confirms_too_early_is_found_out(tmp_path: Path) -> None:
    with trio.fail_after(300):
        oracle = await run(SCENARIOS["fanout"], tmp_path, [LIAR], 1, "--confirm-early")
    assert oracle.problems  # the first of them may be about acks, whose confirms are lies as well
    assert any(queue.missing for queue in oracle.queues.values()), oracle.problems


@pytest.mark.parametrize(("options", "confirms"), [([], 0), (["--confirm-early"], 1)], ids=["honest", "lying"])
async def test_confirms_wait_while_the_store_stands_still(tmp_path: Path, options: list[str], confirms: int) -> None:
    with trio.fail_after(300):
        async with trio.open_nursery() as output, Harness(tmp_path, Oracle(), *options) as harness:
            await harness.start(output)
            async with harness.wire() as wire:
                await wire.call(commands.Queue.Declare(queue="q", durable=True), commands.Queue.DeclareOk)
                await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                assert harness.life is not None
                await harness.signal_store(signal.SIGSTOP)
                await wire.send(publish("", "q", body_of(1, 1)))
                await wire.call(commands.Basic.Qos(), commands.Basic.QosOk)  # what could be said was said before this
                unread = [event for event in wire.take_events() if isinstance(event, Answer)]
                assert len(unread) == confirms
                await harness.signal_store(signal.SIGCONT)
                if not confirms:
                    assert await wire.events() == [Answer(1, False, True)]
            output.cancel_scope.cancel()


async def test_message_that_a_consumer_has_is_confirmed_while_the_store_stands_still(tmp_path: Path) -> None:
    with trio.fail_after(300):
        async with trio.open_nursery() as output, Harness(tmp_path, Oracle()) as harness:
            await harness.start(output)
            async with harness.wire() as wire:
                for name in ("q", "other"):
                    await wire.call(commands.Queue.Declare(queue=name, durable=True), commands.Queue.DeclareOk)
                await wire.call(
                    commands.Exchange.Declare(exchange="x", exchange_type="fanout"), commands.Exchange.DeclareOk
                )
                for name in ("q", "other"):
                    await wire.call(commands.Queue.Bind(queue=name, exchange="x"), commands.Queue.BindOk)
                await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                await wire.call(commands.Basic.Consume(queue="q", no_ack=True), commands.Basic.ConsumeOk)
                await harness.signal_store(signal.SIGSTOP)
                await wire.send(publish("", "q", body_of(1, 1)))
                events: list[Event] = []
                while len(events) < 2:
                    events += await wire.events()
                assert [type(event) for event in events] == [Delivery, Answer]
                await wire.send(publish("x", "", body_of(1, 2)))  # to a queue without a consumer as well
                await wire.call(commands.Basic.Qos(), commands.Basic.QosOk)
                assert [type(event) for event in wire.take_events()] == [Delivery]
                await harness.signal_store(signal.SIGCONT)
                assert await wire.events() == [Answer(2, False, True)]
            output.cancel_scope.cancel()
