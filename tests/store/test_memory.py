import pytest

from memory_store import MemoryStore
from triomq.store import (
    MessagesAppended,
    MessagesDelayed,
    MessagesSpilled,
    OperationBatch,
    QueueDeleted,
    SpilledDropped,
    StoreStatistics,
)

from .stores import DECLARE, append, bodies


def test_batch_that_is_there_already_is_left_out() -> None:
    store = MemoryStore()
    work = [OperationBatch(1, [DECLARE, append(1, b"a", b"b")])]
    assert store.commit(work) == store.commit(work) == 1
    assert store.statistics() == StoreStatistics(1, 1, 2, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        append(1, queue=9),
        MessagesAppended(queue=1, first=1, count=1, size=0, body=b""),
        MessagesDelayed(queue=1, number=1, due=0, count=1, size=0, body=b""),
    ],
)
def test_impossible_operations_are_refused(wrong: MessagesAppended | MessagesDelayed) -> None:
    store = MemoryStore()
    delay = MessagesDelayed(queue=1, number=1, due=0, count=1, size=0, body=b"")
    store.commit([OperationBatch(1, [DECLARE, append(1), delay])])
    with pytest.raises(ValueError, match="queue"):
        store.commit([OperationBatch(2, [wrong])])
    store.close()


def test_transient_queues_may_be_spilled() -> None:
    store = MemoryStore()
    spilled = [MessagesSpilled(queue=9, first=first, count=1, body=b"body") for first in (1, 2, 3)]
    store.commit([OperationBatch(1, [*spilled, SpilledDropped(9, [(1, 1)]), SpilledDropped(8, [(1, 1)])])])
    assert bodies(store, 9) == {2: b"body", 3: b"body"}
    store.commit([OperationBatch(2, [QueueDeleted(9), MessagesSpilled(queue=7, first=1, count=1, body=b"body")])])
    assert bodies(store, 9) == {}
    store.forget_spilled()
    assert bodies(store, 7) == {}
    assert list(store.recover()) == []
