"""What comes back: by reject, nack, recover, and by channels and connections that end."""

from collections.abc import Sequence

from pamqp import commands

from ...raw import publish
from ..question import Asking, Group, Lines
from ..session import Session, Step
from ..steps import fill

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("requeue")


def requeued(*steps: Step, arguments: dict[str, object] | None = None) -> Asking:
    """What is in a queue of five after three were got and these steps were sent."""

    def ask(session: Session) -> Lines:
        peer, other = session.open(), session.open()
        peer.declare_queue(name=session.q, exclusive=False, arguments=arguments)
        fill(peer, session.q, 5)
        for _ in range(3):
            yield peer.get(session.q, no_ack=False)
        yield peer.ask(*steps, Basic.Qos())
        yield other.get_soon(session.q)
        yield from [other.get(session.q) for _ in range(4)]
        other.do(Queue.Delete(queue=session.q))

    return ask


STEPS: dict[str, Sequence[Step]] = {
    "reject one": [Basic.Reject(2, requeue=True)],
    "reject one and drop it": [Basic.Reject(2, requeue=False)],
    "reject all, last first": [Basic.Reject(tag, requeue=True) for tag in (3, 2, 1)],
    "nack many": [Basic.Nack(2, multiple=True, requeue=True)],
    "nack 0": [Basic.Nack(0, multiple=True, requeue=True)],
    "nack many and drop them": [Basic.Nack(2, multiple=True, requeue=False)],
    "ack one, nack the rest": [Basic.Ack(2), Basic.Nack(3, multiple=True, requeue=True)],
    "ack many": [Basic.Ack(2, multiple=True)],
    "recover": [Basic.Recover(requeue=True)],
}
for _title, _steps in STEPS.items():
    GROUP.add(_title, requeued(*_steps))


@GROUP("the channel closes")
def channel(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    yield peer.get(session.q, no_ack=False)
    yield peer.get(session.q, no_ack=False)
    peer.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield from [peer.get_soon(session.q), peer.get(session.q), peer.get(session.q)]


@GROUP("the connection ends")
def connection(session: Session) -> Lines:
    peer, other = session.open(), session.open()
    peer.declare_queue(name=session.q, exclusive=False)
    fill(peer, session.q, 2)
    yield peer.get(session.q, no_ack=False)
    yield peer.get(session.q, no_ack=False)
    peer.socket.close()
    yield from [other.get_soon(session.q), other.get_soon(session.q)]
    other.do(Queue.Delete(queue=session.q))


@GROUP("a message rejected by the only consumer comes again")
def again(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    peer.send_steps(publish(1, "", session.q, b"x"))
    yield from peer.receive(1)
    peer.send_steps(Basic.Reject(1, requeue=True))
    yield from peer.receive(1)


@GROUP("a requeued message sorts by its priority")
def by_priority(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-max-priority": 5})
    for priority, body in ((1, b"low"), (3, b"high"), (1, b"low too"), (9, b"beyond the limit is as the limit")):
        peer.send_steps(publish(1, "", session.q, body, b"\x08\x00" + bytes([priority])))
    peer.send_steps(publish(1, "", session.q, b"none"))
    yield peer.get(session.q, no_ack=False)
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Basic.Nack(0, multiple=True, requeue=True), Basic.Qos())
    yield from [peer.get(session.q) for _ in range(5)]


@GROUP("a delivery limit of a classic queue")
def classic_limit(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-delivery-limit": 1})
    peer.send_steps(publish(1, "", session.q, b"x"))
    for tag in (1, 2, 3):
        yield peer.get(session.q, no_ack=False)
        peer.send_steps(Basic.Reject(tag, requeue=True))


@GROUP("a delivery limit of a quorum queue")
def quorum_limit(session: Session) -> Lines:
    peer = session.open()
    dead = peer.declare_queue(name=session.name("dead"))
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    peer.declare_queue(name=session.q, exclusive=False, durable=True, arguments=arguments)
    peer.do(Basic.Qos(prefetch_count=1))
    peer.send_steps(publish(1, "", session.q, b"x"))
    for tag in (1, 2, 3):
        yield peer.get_soon(session.q, no_ack=False)
        peer.send_steps(Basic.Reject(tag, requeue=True))
    yield peer.get_soon(dead)
    yield peer.ask(Queue.Delete(queue=session.q))


@GROUP("a quorum queue counts deliveries in x-delivery-count")
def quorum_count(session: Session) -> Lines:
    peer = session.open()
    arguments = {"x-queue-type": "quorum"}
    peer.declare_queue(name=session.q, exclusive=False, durable=True, arguments=arguments)
    peer.do(Basic.Qos(prefetch_count=1))
    peer.send_steps(publish(1, "", session.q, b"x"))
    for tag in (1, 2):
        yield peer.get_soon(session.q, no_ack=False)
        peer.send_steps(Basic.Reject(tag, requeue=True))
    yield peer.get_soon(session.q, no_ack=False)
    yield peer.ask(Queue.Delete(queue=session.q))


@GROUP("a quorum queue and a limit for the channel")
def quorum_global(session: Session) -> Lines:
    peer = session.open()
    arguments = {"x-queue-type": "quorum"}
    peer.declare_queue(name=session.q, exclusive=False, durable=True, arguments=arguments)
    peer.do(Basic.Qos(prefetch_count=1, global_=True))
    yield peer.ask(Basic.Consume(queue=session.q, consumer_tag="t"))
    session.open().do(Queue.Delete(queue=session.q))
