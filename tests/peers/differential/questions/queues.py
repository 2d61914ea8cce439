"""Queues: what declares, deletes and purges say, whom a queue belongs to and when it goes."""

import time

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Group, Lines
from ..session import PATIENCE, SOON, Peer, Session
from ..steps import fill

Basic, Channel, Connection, Queue = commands.Basic, commands.Channel, commands.Connection, commands.Queue

GROUP = Group("queue")


def until_gone(peer: Peer, queue: str) -> str:
    """Ask for a queue until it is not there any more."""
    ends = time.monotonic() + PATIENCE
    while "close" not in (found := peer.ask(Queue.Declare(queue=queue, passive=True))):
        if time.monotonic() > ends:
            return "still there"
        time.sleep(SOON)
    return found


@GROUP("declare counts what is ready and who consumes")
def counts(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 5)
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    peer.do(Basic.Qos(prefetch_count=1))
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    yield peer.receive()[0]
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))


@GROUP("purge leaves what is out")
def purge(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Queue.Purge(queue=session.q))
    peer.send_steps(Basic.Reject(1, requeue=True))
    yield peer.get_soon(session.q)


@GROUP("delete counts what was ready")
def delete(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 3)
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Queue.Delete(queue=session.q))
    yield peer.ask(Basic.Ack(1), Basic.Qos())


@GROUP("delete if empty while messages are only out")
def delete_if_empty(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    fill(peer, session.q, 1)
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Queue.Delete(queue=session.q, if_empty=True))


