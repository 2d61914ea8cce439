"""Messages that expire and messages that are put off, in queues of every kind, through crashes of queue and domain."""

import pytest
from hypothesis import settings

from triomq.core import QueueOptions

from .machine.time_machine import TimeMachine

pytestmark = pytest.mark.usefixtures("quiet_crashes")


class MortalMachine(TimeMachine):
    """Messages or the queue say when they expire; the shorter time counts, and each level has a front that may."""

    choice = (
        QueueOptions(),
        QueueOptions(max_priority=2),
        QueueOptions(message_ttl=1.5),
        QueueOptions(message_ttl=1.5, max_priority=2, delivery_limit=1),
        QueueOptions(message_ttl=0),
        QueueOptions(message_ttl=1.5, max_length=5),
        QueueOptions(max_priority=2, max_length=5),
    )


TestMortalMachine = MortalMachine.TestCase
TestMortalMachine.settings = settings(stateful_step_count=40)
