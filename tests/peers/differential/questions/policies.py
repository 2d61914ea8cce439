"""Policies: options that a queue or an exchange has by its name."""

import time

from pamqp import commands

from ..question import Group, Lines
from ..session import Session
from ..steps import confirmed, message
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
def ttl(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.ttl"))
    peer.send_steps(message(queue))
    time.sleep(0.3)
    yield peer.get(queue)


@GROUP("an argument that is shorter counts, and one that is longer does not")
def smaller(session: Session) -> Lines:
    peer = session.open()
    for name, length in (("policy.length.short", 1), ("policy.length.long", 5)):
        queue = peer.declare_queue(name=session.name(name), arguments={"x-max-length": length})
        peer.do(Confirm.Select())
        yield from (line.split()[0] for line in confirmed(peer, *[message(queue)] * 4))


@GROUP("a bound that rejects")
def bound(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.length"))
    peer.do(Confirm.Select())
    yield from confirmed(peer, *[message(queue)] * 3)


@GROUP("an argument for the overflow counts more")
def overflow(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.length"), arguments={"x-overflow": "drop-head"})
    peer.do(Confirm.Select())
    yield from confirmed(peer, *[message(queue, b"%d" % number) for number in range(3)])
    yield from [peer.get(queue) for _ in range(3)]


@GROUP("a queue that nobody uses")
def expires(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.expires"), exclusive=False)
    time.sleep(0.6)
    yield until_gone(peer, queue)


@GROUP("dead letters")
def letters(session: Session) -> Lines:
    peer = session.open()
    grave = peer.declare_queue(name="policy.grave")
    queue = peer.declare_queue(name=session.name("policy.letters"))
    peer.send_steps(message(queue))
    yield peer.get(queue, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(grave)


@GROUP("an alternate exchange")
def alternate(session: Session) -> Lines:
    peer, exchange = session.open(), session.name("policy.alternate")
    peer.do(Exchange.Declare(exchange=exchange, exchange_type="direct", auto_delete=True))
    queue, other = peer.declare_queue(), peer.declare_queue()
    # A fanout that all share would hand others' messages on as well.
    peer.do(Queue.Bind(queue=other, exchange=exchange, routing_key="routed"))
    peer.send_steps(message("routed", exchange=exchange))
    yield peer.get(other)
    yield peer.get(queue)
    yield peer.ask(message("nowhere", exchange=exchange, mandatory=True), Basic.Qos())
    peer.do(Queue.Unbind(queue=other, exchange=exchange, routing_key="routed"))


@GROUP("a redeclare does not look at policies")
def redeclared(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.ttl"))
    yield peer.ask(Queue.Declare(queue=queue, exclusive=True))
    yield peer.ask(Queue.Declare(queue=queue, exclusive=True, arguments={"x-message-ttl": 100}))


@GROUP("one for queues and exchanges")
def everything(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(name=session.name("policy.all"))
    for body in (b"1", b"2"):
        peer.send_steps(message(queue, body))
    yield from [peer.get(queue), peer.get(queue)]
