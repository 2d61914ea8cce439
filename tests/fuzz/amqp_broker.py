"""Fuzz a whole broker over AMQP: ``python -m tests.fuzz.amqp_broker --seconds 60 --seed 1``.

Spoilt conversations come in on connections of their own, beside a healthy one that goes on publishing and consuming.
``--seed 1 --first 4711 --inputs 1`` does one again.
"""

import sys
from random import Random
from typing import NamedTuple

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription
from triomq.app import Broker
from triomq.protocols import FieldValue
from triomq.protocols.amqp import METHODS
from triomq.protocols.amqp import methods as m

from . import broker_fuzz
from .amqp_trial import check_sent
from .amqp_words import CLIENT_OPENING, any_method, content, frame, method
from .broker_fuzz import ROUND, Round, within
from .mutations import cut, spoil
from .wires import Healthy, outcome

# One kind of exchange and one of queue for each round: clients that declare them otherwise would only be refused.
_KINDS = ("direct", "topic", "fanout", "headers")
_ARGUMENTS: tuple[dict[str, FieldValue], ...] = (
    {},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-max-length-bytes": 10},
    {"x-message-ttl": 0},
    {"x-message-ttl": 10, "x-dead-letter-exchange": "e"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-max-length": 1},
    {"x-max-priority": 3},
    {"x-single-active-consumer": True},
    {"x-expires": 10},
)
_HEADERS = b"\x20\x00\x00\x00\x00\x08\x01aI\x00\x00\x00\x01"
_PRIORITY = b"\x08\x00\x02"
_EXPIRES = b"\x01\x00\x011"


def _declares(random: Random, round: int) -> list[bytes]:
    kind, arguments = _KINDS[round % len(_KINDS)], _ARGUMENTS[round % len(_ARGUMENTS)]
    return [
        method(1, m.ExchangeDeclare("e", kind)),
        method(1, m.QueueDeclare("q", arguments=arguments)),
        method(1, m.QueueBind("q", "e", random.choice(("k", "#", "")), arguments={"a": 1})),
        method(1, m.ExchangeBind("e", random.choice(("e", "amq.topic", "amq.headers")), "k")),
    ]


_WORDS: list[list[bytes]] = [
    content(1, m.BasicPublish("e", "k"), b"hello") * 3,
    content(2, m.BasicPublish("e", "k", mandatory=True), b"in parts", step=3),
    content(1, m.BasicPublish("e", "k"), b"one", _HEADERS) * 3,
    content(2, m.BasicPublish("", "q"), b"soon", _PRIORITY) + content(2, m.BasicPublish("", "q"), b"late", _EXPIRES),
    content(1, m.BasicPublish("", "q"), b"x" * 9000),
    content(2, m.BasicPublish("", "q", mandatory=True, immediate=True), b"now"),
    content(2, m.BasicPublish("amq.topic", "a.k", mandatory=True), b"nowhere"),
    [method(1, m.BasicConsume("q", "c1", no_ack=True)), method(2, m.BasicConsume("q", "c2"))],
    [method(2, m.BasicQos(10, 1, True)), method(2, m.BasicConsume("q", "c3", no_local=True))],
    [method(2, m.BasicQos(0, 2)), method(2, m.BasicConsume("q", "", arguments={"x-priority": 1}))],
    [method(2, m.BasicAck(0, multiple=True)), method(1, m.BasicNack(0, multiple=True))],
    [method(2, m.BasicGet("q")), method(2, m.BasicAck(1))],
    [method(2, m.BasicGet("q")), method(2, m.BasicReject(1)), method(2, m.BasicGet("q", no_ack=True))],
    [method(1, m.BasicRecover(True)), method(2, m.BasicRecoverAsync(True)), method(2, m.BasicRecover(False))],
    [method(2, m.BasicCancel("c2")), method(1, m.BasicCancel("c1", no_wait=True))],
    [method(2, m.TxSelect()), *content(2, m.BasicPublish("e", "k"), b"tx"), method(2, m.TxRollback())],
    [method(2, m.TxSelect()), *content(2, m.BasicPublish("", "q"), b"tx"), method(2, m.TxCommit())],
    [method(1, m.ConfirmSelect()), *content(1, m.BasicPublish("", "q"), b"confirm") * 3],
    [method(1, m.QueuePurge("q")), method(1, m.QueueUnbind("q", "e", "k"))],
    [method(1, m.QueueDelete("q")), method(1, m.ExchangeDelete("e"))],
    [method(1, m.ExchangeUnbind("e", "amq.topic", "k")), method(1, m.AccessRequest())],
    [method(2, m.ChannelFlow(False)), method(1, m.QueueDeclare("q", passive=True))],
    [method(2, m.ChannelFlow(True)), method(2, m.ChannelFlowOk(True)), method(0, m.ConnectionUpdateSecret(b"", ""))],
    [method(2, m.ChannelClose(200, "")), method(2, m.ChannelOpen())],
    [
        method(1, m.QueueDeclare("", exclusive=True, arguments={"x-dead-letter-exchange": "e"})),
        method(1, m.QueueBind("", "amq.topic", "#")),
        method(1, m.BasicConsume("")),
        *content(1, m.BasicPublish("amq.topic", "a.b"), b"topic"),
    ],
]
_ROWS = tuple(row for row in METHODS if row.sender != "server" and row.class_id >= 40 and not row.content)


class Input(NamedTuple):
    """What one client sends, in pieces; and whether it reads what it is sent."""

    reads: bool
    pieces: list[bytes]


def generate(random: Random, number: int) -> Input:
    """Make what one client sends, its opening first."""
    frames = [*CLIENT_OPENING, *_declares(random, number // ROUND)]
    for _ in range(random.randrange(1, 8)):
        frames += random.choice(_WORDS)
    if random.random() < 0.3:
        spoilt = frame(1, random.choice((1, 2)), any_method(random, _ROWS))
        frames.insert(random.randrange(len(CLIENT_OPENING), len(frames) + 1), spoilt)
    spared = random.choice((0, 6, 10, 10, 14, len(frames)))
    data = b"".join(frames[:spared] + spoil(random, frames[spared:]))
    return Input(random.random() > 0.05, cut(random, data) if random.random() < 0.5 else [data])


class AMQPRound(Round):
    """AMQP clients."""

    def __init__(self, broker: Broker, events: EventSubscription[ActorEvent]) -> None:
        super().__init__(broker, events)
        self.healthy = Healthy(self.connect(reads=True))

    async def trial(self, number: int, random: Random) -> str:
        given = generate(random, number)
        wire = self.connect(reads=given.reads)
        for piece in (*given.pieces, b""):
            await within(wire.feed(piece), "an input was not read")
        self.check()
        sent = wire.sent()
        check_sent("server", sent)
        return outcome(sent) if given.reads else "did not read"


def main(arguments: list[str] | None = None) -> int:
    return broker_fuzz.main(AMQPRound, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
