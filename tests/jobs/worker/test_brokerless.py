"""Jobs that come from no broker: results, errors, and the one that its process dies of."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType

import pytest
import trio

from triomq.errors import ConfigError
from triomq.jobs import Jobs
from triomq.jobs.worker import BrokerlessRunner, LocalCall, LocalOutcome, find_target

jobs = Jobs()


@jobs.job
def add(first: int, second: int = 1) -> int:
    return first + second


@jobs.job
async def double(value: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * value


@jobs.job
def fail() -> None:
    raise ValueError("on purpose")


@jobs.job
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job(timeout=0.01)
async def nap() -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def runner() -> AsyncIterator[BrokerlessRunner]:
    target = find_target(sys.modules[__name__].jobs)
    made = BrokerlessRunner(jobs, target, processes=1, concurrency=10)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.serve)
            yield made
            nursery.cancel_scope.cancel()


def state(outcome: LocalOutcome) -> str:
    return outcome.ending.state if outcome.ending else outcome.message.decode()


async def test_outcomes_come_in_the_order_of_the_calls_and_one_death_is_the_end_of_one() -> None:
    async with runner() as made:
        orders = [add.order(1), double.order(4), fail.order(), die.order(), nap.order(), add.order(1, second=4)]
        outcomes = await made.run([LocalCall(str(place), order.payload) for place, order in enumerate(orders)])
    assert [*map(state, outcomes)] == ['{"value":2}', '{"value":8}', "failed", "lost", "timed-out", '{"value":5}']
    assert outcomes[1].pid == outcomes[4].pid == os.getpid()
    assert 0 not in {outcome.pid for outcome in outcomes}
    assert outcomes[0].pid == outcomes[3].pid != outcomes[5].pid
    assert outcomes[2].ending is not None
    assert outcomes[2].ending.type == "ValueError"
    assert 0.01 <= outcomes[4].seconds < 10


async def test_call_of_what_is_not_registered_is_an_outcome() -> None:
    async with runner() as made:
        payload = add.order(1).payload.replace(b'"add"', b'"nothing"')
        (outcome,) = await made.run([LocalCall("1", payload)])
        assert outcome.ending is not None
        assert outcome.ending.type == "UnknownJob"
        assert await made.run([]) == []


def test_registry_that_only_the_program_itself_has_cannot_be_found_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("program")
    program.jobs = Jobs()  # type: ignore[attr-defined]
    for name in ("__main__", "__mp_main__"):
        monkeypatch.setitem(sys.modules, name, program)
    with pytest.raises(ConfigError, match="no module that child processes could import has this registry"):
        find_target(program.jobs)
