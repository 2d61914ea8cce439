"""Fuzz a whole broker over AMQP: ``python -m tests.fuzz.amqp_broker --seconds 60 --seed 1``.

Spoilt conversations come in on connections of their own, beside a healthy one that goes on publishing and consuming.
No actor may crash over them, nobody may be left behind, and the healthy one may not notice. Every input is generated
from the seed and its number; brokers are opened anew after each round, for the inputs fill them with queues.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import trio

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription
from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP
from triomq.protocols import FieldValue
from triomq.protocols.amqp import METHODS
from triomq.protocols.amqp import methods as m

from .engine_trial import Violation, check_said
from .loop import fuzz, parse
from .mutations import cut, spoil
from .victim import HEALTHY_EVERY, ROUND, Victim, within
from .wires import Healthy, outcome
from .words import CLIENT_OPENING, any_method, content, frame, method

# One kind of exchange and one of queue for each round: who declares them otherwise is refused and comes no further.
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


def generate(seed: int, number: int) -> Input:
    """Make what one client sends, its opening first."""
    random = Random(f"broker {seed}:{number}")
    frames = [*CLIENT_OPENING, *_declares(random, number // ROUND)]
    for _ in range(random.randrange(1, 8)):
        frames += random.choice(_WORDS)
    if random.random() < 0.3:
        spoilt = frame(1, random.choice((1, 2)), any_method(random, _ROWS))
        frames.insert(random.randrange(len(CLIENT_OPENING), len(frames) + 1), spoilt)
    spared = random.choice((0, 6, 10, 10, 14, len(frames)))
    data = b"".join(frames[:spared] + spoil(random, frames[spared:]))
    return Input(random.random() > 0.05, cut(random, data) if random.random() < 0.5 else [data])


class Round(Victim):
    """One broker and what is done to it."""

    def __init__(self, broker: Broker, happened: EventSubscription[ActorEvent]) -> None:
        super().__init__(broker, happened)
        self.healthy = Healthy(self.connect(reads=True))

    async def trial(self, what: Input) -> str:
        """Send one input; give how it ended."""
        wire = self.connect(reads=what.reads)
        for piece in (*what.pieces, b""):
            await within(wire.feed(piece), "an input was not read")
        self.check()
        check_said("server", wire.said())
        return outcome(wire.said()) if what.reads else "did not read"


async def play(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Feed a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        with broker.system.events() as happened:
            round = Round(broker, happened)
            for number in numbers:
                what = generate(seed, number)
                try:
                    outcomes[await round.trial(what)] += 1
                    if number % HEALTHY_EVERY == 0:
                        await within(round.healthy.exchange(), "the healthy connection was not served")
                except Violation as violation:
                    shown = " ".join(piece.hex() for piece in what.pieces)
                    raise Violation(f"{violation}\n  seed {seed}, input {number}: {shown}") from violation
            await within(round.healthy.exchange(), "the healthy connection was not served")
            await round.finish(left=1)
            await round.healthy.leave()
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    """Run until time or count is up, or something does not hold."""
    options = parse(__doc__, arguments)
    ours = logging.getLogger("triomq")
    level = ours.level
    ours.setLevel(logging.CRITICAL)  # a line for each failure says nothing new here
    try:
        return fuzz(options, ROUND, lambda numbers: trio.run(play, options.seed, numbers))
    finally:
        ours.setLevel(level)


if __name__ == "__main__":
    sys.exit(main())
