"""Queues in a broker with a store, beside a disk that takes its time, fails, and is all that a crash leaves."""

import logging
from typing import ClassVar

import pytest
from hypothesis import settings

from triomq.core import Overflow, QueueOptions

from .machine.kept_books import SPILL
from .machine.kept_machine import KeptMachine
from .machine.kept_topology_machine import KeptTopologyMachine
from .machine.model import Kind, kind
from .machine.wall_clock import WALL_CLOCK

KINDS = [kind(persistent=True), kind(persistent=True, publisher=7), kind(), kind(publisher=7)]


def lettered(**options: object) -> QueueOptions:
    """Options of a queue that gives messages up to the other one."""
    return QueueOptions(dead_letter_sink="", dead_letter_key="letters", **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_pieces_and_a_clock(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write in small pieces, so that there are many; and let no time pass but that of the house."""
    caplog.set_level(logging.CRITICAL, "triomq")
    monkeypatch.setattr("triomq.core.backlog.tail._SPILL", SPILL)
    monkeypatch.setattr("triomq.core.backlog.tail._READ", 200)
    monkeypatch.setattr("triomq.core.backlog.tail._PEEK", 100)
    monkeypatch.setattr("triomq.store.batch_builder._SEGMENT", 150)
    for module in ("persistence.records", "persistence.recorded_delay", "queue.timekeeper"):
        monkeypatch.setattr(f"triomq.core.{module}.time", WALL_CLOCK)


class KeptInOrderMachine(KeptMachine):
    """Queues whose messages go in the order in which they came, and may be too many, or over."""

    kinds: ClassVar[list[Kind]] = [
        *KINDS,
        kind(persistent=True, expiration=2.5),
        kind(expiration=2.5),
        kind(persistent=True, expiration=0),
    ]
    choice = (
        QueueOptions(),
        QueueOptions(durable=False),
        lettered(max_length=5),
        QueueOptions(max_length=6, overflow=Overflow.REJECT_PUBLISH),
        lettered(message_ttl=3.5),
        lettered(delivery_limit=1),
    )


class KeptByPriorityMachine(KeptMachine):
    """Queues whose most urgent messages go first."""

    kinds: ClassVar[list[Kind]] = [
        *KINDS,
        kind(persistent=True, priority=9),
        kind(priority=9),
        kind(priority=1),
    ]
    choice = (QueueOptions(max_priority=2), lettered(max_priority=2, delivery_limit=2))


class KeptSinksMachine(KeptTopologyMachine):
    """Sinks and bindings that are kept, and others."""

    kinds = KINDS
    choice = (QueueOptions(), QueueOptions(durable=False))


TestKeptInOrderMachine = KeptInOrderMachine.TestCase
TestKeptByPriorityMachine = KeptByPriorityMachine.TestCase
TestKeptSinksMachine = KeptSinksMachine.TestCase
MOST = max(200, settings().max_examples)  # faults of the kind that it is for show with so many
for case in (TestKeptInOrderMachine, TestKeptByPriorityMachine, TestKeptSinksMachine):
    case.settings = settings(stateful_step_count=50, max_examples=MOST)
del case  # pytest would run it