@GROUP("delete with both conditions, both broken")
def delete_both(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.send_steps(publish(1, "", session.q, b"x") * 2)
    peer.do(Basic.Qos(prefetch_count=1), Basic.Consume(queue=session.q, consumer_tag="t"))
    yield peer.receive()[0]
    yield peer.ask(Queue.Delete(queue=session.q, if_empty=True, if_unused=True))


@GROUP("delete of a missing queue with conditions")
def delete_missing(session: Session) -> Lines:
    yield session.open().ask(Queue.Delete(queue="no.such", if_empty=True, if_unused=True))


@GROUP("an exclusive queue goes with its connection, not with its channel")
def exclusive(session: Session) -> Lines:
    owner, other = session.open(), session.open()
    owner.declare_queue(name=session.q)
    owner.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield owner.ask(Queue.Declare(queue=session.q, passive=True))
    owner.ask(Connection.Close(200, "", 0, 0), channel=0)
    owner.socket.close()
    deadline = time.monotonic() + PATIENCE
    while "RESOURCE_LOCKED" in (found := other.ask(Queue.Declare(queue=session.q, passive=True))):
        other.do(Channel.Open()) if other.send_steps(Channel.CloseOk()) is None else None
        assert time.monotonic() < deadline
        time.sleep(SOON)
    yield found


@GROUP("the owner redeclares its exclusive queue")
def exclusive_again(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    yield peer.ask(Queue.Declare(queue=session.q, exclusive=True))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.ask(Queue.Declare(queue=session.q))


@GROUP("declare a shared queue again as exclusive")
def made_exclusive(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    yield peer.ask(Queue.Declare(queue=session.q, exclusive=True, auto_delete=True))
    session.open().ask(Queue.Delete(queue=session.q))


@GROUP("an exclusive queue of another connection: unbind")
def exclusive_unbind(session: Session) -> Lines:
    owner = session.open()
    owner.declare_queue(name=session.q)
    owner.do(Queue.Bind(queue=session.q, exchange="amq.direct", routing_key=session.e))
    yield session.open().ask(Queue.Unbind(queue=session.q, exchange="amq.direct", routing_key=session.e))


@GROUP("an exclusive queue of another connection: unbind what is not bound")
def exclusive_unbind_nothing(session: Session) -> Lines:
    session.open().declare_queue(name=session.q)
    yield session.open().ask(Queue.Unbind(queue=session.q, exchange="amq.direct", routing_key=session.e))


@GROUP("an exclusive queue of another connection takes messages")
def exclusive_publish(session: Session) -> Lines:
    owner, other = session.open(), session.open()
    owner.declare_queue(name=session.q)
    other.send_steps(publish(1, "", session.q, b"x"))
    yield owner.get_soon(session.q)


@GROUP("a queue that deletes itself goes with its last consumer")
def auto_delete(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"), Basic.Consume(queue=session.q, consumer_tag="u"))
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.ask(Basic.Cancel("u"))
    yield until_gone(peer, session.q)


@GROUP("a queue that deletes itself stays while it never had a consumer")
def auto_delete_never(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    yield peer.get(session.q)
    peer.socket.close()
    other = session.open()
    yield other.ask(Queue.Declare(queue=session.q, passive=True))
    yield other.ask(Queue.Delete(queue=session.q))


@GROUP("a queue that deletes itself goes with the channel of its consumer")
def auto_delete_channel(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    peer.do(Basic.Consume(queue=session.q), Channel.Close(200, "", 0, 0), Channel.Open())
    yield until_gone(peer, session.q)


@GROUP("a queue without a name is named amq.gen")
def generated(session: Session) -> Lines:
    yield session.open().ask(Queue.Declare(exclusive=True))


@GROUP("a name that begins with amq.gen and is not there")
def forged(session: Session) -> Lines:
    yield session.open().ask(Queue.Declare(queue="amq.gen-mine", exclusive=True))


@GROUP("declare a queue of the name amq.rabbitmq.something")
def reserved(session: Session) -> Lines:
    yield session.open().ask(Queue.Declare(queue="amq.rabbitmq.mine"))


@GROUP("bindings of a deleted queue are gone when it is declared again")
def bindings(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Queue.Bind(queue=session.q, exchange="amq.direct", routing_key=session.e), Queue.Delete(queue=session.q))
    peer.declare_queue(name=session.q)
    peer.send_steps(publish(1, "amq.direct", session.e, b"x"))
    yield peer.get(session.q)


@GROUP("a binding twice is one, and one unbind is enough")
def bound_twice(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    bind = Queue.Bind(queue=session.q, exchange="amq.direct", routing_key=session.e)
    peer.do(bind, bind)
    peer.send_steps(publish(1, "amq.direct", session.e, b"x"))
    yield from [peer.get(session.q), peer.get(session.q)]
    peer.do(Queue.Unbind(queue=session.q, exchange="amq.direct", routing_key=session.e))
    peer.send_steps(publish(1, "amq.direct", session.e, b"y"))
    yield peer.get(session.q)


@GROUP("an unbind looks at arguments")
def unbind_arguments(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Queue.Bind(queue=session.q, exchange="amq.direct", routing_key=session.e, arguments={"a": 1}))
    peer.do(Queue.Unbind(queue=session.q, exchange="amq.direct", routing_key=session.e))
    peer.send_steps(publish(1, "amq.direct", session.e, b"x"))
    yield peer.get(session.q)
    peer.do(Queue.Unbind(queue=session.q, exchange="amq.direct", routing_key=session.e, arguments={"a": 1}))
    peer.send_steps(publish(1, "amq.direct", session.e, b"y"))
    yield peer.get(session.q)


@GROUP("a queue and an exchange that are both missing")
def both_missing(session: Session) -> Lines:
    yield session.open().ask(Queue.Bind(queue="no.queue", exchange="no.exchange"))


@GROUP("a name with a line break")
def broken_name(session: Session) -> Lines:
    peer = session.open()
    for name in (b"a\nb", b"a\rb", b"a\r\nb", b"\n"):
        yield peer.ask(bare(50, 10, b"\0\0" + bytes([len(name)]) + name + b"\x04\0\0\0\0"))


@GROUP("who deletes it hears so before its own consumers are cancelled")
def deleted(session: Session) -> Lines:
    peer = session.open(capabilities={"consumer_cancel_notify": True})
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    yield peer.ask(Queue.Delete(queue=session.q))
    yield from peer.receive()


@GROUP("declare again with another time for consumers")
def other_consumer_timeout(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-consumer-timeout": 10_000})
    for arguments in ({"x-consumer-timeout": 20_000}, {}):
        yield peer.ask(Queue.Declare(queue=session.q, exclusive=True, arguments=arguments))
