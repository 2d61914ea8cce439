"""Confirms: what is acked, what is nacked, and in which order with returns."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..saying import confirmed, message
from ..talk import Speaker, Talk

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("confirm")


def confirming(talk: Talk) -> Speaker:
    speaker = talk.open()
    speaker.do(Confirm.Select())
    return speaker


def settled(speaker: Speaker, count: int) -> str:
    """Which publishes were acked and which nacked, however their answers were put together."""
    outcome: dict[int, str] = {}
    while len(outcome) < count:
        found = speaker.read_method()
        assert isinstance(found, Basic.Ack | Basic.Nack), found.name
        first = min((tag for tag in range(1, found.delivery_tag + 1) if tag not in outcome), default=0)
        for tag in range(first if found.multiple else found.delivery_tag, found.delivery_tag + 1):
            outcome.setdefault(tag, found.name)
    return str([f"{tag} {outcome[tag]}" for tag in sorted(outcome)])


@GROUP("each publish is acked once")
def each(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue()
    speaker.say(publish(1, "", queue, b"x") * 10)
    yield settled(speaker, 10)
    yield speaker.hush()[0]


@GROUP("one at a time")
def one(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue()
    yield from confirmed(speaker, *[publish(1, "", queue, b"x")] * 3)


@GROUP("what reaches nobody is acked")
def nowhere(talk: Talk) -> Lines:
    yield from confirmed(confirming(talk), publish(1, "", "nowhere", b"x"), publish(1, "amq.fanout", "", b"x"))


@GROUP("a return comes before its ack")
def returned(talk: Talk) -> Lines:
    speaker = confirming(talk)
    yield speaker.ask(message("nowhere", b"x", mandatory=True))
    yield speaker.hear()[0].partition(" multiple")[0]


@GROUP("a return among others")
def returned_among(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue()
    speaker.say(message(queue), message("nowhere", mandatory=True), message(queue))
    heard: list[str] = []
    while not any("Return" in line for line in heard) and len(heard) < 4:
        heard += speaker.hear()
    yield next(line for line in heard if "Return" in line)


@GROUP("counts begin with confirm.select")
def counts(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue()
    speaker.say(publish(1, "", queue, b"x") * 3)
    speaker.do(Confirm.Select())
    yield from confirmed(speaker, publish(1, "", queue, b"x"))
    speaker.do(Confirm.Select())
    yield from confirmed(speaker, publish(1, "", queue, b"x"))


@GROUP("a full queue that rejects nacks")
def nacked(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    yield from confirmed(speaker, *[publish(1, "", queue, b"x")] * 3)
    yield speaker.get(queue)
    yield from confirmed(speaker, publish(1, "", queue, b"x"))


@GROUP("two queues, one of them full")
def half_full(talk: Talk) -> Lines:
    speaker = confirming(talk)
    full = speaker.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    free = speaker.declare_queue()
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="fanout", auto_delete=True))
    speaker.do(Queue.Bind(queue=full, exchange=talk.e), Queue.Bind(queue=free, exchange=talk.e))
    yield from confirmed(speaker, *[publish(1, talk.e, "", b"x")] * 2)
    yield from [speaker.get(free), speaker.get(free), speaker.get(full), speaker.get(full)]


@GROUP("many at once into a queue of two that rejects")
def many(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    speaker.say(publish(1, "", queue, b"x") * 5)
    yield settled(speaker, 5)


@GROUP("a publish that is refused is not confirmed")
def refused(talk: Talk) -> Lines:
    speaker = confirming(talk)
    yield speaker.ask(publish(1, "no.such", "k", b"x"))


@GROUP("a message to a consumer without acks is confirmed")
def taken(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue()
    speaker.do(Basic.Consume(queue=queue, consumer_tag="t", no_ack=True))
    speaker.say(publish(1, "", queue, b"x"))
    yield from sorted(line.partition(" multiple")[0] for line in speaker.hear(2))


@GROUP("a mandatory message that a full queue rejects")
def mandatory_full(talk: Talk) -> Lines:
    speaker = confirming(talk)
    queue = speaker.declare_queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    yield from confirmed(speaker, message(queue, mandatory=True))


@GROUP("a persistent message in a durable queue")
def durable(talk: Talk) -> Lines:
    speaker = confirming(talk)
    speaker.declare_queue(name=talk.q, exclusive=False, durable=True)
    yield from confirmed(speaker, message(talk.q, delivery_mode=2))
    yield speaker.ask(Queue.Delete(queue=talk.q))


@GROUP("a quorum queue")
def quorum(talk: Talk) -> Lines:
    speaker = confirming(talk)
    speaker.declare_queue(name=talk.q, exclusive=False, durable=True, arguments={"x-queue-type": "quorum"})
    yield from confirmed(speaker, message(talk.q))
    yield speaker.ask(Queue.Delete(queue=talk.q))
