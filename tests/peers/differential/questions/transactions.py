"""Transactions."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..session import Peer, Session
from ..steps import message

Basic, Channel, Queue, Tx = commands.Basic, commands.Channel, commands.Queue, commands.Tx

GROUP = Group("transaction")


def transactional(session: Session) -> tuple[Peer, str]:
    peer = session.open()
    queue = peer.declare_queue()
    peer.do(Tx.Select())
    return peer, queue


@GROUP("a publish is there after the commit")
def publish_commit(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    yield peer.get(queue)
    yield peer.ask(Tx.Commit())
    yield peer.get(queue)


@GROUP("a publish is gone after the rollback")
def publish_rollback(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    yield peer.ask(Tx.Rollback())
    yield peer.ask(Tx.Commit())
    yield peer.get(queue)


@GROUP("an ack is undone by a rollback")
def ack_rollback(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    peer.do(Tx.Commit())
    yield peer.get(queue, no_ack=False)
    yield peer.ask(Basic.Ack(1), Tx.Rollback())
    yield peer.ask(Basic.Ack(1), Tx.Commit())
    yield peer.get(queue)


@GROUP("a reject counts from the commit on")
def reject(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    peer.do(Tx.Commit())
    yield peer.get(queue, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=True))
    yield peer.get(queue)
    yield peer.ask(Tx.Commit())
    yield peer.get(queue)


@GROUP("an ack twice")
def ack_twice(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    peer.do(Tx.Commit())
    yield peer.get(queue, no_ack=False)
    yield peer.ask(Basic.Ack(1), Basic.Ack(1))


@GROUP("what is mandatory comes back with the commit")
def mandatory(session: Session) -> Lines:
    peer, _ = transactional(session)
    peer.send_steps(message("nowhere", mandatory=True))
    yield from peer.receive_for()
    peer.send_steps(Tx.Commit())
    yield from peer.receive(2)


@GROUP("a missing exchange is refused at once")
def missing(session: Session) -> Lines:
    peer, _ = transactional(session)
    yield peer.ask(publish(1, "no.such", "k", b"x"))


@GROUP("a full queue that rejects")
def full(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    peer.do(Tx.Select())
    peer.send_steps(publish(1, "", queue, b"x") * 2)
    yield peer.ask(Tx.Commit())


@GROUP("a channel that closes rolls back")
def closed(session: Session) -> Lines:
    peer, queue = transactional(session)
    peer.send_steps(publish(1, "", queue, b"x"))
    peer.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield peer.get(queue)


@GROUP("many publishes to several queues")
def many(session: Session) -> Lines:
    peer, queue = transactional(session)
    other = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x") * 3, publish(1, "", other, b"y") * 2)
    yield peer.ask(Tx.Commit())
    yield peer.ask(Queue.Declare(queue=queue, passive=True))
    yield peer.ask(Queue.Declare(queue=other, passive=True))
