"""Dead letters of every reason: to another queue and back, to the same queue, to a sink that is not there."""

import pytest
from hypothesis import settings

from triomq.core import Overflow, QueueOptions

from .machine.letters_machine import LettersMachine

pytestmark = pytest.mark.usefixtures("quiet_crashes")


class DeadLettersMachine(LettersMachine):
    """A queue that gives messages up for every reason there is."""

    choice = (
        QueueOptions(dead_letter_sink="letters"),
        QueueOptions(dead_letter_sink="letters", delivery_limit=1, max_length=5),
        QueueOptions(dead_letter_sink="letters", delivery_limit=2, message_ttl=1.5, max_priority=2),
        QueueOptions(dead_letter_sink="letters", message_ttl=0),
        QueueOptions(dead_letter_sink="letters", max_length=5, overflow=Overflow.REJECT_PUBLISH_DLX),
        QueueOptions(dead_letter_sink="", dead_letter_key="q", delivery_limit=1, message_ttl=1.5, max_length=5),
        QueueOptions(dead_letter_sink="nowhere", delivery_limit=1, message_ttl=1.5, max_length=5),
    )


TestDeadLettersMachine = DeadLettersMachine.TestCase
TestDeadLettersMachine.settings = settings(stateful_step_count=40)
