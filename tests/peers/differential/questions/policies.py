"""Policies: options that a queue or an exchange has by its name."""

import time

from pamqp import commands

from ..question import Group, Lines
from ..saying import confirmed, message
from ..talk import Talk
from .queues import until_gone

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("policy")

POLICIES: dict[str, dict[str, object]] = {
    "ttl": {"apply-to": "queues", "definition": {"message-ttl": 100}},
    "length": {"apply-to": "queues", "definition": {"max-length": 2, "overflow": "reject-publish"}},
    "expires": {"apply-to": "queues", "definition": {"expires": 200}},
    "letters": {
        "apply-to": "queues",
        "definition": {"dead-letter-exchange": "", "dead-letter-routing-key": "policy.grave"},
    },
    "alternate": {"apply-to": "exchanges", "definition": {"alternate-exchange": "amq.fanout"}},
    "all": {"apply-to": "all", "definition": {"max-length": 1}},
}
"""Name to policy; each is for names that begin with ``policy.`` and its own."""


@GROUP("a time to live")
def ttl(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.ttl"))
    speaker.say(message(queue))
    time.sleep(0.3)
    yield speaker.get(queue)


@GROUP("an argument that is shorter counts, and one that is longer does not")
def smaller(talk: Talk) -> Lines:
    speaker = talk.open()
    for name, length in (("policy.length.short", 1), ("policy.length.long", 5)):
        queue = speaker.declare_queue(name=talk.name(name), arguments={"x-max-length": length})
        speaker.do(Confirm.Select())
        yield from (line.split()[0] for line in confirmed(speaker, *[message(queue)] * 4))


@GROUP("a bound that rejects")
def bound(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.length"))
    speaker.do(Confirm.Select())
    yield from confirmed(speaker, *[message(queue)] * 3)


@GROUP("an argument for the overflow counts more")
def overflow(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.length"), arguments={"x-overflow": "drop-head"})
    speaker.do(Confirm.Select())
    yield from confirmed(speaker, *[message(queue, b"%d" % number) for number in range(3)])
    yield from [speaker.get(queue) for _ in range(3)]


@GROUP("a queue that nobody uses")
def expires(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.expires"), exclusive=False)
    time.sleep(0.6)
    yield until_gone(speaker, queue)


@GROUP("dead letters")
def letters(talk: Talk) -> Lines:
    speaker = talk.open()
    grave = speaker.declare_queue(name="policy.grave")
    queue = speaker.declare_queue(name=talk.name("policy.letters"))
    speaker.say(message(queue))
    yield speaker.get(queue, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(grave)


@GROUP("an alternate exchange")
def alternate(talk: Talk) -> Lines:
    speaker, exchange = talk.open(), talk.name("policy.alternate")
    speaker.do(Exchange.Declare(exchange=exchange, exchange_type="direct", auto_delete=True))
    queue, other = speaker.declare_queue(), speaker.declare_queue()
    # A fanout that all share would hand others' messages on as well.
    speaker.do(Queue.Bind(queue=other, exchange=exchange, routing_key="routed"))
    speaker.say(message("routed", exchange=exchange))
    yield speaker.get(other)
    yield speaker.get(queue)
    yield speaker.ask(message("nowhere", exchange=exchange, mandatory=True), Basic.Qos())
    speaker.do(Queue.Unbind(queue=other, exchange=exchange, routing_key="routed"))


@GROUP("a redeclare does not look at policies")
def redeclared(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.ttl"))
    yield speaker.ask(Queue.Declare(queue=queue, exclusive=True))
    yield speaker.ask(Queue.Declare(queue=queue, exclusive=True, arguments={"x-message-ttl": 100}))


@GROUP("one for queues and exchanges")
def everything(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(name=talk.name("policy.all"))
    for body in (b"1", b"2"):
        speaker.say(message(queue, body))
    yield from [speaker.get(queue), speaker.get(queue)]
