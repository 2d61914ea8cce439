"""Fuzz a whole broker over direct connections: ``python -m tests.fuzz.dmp_broker --seconds 60 --seed 1``.

Spoilt conversations come in with leases that are good, beside a healthy client that goes on publishing into a sink and
reading from a feed. A feed that was spoilt can be leased again at once.
"""

import sys
from random import Random
from typing import NamedTuple

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription
from triomq.app import Broker
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import ChannelOpened, DirectGet, DirectGetOk, DirectPut, DirectPutOk
from triomq.protocols.amqp import methods as m
from triomq.protocols.dmp import PROTOCOL_HEADER, Target

from . import broker_fuzz
from .amqp_trial import check_sent
from .broker_fuzz import Round, within
from .dmp_healthy import HealthyDirect
from .dmp_oracle import take_word
from .dmp_trial import check_answers
from .dmp_words import DIRECT, HEADERS, any_message, message, messages, opening
from .mutations import cut, spoil
from .wires import Healthy

_KEYS = (b"k", b"victim", b"victim", b"amq.rabbitmq.reply-to", b"nowhere")
_SINKS = ("", "", "amq.direct", "amq.topic", "amq.fanout", "amq.headers")
_PROPERTIES = (
    b"\x01\x00\x0210",  # expiration
    b"\x08\x00\x09",  # priority
    b"\x02\x00\x15amq.rabbitmq.reply-to",
    b"\x00\x10\x05guest",  # user-id, one's own and another's
    b"\x00\x10\x03eve",
    b"\x20\x00\x00\x00\x00\x0f\x02CCA\x00\x00\x00\x07S\x00\x00\x00\x02cc",
    HEADERS,
)


class Input(NamedTuple):
    """What one client does with a lease.

    Args:
        target: what its lease is for.
        sink: which one, for a sink.
        reads: whether it reads what it is sent.
        spoils_opening: whether its header and lease are spoilt too.
        cuts: whether all comes in pieces.
        words: what it sends behind them.
    """

    target: Target
    sink: str
    reads: bool
    spoils_opening: bool
    cuts: bool
    words: list[bytes]


def generate(random: Random) -> Input:
    """Make what one client sends behind a lease that it does not know yet."""
    words = messages(random)
    for _ in range(random.randrange(4)):
        words.append(any_message(random, _KEYS))
        words.append(message(b"", random.choice(_KEYS), random.choice(_PROPERTIES), random.choice((0, 1, 2, 3)), b"x"))
    target: Target = "feed" if random.random() < 0.3 else "sink"
    spoilt = spoil(random, words, DIRECT) if random.random() < 0.7 else words
    reads, opening, cuts = (random.random() < share for share in (0.9, 0.15, 0.5))
    return Input(target, random.choice(_SINKS), reads, opening, cuts, spoilt)


class DMPRound(Round):
    """Direct connections, the client that asks for leases which are misused, and a healthy one."""

    name = "direct "
    left = 4  # a principal, its sink and its feed, and the lender

    def __init__(self, broker: Broker, events: EventSubscription[ActorEvent]) -> None:
        super().__init__(broker, events)
        self.healthy: HealthyDirect = HealthyDirect(self)
        self.lender = Healthy(self.connect(reads=True))

    async def open(self) -> None:
        await self.healthy.open()
        await self.lender.open()
        self.lender.engine.send_method(2, m.ChannelOpen())  # one without confirms
        await self.lender.expect(ChannelOpened)
        await self.lender.call(m.QueueDeclare("victim", exclusive=True), m.QueueDeclareOk)
        for sink in ("amq.topic", "amq.direct", "amq.fanout", "amq.headers"):
            await self.lender.call(m.QueueBind("victim", sink, "k", arguments={"a": 1}), m.QueueBindOk)
        await self.lender.call(m.BasicConsume("victim", no_ack=True), m.BasicConsumeOk)

    async def lease(self, given: Input) -> bytes:
        """Take a lease that is to be misused."""
        if given.target == "feed":
            granted = await self.lender.call(DirectGet("victim"), DirectGetOk)
        else:
            granted = await self.lender.call(DirectPut(given.sink), DirectPutOk)
        assert isinstance(granted, DirectGetOk | DirectPutOk)
        return granted.lease.encode()

    async def leave(self) -> None:
        await self.lender.leave()
        await super().leave()

    async def trial(self, number: int, random: Random) -> str:
        given = generate(random)
        first = opening("server", await self.lease(given))
        if given.spoils_opening:
            first = spoil(random, first, DIRECT)
        data = b"".join(first + given.words)
        wire = self.connect(reads=given.reads)
        for piece in cut(random, data) if given.cuts else [data]:
            await within(wire.feed(piece), "an input was not read")
        if given.target == "feed":
            self.lender.engine.send_content(2, m.BasicPublish("", "victim"), NO_PROPERTIES, b"for any feed")
            await self.lender.flush()
        await within(wire.feed(b""), "an end was not read")
        self.check()
        return _outcome(given, wire.sent())


def _outcome(given: Input, sent: bytes) -> str:
    """Check that what was sent may be sent; name it."""
    if not given.reads:
        return f"{given.target}: did not read"
    if not sent.startswith(b"\x0e200"):
        if sent != PROTOCOL_HEADER:
            check_sent("server", sent)
        return f"{given.target}: no direct connection"
    check_answers(sent, given.target)
    _, rest = take_word(sent)
    answer, rest = take_word(rest)
    if answer is None or not answer.startswith(b"200"):
        return f"{given.target}: {'no answer' if answer is None else answer[:3].decode()} to the lease"
    if given.target == "feed":
        return f"feed: {'messages' if rest else 'nothing'}"
    return f"sink: {rest[1:4].decode() or 'all was read'}"


def main(arguments: list[str] | None = None) -> int:
    return broker_fuzz.main(DMPRound, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
