from triomq.store import (
    AttemptsFound,
    DelayedFound,
    DeliveredFound,
    QueueFound,
    RecordFound,
    RecoveredQueue,
    SegmentFound,
    TotalsFound,
    assemble,
)


def test_pieces_are_put_together_by_queue() -> None:
    record = RecordFound(1, b"sink", b"options")
    queue, other = QueueFound(4, b"q", b"", 9), QueueFound(2, b"p", b"", 1)
    segment, delayed = SegmentFound(4, 1, 2, 1, 10, b"\x01"), DelayedFound(4, 1, 1.5, 1, 3)
    found = assemble([record, other, queue, segment, delayed, DeliveredFound(4, 0, 2), AttemptsFound(4, 2, 3)])
    assert found.records == [record]
    assert found.queues[4] == RecoveredQueue(queue, 1, 5, [segment], [delayed], {0: 2}, {2: 3})
    assert found.queues[2] == RecoveredQueue(other)
    assert found.next_queue == 5


def test_totals_stand_for_the_segments_of_a_queue() -> None:
    queue = QueueFound(4, b"q", b"", 9)
    assert assemble([queue, TotalsFound(4, 3, 30)]).queues[4] == RecoveredQueue(queue, 3, 30)


def test_no_pieces_recover_nothing() -> None:
    assert assemble([]).next_queue == 1


def test_positions_that_are_not_settled_are_listed() -> None:
    assert SegmentFound(1, 10, 4, 2, 0, b"\x05").unsettled() == [1, 3]
