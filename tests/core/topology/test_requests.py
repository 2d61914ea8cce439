from core.harness import Harness
from triomq.core.topology.requests import QueueUnused, SinkUnused


async def test_message_about_something_gone_or_in_use_changes_nothing(harness: Harness) -> None:
    harness.queue("kept")
    harness.sink("kept")
    for name in ("kept", "gone"):
        harness.domain.tell_nowait(QueueUnused(name))
        harness.domain.tell_nowait(SinkUnused(name))
    assert list(harness.directory.queues) == list(harness.directory.sinks) == ["kept"]
    assert harness.domain.state == "running"
