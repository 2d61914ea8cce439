"""A checker that finds nothing is worth nothing: each rule, broken once."""

import time

import pytest

from .message import Message, body_of
from .oracle import Group, Oracle, Session
from .wire import Delivery

ONE, TWO = Message(1, 1), Message(1, 2)


def delivery(message: Message, *, redelivered: bool = False, due: float = 0.0) -> Delivery:
    body = body_of(message.publisher, message.number, level=message.level, due=due)
    return Delivery(1, redelivered, body)


@pytest.fixture
def oracle() -> Oracle:
    made = Oracle()
    made.queue("q")
    return made


@pytest.fixture
def session(oracle: Oracle) -> Session:
    return Session(oracle, oracle.queues["q"])


def test_confirmed_and_acked_messages_are_in_order(oracle: Oracle, session: Session) -> None:
    for message in (ONE, TWO):
        oracle.confirm(message, ["q"])
        session.deliver(delivery(message))
        session.ack([message])
    assert oracle.close() == []


def test_confirmed_message_that_never_comes_is_lost(oracle: Oracle) -> None:
    oracle.confirm(ONE, ["q"])
    assert "1 messages were confirmed and are lost" in oracle.close()[0]


def test_delivered_message_without_ack_has_to_come_again(oracle: Oracle, session: Session) -> None:
    oracle.confirm(ONE, ["q"])
    session.deliver(delivery(ONE))
    assert "are lost" in oracle.close()[0]


def test_transient_message_may_go_with_the_broker_and_not_before(oracle: Oracle) -> None:
    oracle.confirm(ONE, ["q"], persistent=False)
    oracle.broker_died()
    oracle.confirm(TWO, ["q"], persistent=False)
    assert "1 messages were confirmed and are lost: Message(publisher=1, number=2" in oracle.close()[0]


def test_message_whose_ack_was_on_disk_must_not_come_again(oracle: Oracle, session: Session) -> None:
    session.deliver(delivery(ONE))
    session.ack([ONE])
    fence = session.fence()
    Session(oracle, oracle.queues["q"]).deliver(delivery(ONE, redelivered=True))
    assert not oracle.problems
    fence.confirmed()
    Session(oracle, oracle.queues["q"]).deliver(delivery(ONE, redelivered=True))
    assert "the ack was on disk" in oracle.problems[0]


def test_message_whose_delivery_was_noted_comes_again_marked(oracle: Oracle, session: Session) -> None:
    session.deliver(delivery(ONE))
    session.fence().confirmed()
    Session(oracle, oracle.queues["q"]).deliver(delivery(ONE, redelivered=True))
    assert not oracle.problems
    Session(oracle, oracle.queues["q"]).deliver(delivery(ONE))
    assert "not marked" in oracle.problems[0]


def test_message_younger_than_the_fence_is_counted(oracle: Oracle, session: Session) -> None:
    session.deliver(delivery(ONE))
    Session(oracle, oracle.queues["q"]).deliver(delivery(ONE))
    assert not oracle.problems
    assert oracle.queues["q"].again_unmarked == 1


def test_messages_of_a_publisher_and_a_level_come_in_order(oracle: Oracle, session: Session) -> None:
    for message in (Message(1, 5, 0), Message(1, 3, 1), Message(2, 1), Message(1, 6, 0)):
        session.deliver(delivery(message))
    assert not oracle.problems
    session.deliver(delivery(Message(1, 4, 0)))
    assert "came behind number 6" in oracle.problems[0]


def test_message_that_was_given_back_comes_again_marked(oracle: Oracle, session: Session) -> None:
    for message in (ONE, TWO):
        session.deliver(delivery(message))
    session.give_back(ONE)
    session.deliver(delivery(ONE, redelivered=True))
    assert not oracle.problems
    session.give_back(TWO)
    session.deliver(delivery(TWO))
    assert "came back and was not marked" in oracle.problems[0]


def test_queue_that_is_read_in_the_end_has_everything_once(oracle: Oracle) -> None:
    queue = oracle.queue("end", once=True)
    session = Session(oracle, queue)
    session.deliver(delivery(ONE))
    session.deliver(delivery(ONE))
    assert "is there twice" in oracle.problems[0]


def test_overflowed_message_is_in_one_of_two_queues(oracle: Oracle, session: Session) -> None:
    queue = oracle.queues["q"]
    queue.overflow = oracle.queue("over")
    other = Session(oracle, queue.overflow)
    for message in (ONE, TWO):
        oracle.confirm(message, ["q"])
    session.ack([ONE])
    assert queue.missing == {TWO}
    other.ack([ONE, TWO])
    assert oracle.close() == ["1 messages are in q and in over as well"]


def test_body_that_nobody_published_is_found(oracle: Oracle, session: Session) -> None:
    torn = delivery(ONE).body[:-1]
    session.deliver(Delivery(1, False, torn))
    assert "nobody published" in oracle.problems[0]


def test_early_delayed_message_is_found(oracle: Oracle, session: Session) -> None:
    session.deliver(delivery(ONE, due=time.time() + 60))
    assert "before its time" in oracle.problems[0]


def test_transaction_is_there_whole_or_not_at_all(oracle: Oracle, session: Session) -> None:
    queue = oracle.queues["q"]
    oracle.open_groups.append(Group([(ONE, queue), (TWO, queue)]))
    oracle.broker_died()
    session.deliver(delivery(ONE))
    session.ack([ONE])
    assert "1 of 2 messages of a transaction are there" in oracle.close()[0]


def test_transaction_that_was_partly_seen_before_is_judged_by_the_rest(oracle: Oracle, session: Session) -> None:
    queue = oracle.queues["q"]
    session.deliver(delivery(ONE))
    oracle.open_groups.append(Group([(ONE, queue), (TWO, queue)]))
    oracle.broker_died()
    assert oracle.close() == []
