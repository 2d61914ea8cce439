"""Confirms: what is acked, what is nacked, and in which order with returns."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..session import Peer, Session
from ..steps import confirmed, message

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("confirm")


def confirming(session: Session) -> Peer:
    peer = session.open()
    peer.do(Confirm.Select())
    return peer


def settled(peer: Peer, count: int) -> str:
    """Which publishes were acked and which nacked, however their answers were put together."""
    outcome: dict[int, str] = {}
    while len(outcome) < count:
        found = peer.read_method()
        assert isinstance(found, Basic.Ack | Basic.Nack), found.name
        first = min((tag for tag in range(1, found.delivery_tag + 1) if tag not in outcome), default=0)
        for tag in range(first if found.multiple else found.delivery_tag, found.delivery_tag + 1):
            outcome.setdefault(tag, found.name)
    return str([f"{tag} {outcome[tag]}" for tag in sorted(outcome)])


@GROUP("each publish is acked once")
def each(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x") * 10)
    yield settled(peer, 10)
    yield peer.receive_for()[0]


@GROUP("one at a time")
def one(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue()
    yield from confirmed(peer, *[publish(1, "", queue, b"x")] * 3)


@GROUP("what reaches nobody is acked")
def nowhere(session: Session) -> Lines:
    yield from confirmed(confirming(session), publish(1, "", "nowhere", b"x"), publish(1, "amq.fanout", "", b"x"))


@GROUP("a return comes before its ack")
def returned(session: Session) -> Lines:
    peer = confirming(session)
    yield peer.ask(message("nowhere", b"x", mandatory=True))
    yield peer.receive()[0].partition(" multiple")[0]


@GROUP("a return among others")
def returned_among(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue()
    peer.send_steps(message(queue), message("nowhere", mandatory=True), message(queue))
    received: list[str] = []
    while not any("Return" in line for line in received) and len(received) < 4:
        received += peer.receive()
    yield next(line for line in received if "Return" in line)


@GROUP("counts begin with confirm.select")
def counts(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x") * 3)
    peer.do(Confirm.Select())
    yield from confirmed(peer, publish(1, "", queue, b"x"))
    peer.do(Confirm.Select())
    yield from confirmed(peer, publish(1, "", queue, b"x"))


@GROUP("a full queue that rejects nacks")
def nacked(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    yield from confirmed(peer, *[publish(1, "", queue, b"x")] * 3)
    yield peer.get(queue)
    yield from confirmed(peer, publish(1, "", queue, b"x"))


@GROUP("two queues, one of them full")
def half_full(session: Session) -> Lines:
    peer = confirming(session)
    full = peer.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    free = peer.declare_queue()
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="fanout", auto_delete=True))
    peer.do(Queue.Bind(queue=full, exchange=session.e), Queue.Bind(queue=free, exchange=session.e))
    yield from confirmed(peer, *[publish(1, session.e, "", b"x")] * 2)
    yield from [peer.get(free), peer.get(free), peer.get(full), peer.get(full)]


@GROUP("many at once into a queue of two that rejects")
def many(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    peer.send_steps(publish(1, "", queue, b"x") * 5)
    yield settled(peer, 5)


@GROUP("a publish that is refused is not confirmed")
def refused(session: Session) -> Lines:
    peer = confirming(session)
    yield peer.ask(publish(1, "no.such", "k", b"x"))


@GROUP("a message to a consumer without acks is confirmed")
def taken(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue()
    peer.do(Basic.Consume(queue=queue, consumer_tag="t", no_ack=True))
    peer.send_steps(publish(1, "", queue, b"x"))
    yield from sorted(line.partition(" multiple")[0] for line in peer.receive(2))


@GROUP("a mandatory message that a full queue rejects")
def mandatory_full(session: Session) -> Lines:
    peer = confirming(session)
    queue = peer.declare_queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    yield from confirmed(peer, message(queue, mandatory=True))


@GROUP("a persistent message in a durable queue")
def durable(session: Session) -> Lines:
    peer = confirming(session)
    peer.declare_queue(name=session.q, exclusive=False, durable=True)
    yield from confirmed(peer, message(session.q, delivery_mode=2))
    yield peer.ask(Queue.Delete(queue=session.q))


@GROUP("a quorum queue")
def quorum(session: Session) -> Lines:
    peer = confirming(session)
    peer.declare_queue(name=session.q, exclusive=False, durable=True, arguments={"x-queue-type": "quorum"})
    yield from confirmed(peer, message(session.q))
    yield peer.ask(Queue.Delete(queue=session.q))
