"""Queues and sinks in plain threads."""

from app.portal.conftest import PATIENCE
from triomq.app.portal import BlockingBroker, BlockingQueue
from triomq.core import Comparison, Condition, Properties, make_predicate


def test_a_queue_is_counted_purged_and_deleted(broker: BlockingBroker, queue: BlockingQueue) -> None:
    for _ in range(3):
        broker.publish("", "q", b"x")
    assert queue.statistics(timeout=PATIENCE).ready == 3
    assert queue.purge(timeout=PATIENCE) == 3
    assert queue.get(timeout=PATIENCE) is None
    queue.delete(timeout=PATIENCE)


def test_a_delivery_that_was_got_alone_is_settled_or_put_back(broker: BlockingBroker, queue: BlockingQueue) -> None:
    broker.publish("", "q", b"x")
    first = queue.get()
    assert first is not None
    first.requeue()
    again = queue.get()
    assert again is not None
    assert again.redelivered
    again.accept()
    assert queue.statistics().unsettled == 0


def test_a_sink_is_bound_unbound_and_deleted(broker: BlockingBroker, queue: BlockingQueue) -> None:
    sink, other = broker.declare_sink("s", "fanout"), broker.declare_sink("t", "fanout", auto_delete=False)
    sink.bind(other, timeout=PATIENCE)
    other.bind(queue)
    broker.publish("s", "", b"1")
    sink.unbind(other, timeout=PATIENCE)
    broker.publish("s", "", b"2")
    assert queue.statistics().ready == 1
    other.delete(timeout=PATIENCE)
    sink.delete(if_unused=True)


def test_a_queue_is_looked_into(broker: BlockingBroker, queue: BlockingQueue) -> None:
    for body in (b"1", b"2", b"3"):
        broker.publish("", "q", body)
    first, second = queue.browse(limit=2, timeout=PATIENCE)
    assert (first.body, second.body) == (b"1", b"2")
    assert queue.discard(first.id, timeout=PATIENCE) == 1
    assert [left.body for left in queue.browse()] == [b"2", b"3"]


def test_a_binding_asks_for_headers_besides(broker: BlockingBroker, queue: BlockingQueue) -> None:
    sink, blue = broker.sink("amq.topic"), make_predicate([Condition("colour", Comparison.EQUAL, "blue")])
    sink.bind(queue, "k", predicate=blue)
    for colour in ("red", "blue"):
        broker.publish("amq.topic", "k", b"", Properties(headers={"colour": colour}))
    assert queue.statistics().ready == 1
    sink.unbind(queue, "k", predicate=blue)
    broker.publish("amq.topic", "k", b"", Properties(headers={"colour": "blue"}))
    assert queue.statistics().ready == 1
