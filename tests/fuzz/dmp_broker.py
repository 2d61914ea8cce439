"""Fuzz a whole broker over direct connections: ``python -m tests.fuzz.dmp_broker --seconds 60 --seed 1``.

Spoilt conversations come in with leases that are good, beside a healthy client that goes on publishing into a sink and
reading from a feed. No actor may crash, nobody may be left behind, a feed that was spoilt can be leased again at once,
and the healthy one may not notice. Every input is generated from the seed and its number.
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
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import ChannelOpened, DirectGet, DirectGetOk, DirectPut, DirectPutOk
from triomq.protocols.amqp import methods as m
from triomq.protocols.dmp import PROTOCOL_HEADER, Target

from .dmp_healthy import HealthyDirect
from .dmp_oracle import take_word
from .dmp_trial import check_answers
from .dmp_words import DIRECT, HEADERS, any_message, message, messages, opening
from .engine_trial import check_said
from .loop import Violation, fuzz, parse
from .mutations import cut, spoil
from .victim import HEALTHY_EVERY, ROUND, Victim, within
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
        words: what it says behind them.
    """

    target: Target
    sink: str
    reads: bool
    spoils_opening: bool
    cuts: bool
    words: list[bytes]


def generate(random: Random) -> Input:
    """Make what one client says behind a lease that it does not know yet."""
    words = messages(random)
    for _ in range(random.randrange(4)):
        words.append(any_message(random, _KEYS))
        words.append(message(b"", random.choice(_KEYS), random.choice(_PROPERTIES), random.choice((0, 1, 2, 3)), b"x"))
    target: Target = "feed" if random.random() < 0.3 else "sink"
    spoilt = spoil(random, words, DIRECT) if random.random() < 0.7 else words
    reads, opening, cuts = (random.random() < share for share in (0.9, 0.15, 0.5))
    return Input(target, random.choice(_SINKS), reads, opening, cuts, spoilt)


class Round(Victim):
    """One broker, who asks for leases that are misused, and who must not notice."""

    def __init__(self, broker: Broker, happened: EventSubscription[ActorEvent]) -> None:
        super().__init__(broker, happened)
        self.healthy = HealthyDirect(self)
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

    async def lease(self, what: Input) -> bytes:
        """Lease what is to be misused."""
        if what.target == "feed":
            granted = await self.lender.call(DirectGet("victim"), DirectGetOk)
        else:
            granted = await self.lender.call(DirectPut(what.sink), DirectPutOk)
        assert isinstance(granted, DirectGetOk | DirectPutOk)
        return granted.lease.encode()

    async def trial(self, what: Input, random: Random) -> tuple[str, list[bytes]]:
        """Send one input; give how it ended, and what was sent."""
        first = opening("server", await self.lease(what))
        if what.spoils_opening:
            first = spoil(random, first, DIRECT)
        data = b"".join(first + what.words)
        pieces = cut(random, data) if what.cuts else [data]
        wire = self.connect(reads=what.reads)
        for piece in pieces:
            await within(wire.feed(piece), "an input was not read")
        if what.target == "feed":
            self.lender.engine.send_content(2, m.BasicPublish("", "victim"), NO_PROPERTIES, b"for whoever has it")
            await self.lender.flush()
        await within(wire.feed(b""), "an end was not read")
        self.check()
        return _outcome(what, wire.said()), pieces


def _outcome(what: Input, said: bytes) -> str:
    """See that what was said may be said; name it."""
    if not what.reads:
        return f"{what.target}: did not read"
    if not said.startswith(b"\x0e200"):
        if said != PROTOCOL_HEADER:
            check_said("server", said)
        return f"{what.target}: no direct connection"
    check_answers(said, what.target)
    _, rest = take_word(said)
    answer, rest = take_word(rest)
    if answer is None or not answer.startswith(b"200"):
        return f"{what.target}: {'no answer' if answer is None else answer[:3].decode()} to the lease"
    if what.target == "feed":
        return f"feed: {'messages' if rest else 'nothing'}"
    return f"sink: {rest[1:4].decode() or 'all was read'}"


async def play(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Feed a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        with broker.system.events() as happened:
            round = Round(broker, happened)
            await within(round.open(), "nobody was let in")
            for number in numbers:
                random = Random(f"direct broker {seed}:{number}")
                what = generate(random)
                try:
                    outcomes[(await round.trial(what, random))[0]] += 1
                    if number % HEALTHY_EVERY == 0:
                        await within(round.healthy.exchange(), "the healthy connection was not served")
                except Violation as violation:
                    raise Violation(f"{violation}\n  seed {seed}, input {number}: {what}") from violation
            await within(round.healthy.exchange(), "the healthy connection was not served")
            await round.finish(left=4)  # a principal, its sink and its feed, and the lender
            await round.lender.leave()
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
