"""Samples of a broker and what happened between them."""

from app.cli.samples import make_queue, make_sample, make_totals
from triomq.app.cli.sampling import Flow, rates, take_sample
from triomq.clients import BlockingConnection


def test_a_sample_is_a_picture_of_the_broker(connection: BlockingConnection, queue: str) -> None:
    for _ in range(3):
        connection.publish("", queue, b"x")
    sample = take_sample(connection)
    assert sample.queues[0].ready >= 3
    assert sample.totals.published >= 3
    assert sample.totals.connections >= len(sample.connections) >= 1
    assert sample.actors[0].path == "/"


def test_rates_are_differences_by_time() -> None:
    before = make_sample(10.0, make_totals(published=10, delivered=4, unsettled=4), (make_queue("a", published=1),))
    after = make_sample(12.0, make_totals(published=30, delivered=14, unsettled=6), (make_queue("a", published=5),))
    found = rates(before, after)
    assert found.totals == Flow(published=10.0, delivered=5.0, settled=4.0)
    assert found.queues == {"a": Flow(published=2.0, delivered=0.0, settled=0.0)}


def test_what_fell_has_no_rate_and_what_is_new_none_yet() -> None:
    before = make_sample(0.0, make_totals(published=9), (make_queue("a", published=9), make_queue("gone")))
    after = make_sample(1.0, make_totals(published=1), (make_queue("a", published=1), make_queue("new")))
    found = rates(before, after)
    assert found.totals.published == 0.0
    assert found.queues == {"a": Flow(0.0, 0.0, 0.0)}
