"""Our own blocking client against whichever broker these tests are pointed at."""

from collections.abc import Iterator

import pytest

from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import AccessRefused, LimitExceeded, NotFound, Refused, Unroutable
from triomq.protocols import BasicProperties
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk
from triomq.protocols.control import GetTotals


@pytest.fixture
def blocking(broker_url: str) -> Iterator[BlockingConnection]:
    with open_blocking(broker_url) as connection:
        yield connection


@pytest.fixture
def own_queue(blocking: BlockingConnection) -> str:
    return blocking.call(QueueDeclare("", exclusive=True), QueueDeclareOk).queue


def test_client_publishes_and_gets(blocking: BlockingConnection, own_queue: str) -> None:
    properties = BasicProperties(type="t", delivery_mode=2, headers={"n": 1})
    for size in (0, 1, 300_000):
        blocking.publish("", own_queue, b"x" * size, properties)
    for size in (0, 1, 300_000):
        got = blocking.get(own_queue)
        assert got is not None
        assert (got.body, got.properties) == (b"x" * size, properties)
        blocking.accept(got)
    assert blocking.get(own_queue) is None


def test_requeued_message_comes_again(blocking: BlockingConnection, own_queue: str) -> None:
    blocking.publish("", own_queue, b"a")
    assert blocking.get(own_queue) is not None
    blocking.requeue_all()
    again = blocking.get(own_queue)
    assert again is not None
    assert (again.body, again.redelivered) == (b"a", True)


def test_client_purges(blocking: BlockingConnection, own_queue: str) -> None:
    for _ in range(3):
        blocking.publisher.send("", own_queue, b"")
    blocking.publisher.wait_confirmed()
    assert blocking.purge(own_queue) == 3


def test_client_receives_refusals(blocking: BlockingConnection, own_queue: str, broker_url: str) -> None:
    with pytest.raises(Unroutable):
        blocking.publish("", "nobody", b"")
    with pytest.raises(NotFound):
        blocking.publish("nowhere", own_queue, b"")
    with pytest.raises(NotFound):
        blocking.get("nobody")
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    full = blocking.call(QueueDeclare("", exclusive=True, arguments=arguments), QueueDeclareOk).queue
    with pytest.raises(LimitExceeded):
        blocking.publish("", full, b"")
    with pytest.raises(AccessRefused):
        open_blocking(broker_url.replace("guest@", "wrong@"))


def test_only_a_triomq_can_be_looked_into(blocking: BlockingConnection, is_triomq: bool) -> None:
    if is_triomq:
        assert blocking.control(GetTotals()).connections >= 1
    else:
        with pytest.raises(Refused, match="is RabbitMQ"):
            blocking.control(GetTotals())
