from triomq.core.requests import QueueUnused, SinkUnused

from .cast import open_house


async def test_what_is_told_of_something_that_is_gone_or_in_use_changes_nothing() -> None:
    async with open_house() as house:
        house.queue("kept")
        house.sink("kept")
        for name in ("kept", "gone"):
            house.domain.tell_nowait(QueueUnused(name))
            house.domain.tell_nowait(SinkUnused(name))
        assert list(house.directory.queues) == list(house.directory.sinks) == ["kept"]
        assert house.domain.state == "running"
