"""A queue in its domain beside the books of a machine, through everything that can happen to it, crashes included.

What a queue does more when its options say so is shown by machines of their own: ``test_time_machine.py``,
``test_letters_machine.py``, ``test_strategies_machine.py``, ``test_unused_machine.py``; what two queues do together by
``test_transaction_machine.py``.
"""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from core.machine.model import PLAIN, kind
from core.machine.queue_machine import QueueMachine
from triomq.core import Overflow, QueueOptions

pytestmark = pytest.mark.usefixtures("quiet_crashes")


URGENCIES = [*PLAIN, *(kind(priority=priority) for priority in (0, 1, 2, 200))]


class LenientMachine(QueueMachine):
    """A queue that stores whatever comes; when it has too many, the oldest of the least urgent give way."""

    kinds = URGENCIES
    choice = (
        QueueOptions(),
        QueueOptions(max_priority=2),
        QueueOptions(max_length=5),
        QueueOptions(max_bytes=30),
        QueueOptions(max_length=5, max_bytes=40, max_priority=2),
        QueueOptions(delivery_limit=1),
        QueueOptions(delivery_limit=2, max_length=5, max_priority=1),
    )


class StrictMachine(QueueMachine):
    """A queue that refuses what it has no room for; nothing gives way, not even for what comes back.

    Who is urgent is refused like anyone else. Publishers may wait for room: each is told once, as soon as there is
    some.
    """

    kinds = URGENCIES
    choice = (
        QueueOptions(max_length=5, max_bytes=40, overflow=Overflow.REJECT_PUBLISH),
        QueueOptions(max_length=5, max_bytes=40, overflow=Overflow.WAIT),
        QueueOptions(max_length=5, max_bytes=40, max_priority=2, overflow=Overflow.WAIT, delivery_limit=2),
    )

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Callable[[], None], list[None]]] = []
        self.gone: list[tuple[list[None], int]] = []  # who has given up waiting, and how often it was told by then

    @rule()
    def wait_for_room(self) -> None:
        told: list[None] = []

        def tell() -> None:
            told.append(None)

        self.waiting.append((tell, told))
        self.turn(lambda: self.queue.when_room(tell))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up_waiting(self, data: st.DataObject) -> None:
        tell, told = self.waiting.pop(data.draw(st.sampled_from(range(len(self.waiting)))))
        self.queue.forget_room(tell)
        self.gone.append((told, len(told)))

    @invariant()
    def who_waits_has_been_told_if_there_is_room(self) -> None:
        self.the_statistics_are_right()  # whoever asks while there is room is told at the end of the next turn
        for _, told in self.waiting:
            assert len(told) <= 1
            assert told or self.has_too_many(1) or self.has_too_many(0, 1)
        for told, times in self.gone:
            assert len(told) == times


TestLenientMachine = LenientMachine.TestCase
TestStrictMachine = StrictMachine.TestCase
for case in (TestLenientMachine, TestStrictMachine):
    case.settings = settings(stateful_step_count=40)
del case  # pytest would run it
