"""A served broker under everything at once, for as long as ``--soak-minutes`` says."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from peers.served import Served, open_served

from .clients import Crowd

GROWTH = 1.1
"""How much larger than after a fifth of the time the broker may be at the end."""
WHOLE = 10
"""Minutes from which on that is judged: in the first two a broker is still getting into its stride."""
PATIENCE = 100.0
"""Seconds in which everything that was confirmed has to come out, once publishing has ended."""


def resident(pid: int) -> int:
    """Resident set of a process, in octets."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024


async def watch(crowd: Crowd, pid: int, seconds: float) -> None:
    """Look at the broker's size every second, and end the soak in time."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        crowd.observations.resident.append((passed, resident(pid)))
        await asyncio.sleep(1)
    crowd.stop.set()


async def soak(served: Served, seconds: float) -> Crowd:
    crowd, ended = Crowd(served.url), threading.Event()
    await crowd.declare()
    threads = [
        threading.Thread(target=crowd.stall, args=("soak.stalled", ended)),
        threading.Thread(target=crowd.abandon, args=("soak.work", ended)),
    ]
    for thread in threads:
        thread.start()
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in (
                crowd.publish("soak.work", crowd.work, 0.03),
                crowd.publish("soak.work", crowd.work, 0.03),
                crowd.consume("soak.work", crowd.work),
                crowd.consume("soak.work", crowd.work, every_tenth_back=True),
                crowd.publish("soak.expiring", crowd.letters, 0.1),
                crowd.consume("soak.dead", crowd.letters),
                crowd.come_and_go(),
                crowd.come_and_go(),
                crowd.churn_queues(),
                crowd.publish_blindly("soak.slow", 0.1),
                crowd.consume_slowly("soak.slow"),
                crowd.publish_blindly("soak.stalled", 0.1, 10_000),
                crowd.publish_blindly("soak.unacked", 0.1),
                crowd.never_ack("soak.unacked"),
            ):
                tasks.create_task(work)
            await watch(crowd, served.process.pid, seconds)
            ended.set()
            tasks.create_task(hurry(crowd))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    leftover = asyncio.all_tasks() - {asyncio.current_task()}
    if leftover:  # aio-pika closes behind our back
        await asyncio.wait(leftover, timeout=5)
    return crowd


async def hurry(crowd: Crowd) -> None:
    """Complain when what was confirmed does not come out soon."""
    deadline = time.monotonic() + PATIENCE
    while not (crowd.work.is_complete and crowd.letters.is_complete):
        assert time.monotonic() < deadline, {oracle.name: len(oracle.missing) for oracle in (crowd.work, crowd.letters)}
        await asyncio.sleep(0.1)


def report(crowd: Crowd, early: float, late: float) -> str:
    lines = [
        f"resident: {early / 1e6:.1f} MB after a fifth of the time, {late / 1e6:.1f} MB at the end: {late / early:.3f}",
        f"resident over time, in MB: {crowd.observations.growth()}",
        *(
            f"{flow.name}: {len(flow.confirmed)} confirmed, {len(flow.missing)} missing, {flow.again} came again"
            for flow in (crowd.work, crowd.letters)
        ),
        *(f"{what}: {count}" for what, count in sorted(crowd.observations.counts.items())),
        *crowd.delays.lines(),
    ]
    return "\n".join(lines)


@pytest.mark.soak
def test_soak_loses_no_message_and_no_memory(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = request.config.getoption("--soak-minutes")
    if not minutes:
        pytest.skip("a soak takes the minutes that --soak-minutes gives it; tox -e soak gives ten")
    seconds = minutes * 60
    with open_served() as served:
        crowd = asyncio.run(soak(served, seconds))
    around = max(seconds / 20, 2)
    early, late = crowd.observations.resident_at(seconds / 5, around), crowd.observations.resident_at(seconds, around)
    with capsys.disabled():
        print(f"\n{report(crowd, early, late)}")
    assert not crowd.work.missing
    assert not crowd.letters.missing
    if minutes >= WHOLE:
        assert late <= GROWTH * early
