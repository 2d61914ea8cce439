"""Transactions."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..saying import message
from ..talk import Speaker, Talk

Basic, Channel, Queue, Tx = commands.Basic, commands.Channel, commands.Queue, commands.Tx

GROUP = Group("transaction")


def transactional(talk: Talk) -> tuple[Speaker, str]:
    speaker = talk.open()
    queue = speaker.declare_queue()
    speaker.do(Tx.Select())
    return speaker, queue


@GROUP("a publish is there after the commit")
def publish_commit(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    yield speaker.get(queue)
    yield speaker.ask(Tx.Commit())
    yield speaker.get(queue)


@GROUP("a publish is gone after the rollback")
def publish_rollback(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    yield speaker.ask(Tx.Rollback())
    yield speaker.ask(Tx.Commit())
    yield speaker.get(queue)


@GROUP("an ack is undone by a rollback")
def ack_rollback(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    speaker.do(Tx.Commit())
    yield speaker.get(queue, no_ack=False)
    yield speaker.ask(Basic.Ack(1), Tx.Rollback())
    yield speaker.ask(Basic.Ack(1), Tx.Commit())
    yield speaker.get(queue)


@GROUP("a reject counts from the commit on")
def reject(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    speaker.do(Tx.Commit())
    yield speaker.get(queue, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=True))
    yield speaker.get(queue)
    yield speaker.ask(Tx.Commit())
    yield speaker.get(queue)


@GROUP("an ack twice")
def ack_twice(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    speaker.do(Tx.Commit())
    yield speaker.get(queue, no_ack=False)
    yield speaker.ask(Basic.Ack(1), Basic.Ack(1))


@GROUP("what is mandatory comes back with the commit")
def mandatory(talk: Talk) -> Lines:
    speaker, _ = transactional(talk)
    speaker.say(message("nowhere", mandatory=True))
    yield from speaker.hush()
    speaker.say(Tx.Commit())
    yield from speaker.hear(2)


@GROUP("a missing exchange is refused at once")
def missing(talk: Talk) -> Lines:
    speaker, _ = transactional(talk)
    yield speaker.ask(publish(1, "no.such", "k", b"x"))


@GROUP("a full queue that rejects")
def full(talk: Talk) -> Lines:
    speaker = talk.open()
    queue = speaker.declare_queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    speaker.do(Tx.Select())
    speaker.say(publish(1, "", queue, b"x") * 2)
    yield speaker.ask(Tx.Commit())


@GROUP("a channel that closes rolls back")
def closed(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    speaker.say(publish(1, "", queue, b"x"))
    speaker.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield speaker.get(queue)


@GROUP("many publishes to several queues")
def many(talk: Talk) -> Lines:
    speaker, queue = transactional(talk)
    other = speaker.declare_queue()
    speaker.say(publish(1, "", queue, b"x") * 3, publish(1, "", other, b"y") * 2)
    yield speaker.ask(Tx.Commit())
    yield speaker.ask(Queue.Declare(queue=queue, passive=True))
    yield speaker.ask(Queue.Declare(queue=other, passive=True))
