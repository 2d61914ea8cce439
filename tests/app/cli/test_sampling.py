"""Samples of a broker and what happened between them."""

from collections import Counter

import msgspec
import pytest

from app.cli.samples import make_queue, make_sample, make_totals
from triomq.app.cli.sampling import CHILDREN, QUEUES, Flow, rates, take_sample
from triomq.clients import BlockingConnection
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk


def test_sample_is_a_picture_of_the_broker(connection: BlockingConnection, queue: str) -> None:
    for _ in range(3):
        connection.publish("", queue, b"x")
    sample = take_sample(connection)
    assert sample.queues[0].ready >= 3
    assert sample.totals.published >= 3
    assert sample.totals.connections >= len(sample.connections) >= 1
    assert sample.actors[0].path == "/"


def test_broker_with_more_than_a_screen_shows_its_fullest_queues(connection: BlockingConnection, queue: str) -> None:
    for number in range(QUEUES):
        connection.call(QueueDeclare(f"many.{number}", exclusive=True), QueueDeclareOk)
    for _ in range(9):
        connection.publish("", queue, b"x")
    sample = take_sample(connection)
    assert len(sample.queues) == QUEUES < sample.totals.queues
    assert queue in [found.name for found in sample.queues]
    ready = [found.ready for found in sample.queues]
    assert ready == sorted(ready, reverse=True)
    children = Counter(actor.path.rpartition("/")[0] for actor in sample.actors)
    assert max(children.values()) == CHILDREN
    assert any(actor.children > QUEUES for actor in sample.actors)


def test_rates_are_those_between_two_samples(connection: BlockingConnection, queue: str) -> None:
    before = take_sample(connection)
    for _ in range(5):
        connection.publish("", queue, b"x")
    got = connection.get(queue)
    assert got is not None
    connection.accept(got)
    after = take_sample(connection)
    found, seconds = rates(before, after), after.moment - before.moment
    flow = msgspec.structs.astuple(found.totals)
    assert flow == pytest.approx((5 / seconds, 1 / seconds, 1 / seconds))
    assert found.queues[queue] == found.totals


def test_rates_are_differences_by_time() -> None:
    before = make_sample(10.0, make_totals(published=10, delivered=4, unsettled=4), (make_queue("a", published=1),))
    after = make_sample(12.0, make_totals(published=30, delivered=14, unsettled=6), (make_queue("a", published=5),))
    found = rates(before, after)
    assert found.totals == Flow(published=10.0, delivered=5.0, settled=4.0)
    assert found.queues == {"a": Flow(published=2.0, delivered=0.0, settled=0.0)}


def test_count_that_fell_has_no_rate_and_a_new_queue_none_yet() -> None:
    before = make_sample(0.0, make_totals(published=9), (make_queue("a", published=9), make_queue("gone")))
    after = make_sample(1.0, make_totals(published=1), (make_queue("a", published=1), make_queue("new")))
    found = rates(before, after)
    assert found.totals.published == 0.0
    assert found.queues == {"a": Flow(0.0, 0.0, 0.0)}
