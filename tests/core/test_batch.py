import pytest

from triomq.core import QueueMessage
from triomq.core.backlog import MemoryBacklog

from .harness import HEAD


def test_messages_are_found_by_position_until_they_are_settled() -> None:
    backlog = MemoryBacklog()
    backlog.push(HEAD, [b"a", b"b", b"c"], 3)
    batch = backlog.take(3, 99)
    assert batch.message(1) == QueueMessage(HEAD, b"b")
    assert batch.unsettled() == [0, 1, 2]
    backlog.accept(batch, [1])
    assert batch.unsettled() == [0, 2]
    with pytest.raises(LookupError, match="the message at position 1 of this batch is settled already"):
        batch.message(1)
    backlog.accept(batch)
    with pytest.raises(LookupError):
        batch.message(0)
