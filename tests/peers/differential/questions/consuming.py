"""Consumers: limits, turns, priorities, exclusiveness, cancels."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..session import Session
from ..steps import fill

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("consumer")
NOTIFY = {"consumer_cancel_notify": True}


@GROUP("a limit counts for each consumer that starts after it")
def prefetch(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 6)
    peer.do(Basic.Qos(prefetch_count=2), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(2)
    yield from peer.receive_for()
    peer.do(Basic.Qos(prefetch_count=1))
    yield peer.ask(Basic.Ack(1))
    yield from peer.receive_for()
    peer.do(Basic.Consume(queue=session.q, consumer_tag="u"))
    yield from peer.receive(1)
    yield from peer.receive_for()


@GROUP("a limit for the channel is shared")
def global_prefetch(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 4)
    peer.do(Basic.Qos(prefetch_count=2, global_=True), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(2)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="u"))
    yield from peer.receive_for()
    peer.send_steps(Basic.Ack(1))
    yield (peer.receive()[0]).partition("consumer_tag")[0]
    yield from peer.receive_for()


@GROUP("a global prefetch that is used up, and a consumer without acks")
def global_no_ack(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=session.q, consumer_tag="t"))
    peer.send_steps(publish(1, "", session.q, b"x"))
    yield from peer.receive()
    peer.do(Basic.Consume(queue=session.q, consumer_tag="u", no_ack=True))
    peer.send_steps(publish(1, "", session.q, b"y"))
    yield from peer.receive_for()


@GROUP("a limit for the channel may be raised while it holds")
def raised(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    peer.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(1)
    peer.send_steps(Basic.Qos(prefetch_count=2, global_=True))
    yield from sorted(peer.receive(2))
    yield from peer.receive_for()


@GROUP("a limit of 0 is none")
def unlimited(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    peer.do(Basic.Qos(prefetch_count=0), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(3)


@GROUP("a get is not held by a limit")
def get_beside(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    peer.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(1)
    yield peer.get(session.q, no_ack=False)


@GROUP("consumers take turns")
def turns(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    for tag in "tu":
        peer.do(Basic.Consume(queue=session.q, consumer_tag=tag, no_ack=True))
    for number in range(4):
        peer.send_steps(publish(1, "", session.q, b"%d" % number))
        yield peer.receive()[0]


@GROUP("a higher priority gets all that it has room for")
def priority(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Qos(prefetch_count=2), Basic.Consume(queue=session.q, consumer_tag="low"))
    peer.do(Basic.Consume(queue=session.q, consumer_tag="high", arguments={"x-priority": 5}))
    peer.do(Basic.Consume(queue=session.q, consumer_tag="lowest", arguments={"x-priority": -5}))
    for number in range(5):
        peer.send_steps(publish(1, "", session.q, b"%d" % number))
        yield peer.receive()[0]


@GROUP("a single active consumer, and the next when it goes")
def single_active(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        peer.do(Basic.Consume(queue=session.q, consumer_tag=tag))
    peer.send_steps(publish(1, "", session.q, b"1") * 2)
    yield from peer.receive(2)
    peer.do(Basic.Cancel("first"))
    peer.send_steps(publish(1, "", session.q, b"2"))
    yield from peer.receive(1)


@GROUP("a single active consumer with a limit lets nobody else have any")
def single_active_full(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-single-active-consumer": True})
    peer.do(Basic.Qos(prefetch_count=1))
    for tag in ("first", "second"):
        peer.do(Basic.Consume(queue=session.q, consumer_tag=tag))
    peer.send_steps(publish(1, "", session.q, b"1") * 3)
    yield from peer.receive(1)
    yield from peer.receive_for()


@GROUP("an exclusive consumer of a single active queue")
def single_active_exclusive(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-single-active-consumer": True})
    yield peer.ask(Basic.Consume(queue=session.q, consumer_tag="t", exclusive=True))


@GROUP("a get beside a single active consumer")
def single_active_get(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-single-active-consumer": True})
    peer.do(Basic.Qos(prefetch_count=1), Basic.Consume(queue=session.q, consumer_tag="t"))
    peer.send_steps(publish(1, "", session.q, b"1") * 2)
    yield from peer.receive(1)
    yield peer.get(session.q)


@GROUP("a get beside an exclusive consumer")
def exclusive_get(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", exclusive=True))
    yield peer.get(session.q)


@GROUP("an exclusive consumer goes and others may come")
def exclusive_gone(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", exclusive=True))
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Basic.Consume(queue=session.q, consumer_tag="u"))


@GROUP("purge and delete beside an exclusive consumer")
def exclusive_delete(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", exclusive=True))
    yield peer.ask(Queue.Purge(queue=session.q))
    yield peer.ask(Queue.Delete(queue=session.q))


@GROUP("a consumer hears that its queue is deleted")
def cancelled(session: Session) -> Lines:
    consumer, other = session.open(capabilities=NOTIFY), session.open()
    consumer.declare_queue(name=session.q, exclusive=False)
    consumer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    yield other.ask(Queue.Delete(queue=session.q))
    yield consumer.receive()[0]
    yield consumer.ask(Basic.CancelOk("t"), Basic.Qos())


@GROUP("a consumer that cannot hear it hears nothing")
def not_cancelled(session: Session) -> Lines:
    consumer, other = session.open(), session.open()
    consumer.declare_queue(name=session.q, exclusive=False)
    consumer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    yield other.ask(Queue.Delete(queue=session.q))
    yield consumer.receive_for()[0]


@GROUP("the tag of a consumer that was cancelled is free")
def tag_free(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    for _ in range(2):
        yield peer.ask(Basic.Consume(queue=session.q, consumer_tag="t"))
        yield peer.ask(Basic.Cancel("t"))


@GROUP("a consumer without a tag")
def no_tag(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    yield peer.ask(Basic.Consume(queue=session.q))


@GROUP("what a cancelled consumer has stays out, and is acked still")
def cancel_keeps(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 2)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    yield from peer.receive(2)
    yield peer.ask(Basic.Cancel("t"))
    yield peer.get(session.q)
    yield peer.ask(Basic.Ack(2, multiple=True), Basic.Qos())


@GROUP("no-local is not looked at")
def no_local(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_local=True, no_ack=True))
    peer.send_steps(publish(1, "", session.q, b"x"))
    yield peer.receive_for()[0]


@GROUP("deliveries count on, over consumers and gets")
def numbers(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 4)
    yield peer.get(session.q)
    yield peer.get(session.q, no_ack=False)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_ack=True))
    yield from peer.receive(2)
