"""One channel of a blocking connection."""

from collections.abc import Iterator

import pytest

from clients.peer import open_peer
from triomq.clients import parse_amqp_url
from triomq.clients.channel import BlockingChannel
from triomq.clients.wire import BlockingWire
from triomq.errors import NotFound
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    ConfirmSelect,
    ConfirmSelectOk,
    Event,
    QueueDeclare,
    QueueDeclareOk,
    Received,
)


@pytest.fixture
def wire(url: str) -> Iterator[BlockingWire]:
    wire = BlockingWire(parse_amqp_url(url))
    yield wire
    wire.close()


def test_it_opens_when_it_is_first_used(wire: BlockingWire) -> None:
    channel = BlockingChannel(wire, 7)
    assert channel.call(QueueDeclare("", exclusive=True), QueueDeclareOk).queue.startswith("amq.gen-")


def test_it_opens_again_after_the_broker_has_closed_it(wire: BlockingWire) -> None:
    channel = BlockingChannel(wire, 1)
    for _ in range(3):
        with pytest.raises(NotFound, match="404 NOT_FOUND - no queue 'nope' in vhost '/'"):
            channel.call(QueueDeclare("nope", passive=True), QueueDeclareOk)
    assert channel.call(QueueDeclare("", exclusive=True), QueueDeclareOk).message_count == 0


def test_what_comes_on_other_channels_is_passed_over() -> None:
    def answer(engine: AMQPEngine, event: Event) -> None:
        if event == Received(1, ConfirmSelect()):
            engine.send_method(1, ConfirmSelectOk())
        elif event == Received(2, ConfirmSelect()):
            engine.send_method(1, BasicAck(9, multiple=True))
            engine.send_method(2, BasicAck(1, multiple=True))
            engine.send_method(2, ConfirmSelectOk())

    with open_peer(answer) as url:
        wire = BlockingWire(parse_amqp_url(url))
        for number in (1, 2):
            BlockingChannel(wire, number).call(ConfirmSelect(), ConfirmSelectOk)
        wire.close()
