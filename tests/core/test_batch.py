import pytest

from triomq.core import QueueMessage, Stretch
from triomq.core.backlog import MemoryBacklog

from .harness import HEAD, OTHER_HEAD


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


def test_messages_with_other_heads_are_found_by_position_as_well() -> None:
    backlog = MemoryBacklog()
    backlog.push(HEAD, [b"a", b"b", b"c"], 3, heads=[HEAD, OTHER_HEAD, HEAD])
    batch = backlog.take(3, 99)
    assert [batch.head_at(position) for position in range(3)] == [HEAD, OTHER_HEAD, HEAD]
    assert batch.message(1) == QueueMessage(OTHER_HEAD, b"b")
    backlog.accept(batch, [0])
    assert batch.stretch() == Stretch(OTHER_HEAD, [b"b", b"c"], [OTHER_HEAD, HEAD])
    assert batch.stretch((2, 0, 2)) == Stretch(HEAD, [b"c"], [HEAD])
    assert list(batch.stretch((0,)).messages()) == []
