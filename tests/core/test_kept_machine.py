"""Queues in a broker with a store, beside a disk that takes its time, fails, and is all that a crash leaves."""

import logging
import os

import pytest
from hypothesis import Phase, settings

from triomq.core import Overflow, QueueOptions

from .machine.kept_books import SPILL
from .machine.kept_machine import KeptMachine
from .machine.kept_topology_machine import KeptTopologyMachine
from .machine.model import kind
from .machine.wall import WALL

LETTERED = {"dead_letter_sink": "", "dead_letter_key": "letters"}
KINDS = [kind(persistent=True), kind(persistent=True, publisher=7), kind(), kind(publisher=7)]


@pytest.fixture(autouse=True)
def small_pieces_and_a_clock(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write in small pieces, so that there are many; and let no time pass but that of the house."""
    monkeypatch.setattr("triomq.core.away._SPILL", SPILL)
    monkeypatch.setattr("triomq.core.away._READ", 200)
    monkeypatch.setattr("triomq.store.gathering._SEGMENT", 150)
    caplog.set_level(logging.CRITICAL, "triomq")
    for module in ("stored", "kept_delay", "timekeeper"):
        monkeypatch.setattr(f"triomq.core.{module}.time", WALL)


class KeptInOrderMachine(KeptMachine):
    """Queues whose messages go in the order in which they came, and may be too many, or over."""

    kinds = (*KINDS, kind(persistent=True, expiration=2.5), kind(expiration=2.5), kind(persistent=True, expiration=0))
    choice = (
        QueueOptions(),
        QueueOptions(durable=False),
        QueueOptions(max_length=5, **LETTERED),
        QueueOptions(max_length=6, overflow=Overflow.REJECT_PUBLISH),
        QueueOptions(message_ttl=3.5, **LETTERED),
        QueueOptions(delivery_limit=1, **LETTERED),
    )


class KeptByPriorityMachine(KeptMachine):
    """Queues whose most urgent messages go first."""

    kinds = (*KINDS, *(kind(persistent=persistent, priority=9) for persistent in (True, False)), kind(priority=1))
    choice = (
        QueueOptions(max_priority=2),
        QueueOptions(max_priority=2, delivery_limit=2, **LETTERED),
    )


class KeptSinksMachine(KeptTopologyMachine):
    """Sinks and bindings that are kept, and others."""

    kinds = KINDS
    choice = (QueueOptions(), QueueOptions(durable=False))


TestKeptInOrderMachine = KeptInOrderMachine.TestCase
TestKeptByPriorityMachine = KeptByPriorityMachine.TestCase
TestKeptSinksMachine = KeptSinksMachine.TestCase
for case in (TestKeptInOrderMachine, TestKeptByPriorityMachine, TestKeptSinksMachine):
    case.settings = settings(
        stateful_step_count=int(os.environ.get("STEPS", "50")),
        max_examples=int(os.environ.get("EX", "100")),
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if os.environ.get("SHRINK") else [Phase.generate],
    )
del case  # pytest would run it
