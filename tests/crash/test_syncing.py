"""Whole brokers whose syncs fail, or are watched: killing a process cannot show that something was not synced."""

import re
import signal
from pathlib import Path

import trio
from pamqp import commands

from .harness import Harness
from .message import body_of
from .oracle import Oracle
from .wire import Answer, Wire, publish

ACCEPTED, REFUSED = Answer(1, False, True), Answer(1, False, False)


async def prepare(wire: Wire) -> None:
    await wire.call(commands.Queue.Declare(queue="q", durable=True), commands.Queue.DeclareOk)
    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)


async def test_confirms_wait_while_syncs_fail(tmp_path: Path, shim: Path) -> None:
    fails = tmp_path / "fails"
    environment = {"LD_PRELOAD": str(shim), "TRIOMQ_TEST_SYNC_FAILS": str(fails)}
    with trio.fail_after(60):
        async with trio.open_nursery() as output:
            async with Harness(tmp_path / "store", Oracle(), environment=environment) as harness:
                await harness.start(output)
                async with harness.wire() as wire, harness.wire() as other:
                    await prepare(wire)
                    fails.touch()
                    await wire.send(publish("", "q", body_of(1, 1)))
                    await harness.wait_for(lambda: b"the store cannot be written" in harness.log)
                    await wire.call(commands.Basic.Qos(), commands.Basic.QosOk)
                    assert wire.take_events() == []
                    # It knows now: what comes is refused, what is transient is not.
                    await other.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    await other.send(publish("", "q", body_of(1, 2)))
                    events = await other.events()
                    assert [event.reason for event in events if isinstance(event, commands.Connection.Blocked)]
                    assert [event for event in events if isinstance(event, Answer)] == [REFUSED]
                    await other.send(publish("", "q", body_of(1, 3), persistent=False))
                    assert await other.events() == [Answer(2, False, True)]
                    fails.unlink()
                    assert await wire.events() == [ACCEPTED]
                    assert isinstance((await other.events())[0], commands.Connection.Unblocked)
            output.cancel_scope.cancel()


async def test_no_confirm_leaves_before_the_sync_that_covers_it(tmp_path: Path, shim: Path) -> None:
    trace = tmp_path / "trace"
    noted = await trace_of(tmp_path, {"LD_PRELOAD": str(shim), "TRIOMQ_TEST_TRACE": str(trace)}, trace)
    # w for a write to a file, s for a sync, c for what is sent, a for a confirm among it
    assert noted.count("a") == 100
    assert re.fullmatch("([wsc]*swc*a)+c*", noted)


async def test_broker_that_confirms_too_early_is_seen_in_the_trace(tmp_path: Path, shim: Path) -> None:
    trace = tmp_path / "trace"
    environment = {"LD_PRELOAD": str(shim), "TRIOMQ_TEST_TRACE": str(trace)}
    noted = await trace_of(tmp_path, environment, trace, "--confirm-early", frozen=True)
    assert not re.fullmatch("([wsc]*swc*a)+c*", noted)


def read(trace: Path) -> str:
    return trace.read_text()


async def trace_of(
    directory: Path, environment: dict[str, str], trace: Path, *options: str, frozen: bool = False
) -> str:
    """Publish a hundred messages, each after the confirm of the one before, and give what was noted meanwhile."""
    with trio.fail_after(60):
        async with trio.open_nursery() as output:
            async with Harness(directory / "store", Oracle(), *options, environment=environment) as harness:
                await harness.start(output)
                async with harness.wire() as wire:
                    await prepare(wire)
                    begin = len(read(trace))
                    assert harness.life is not None
                    if frozen:
                        await harness.signal_store(signal.SIGSTOP)
                    for number in range(1, 101):
                        await wire.send(publish("", "q", body_of(1, number, size=5000)))
                        assert await wire.events() == [Answer(number, False, True)]
                    noted = read(trace)[begin:]
            output.cancel_scope.cancel()
    return noted
