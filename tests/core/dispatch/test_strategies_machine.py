"""Every strategy in its queue: round robin, levels with the least recently used first, no-local, single active."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from core.machine.choosing_machine import ChoosingMachine
from triomq.core import QueueOptions

pytestmark = pytest.mark.usefixtures("quiet_crashes")


class EqualsMachine(ChoosingMachine):
    """Feeds that are alike, so that the queue deals round robin."""

    choice = (QueueOptions(), QueueOptions(max_priority=2))
    feed_options = st.just((0, 0, 0))


class ParticularMachine(ChoosingMachine):
    """Feeds with priorities, weights, and messages that they do not want."""

    choice = (
        QueueOptions(),
        QueueOptions(),
        QueueOptions(max_priority=2),
        QueueOptions(single_active=True),
        QueueOptions(single_active=True, max_priority=2),
    )


TestEqualsMachine = EqualsMachine.TestCase
TestParticularMachine = ParticularMachine.TestCase
for case, examples in ((TestEqualsMachine, 100), (TestParticularMachine, 200)):
    case.settings = settings(stateful_step_count=40, max_examples=max(examples, settings().max_examples))
del case, examples  # pytest would run it
