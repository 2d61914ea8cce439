from hypothesis import given
from hypothesis import strategies as st

from memory_store import MemoryStore
from triomq.store import (
    AttemptsCounted,
    BodyRun,
    MessagesAppended,
    MessagesDelivered,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    QueueDeclared,
    QueueDeleted,
    assemble,
    decode_body,
)
from triomq.store.batch_builder import BatchBuilder

from .stores import bodies


def gathered(gathering: BatchBuilder) -> list[Operation]:
    return list(gathering.batch(1).operations)


def messages(store: MemoryStore, queue: int) -> dict[int, tuple[bytes, bytes]]:
    """Read back what is not settled: head and content by id."""
    found = {}
    read = bodies(store, queue)
    for segment in assemble(store.recover()).queues[queue].segments:
        contents = {
            run.offset + number: (run.head, content)
            for run in decode_body(read[segment.first])
            for number, content in enumerate(run.contents)
        }
        found.update({segment.first + position: contents[position] for position in segment.unsettled()})
    return found


@given(st.data())
def test_batches_write_the_same_however_operations_are_cut_into_them(data: st.DataObject) -> None:
    store, gathering, number = MemoryStore(), BatchBuilder(), 0
    durable: dict[int, tuple[bytes, bytes]] = {}
    next_id = 1
    gathering.add(QueueDeclared(1, b"q", b""))
    for _ in range(data.draw(st.integers(0, 25))):
        action = data.draw(st.sampled_from(["append", "append", "settle", "settle", "send"]))
        if action == "append":
            next_id += data.draw(st.integers(0, 2))  # what is not to be kept has ids too
            contents = [b"%d" % (next_id + position) for position in range(data.draw(st.integers(1, 4)))]
            head = data.draw(st.sampled_from([b"x", b"y"]))
            gathering.append(1, next_id, head, contents, sum(map(len, contents)))
            durable |= {next_id + position: (head, content) for position, content in enumerate(contents)}
            next_id += len(contents)
        elif action == "settle":
            first, count = data.draw(st.integers(1, next_id)), data.draw(st.integers(1, 5))
            count = min(count, next_id - first)
            if count:
                gathering.settle(1, first, count)
                durable = {id_: message for id_, message in durable.items() if not first <= id_ < first + count}
        else:
            number += 1
            store.commit([OperationBatch(number, gathering.batch(number).operations)])
            gathering = BatchBuilder()
    store.commit([gathering.batch(number + 1)])
    assert messages(store, 1) == durable


def test_all_that_a_queue_gets_becomes_one_segment() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a", b"b"], 2)
    gathering.append(1, 3, b"y", [b"c"], 1)
    (append,) = gathered(gathering)
    assert isinstance(append, MessagesAppended)
    assert (append.first, append.count, append.size, append.settled) == (1, 3, 3, [])
    assert decode_body(append.body) == [BodyRun(0, b"x", [b"a", b"b"]), BodyRun(2, b"y", [b"c"])]


def test_segment_that_grows_large_is_followed_by_another() -> None:
    gathering = BatchBuilder()
    for first in range(1, 6):
        gathering.append(1, first, b"x", [bytes(200_000)], 200_000)
    assert spans(gathering) == [(1, 2), (3, 2), (5, 1)]
    gathering.settle(1, 2, 3)
    assert spans(gathering) == [(1, 1), (5, 1)]


def spans(gathering: BatchBuilder) -> list[tuple[int, int]]:
    return [(each.first, each.count) for each in gathered(gathering) if isinstance(each, MessagesAppended)]


def test_messages_settled_before_they_were_sent_are_not_written() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a", b"b"], 2)
    gathering.append(1, 3, b"x", [b"c"], 1)
    gathering.settle(1, 1, 1)
    gathering.settle(1, 2, 1)
    (append,) = gathered(gathering)
    assert isinstance(append, MessagesAppended)
    assert (append.first, append.count) == (3, 1)
    gathering.settle(1, 3, 1)
    assert gathered(gathering) == []


def test_ids_without_a_message_are_settled_from_the_start() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a"], 1)
    gathering.append(1, 5, b"x", [b"b"], 1)
    (append,) = gathered(gathering)
    assert isinstance(append, MessagesAppended)
    assert (append.count, append.settled) == (5, [(2, 3)])


def test_settlements_are_joined_and_marks_are_written_once() -> None:
    gathering = BatchBuilder()
    for first in (7, 5, 6, 1):
        gathering.settle(1, first, 1)
    for up_to in (3, 9, 4):
        gathering.delivered(1, 0, 0, up_to)
    assert gathered(gathering) == [MessagesDelivered(1, 0, 9), MessagesSettled(1, [(1, 1), (5, 3)])]


def test_queue_that_is_deleted_needs_nothing_else() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a"], 1)
    gathering.append(2, 1, b"x", [b"a"], 1)
    gathering.settle(1, 1, 1)
    gathering.delivered(1, 0, 0, 1)
    gathering.add(QueueDeleted(1))
    durable, deleted = gathered(gathering)
    assert isinstance(durable, MessagesAppended)
    assert (durable.queue, deleted) == (2, QueueDeleted(1))
    assert not BatchBuilder()


def test_how_often_a_message_came_back_is_forgotten_with_it() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a", b"b"], 2)
    for number in (1, 2):
        gathering.add(AttemptsCounted(1, number, 2))
    gathering.add(AttemptsCounted(2, 1, 2))
    gathering.settle(1, 1, 1)
    _, *others = gathered(gathering)
    assert others == [AttemptsCounted(1, 2, 2), AttemptsCounted(2, 1, 2)]


def test_settling_of_what_several_segments_of_the_batch_have_is_not_written() -> None:
    gathering = BatchBuilder()
    for first in range(5, 10):
        gathering.append(1, first, b"x", [bytes(200_000)], 200_000)
    gathering.settle(1, 3, 7)
    assert gathered(gathering) == [MessagesSettled(1, [(3, 2)])]


def test_settling_of_what_the_batch_spills_is_written() -> None:
    gathering = BatchBuilder()
    gathering.append(1, 1, b"x", [b"a"], 1)
    gathering.cut(1)
    spilled = MessagesSpilled(queue=1, first=2, count=2, body=b"")
    gathering.add(spilled)
    gathering.append(1, 4, b"x", [b"b"], 1)
    gathering.settle(1, 1, 4)
    assert gathered(gathering) == [spilled, MessagesSettled(1, [(1, 4)])]


def test_marks_that_concern_nothing_but_what_the_batch_settles_are_left_out() -> None:
    gathering = BatchBuilder()
    gathering.settle(1, 3, 5)
    gathering.delivered(1, 0, 2, 5)
    gathering.delivered(1, 0, 5, 7)
    gathering.delivered(1, 1, 1, 4)  # 2 may be on disk, of this level
    gathering.delivered(1, 2, 4, 8)  # and 8 is not settled
    gathering.delivered(2, 0, 0, 1)
    assert gathered(gathering) == [
        MessagesDelivered(1, 1, 4),
        MessagesDelivered(1, 2, 8),
        MessagesDelivered(2, 0, 1),
        MessagesSettled(1, [(3, 5)]),
    ]
