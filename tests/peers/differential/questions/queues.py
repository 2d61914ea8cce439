"""Queues: what declares, deletes and purges say, whom a queue belongs to and when it goes."""

import time

from pamqp import commands

from ...answers import bare
from ...raw import publish
from ..question import Group, Lines
from ..saying import fill
from ..talk import PATIENCE, SOON, Speaker, Talk

Basic, Channel, Connection, Queue = commands.Basic, commands.Channel, commands.Connection, commands.Queue

GROUP = Group("queue")


def until_gone(speaker: Speaker, queue: str) -> str:
    """Ask for a queue until it is not there any more."""
    ends = time.monotonic() + PATIENCE
    while "close" not in (found := speaker.ask(Queue.Declare(queue=queue, passive=True))):
        if time.monotonic() > ends:
            return "still there"
        time.sleep(SOON)
    return found


@GROUP("declare counts what is ready and who consumes")
def counts(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 5)
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    speaker.do(Basic.Qos(prefetch_count=1))
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield speaker.hear()[0]
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))


@GROUP("purge leaves what is out")
def purge(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Queue.Purge(queue=talk.q))
    speaker.say(Basic.Reject(1, requeue=True))
    yield speaker.get_soon(talk.q)


@GROUP("delete counts what was ready")
def delete(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Queue.Delete(queue=talk.q))
    yield speaker.ask(Basic.Ack(1), Basic.Qos())


@GROUP("delete if empty while messages are only out")
def delete_if_empty(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 1)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Queue.Delete(queue=talk.q, if_empty=True))


@GROUP("delete with both conditions, both broken")
def delete_both(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.say(publish(1, "", talk.q, b"x") * 2)
    speaker.do(Basic.Qos(prefetch_count=1), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield speaker.hear()[0]
    yield speaker.ask(Queue.Delete(queue=talk.q, if_empty=True, if_unused=True))


@GROUP("delete of a missing queue with conditions")
def delete_missing(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Delete(queue="no.such", if_empty=True, if_unused=True))


@GROUP("an exclusive queue goes with its connection, not with its channel")
def exclusive(talk: Talk) -> Lines:
    owner, other = talk.open(), talk.open()
    owner.declare_queue(name=talk.q)
    owner.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield owner.ask(Queue.Declare(queue=talk.q, passive=True))
    owner.ask(Connection.Close(200, "", 0, 0), channel=0)
    owner.socket.close()
    deadline = time.monotonic() + PATIENCE
    while "RESOURCE_LOCKED" in (found := other.ask(Queue.Declare(queue=talk.q, passive=True))):
        other.do(Channel.Open()) if other.say(Channel.CloseOk()) is None else None
        assert time.monotonic() < deadline
        time.sleep(SOON)
    yield found


@GROUP("the owner redeclares its exclusive queue")
def exclusive_again(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    yield speaker.ask(Queue.Declare(queue=talk.q, exclusive=True))
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.ask(Queue.Declare(queue=talk.q))


@GROUP("declare a shared queue again as exclusive")
def made_exclusive(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, auto_delete=True)
    yield speaker.ask(Queue.Declare(queue=talk.q, exclusive=True, auto_delete=True))
    talk.open().ask(Queue.Delete(queue=talk.q))


@GROUP("an exclusive queue of another connection: unbind")
def exclusive_unbind(talk: Talk) -> Lines:
    owner = talk.open()
    owner.declare_queue(name=talk.q)
    owner.do(Queue.Bind(queue=talk.q, exchange="amq.direct", routing_key=talk.e))
    yield talk.open().ask(Queue.Unbind(queue=talk.q, exchange="amq.direct", routing_key=talk.e))


@GROUP("an exclusive queue of another connection: unbind what is not bound")
def exclusive_unbind_nothing(talk: Talk) -> Lines:
    talk.open().declare_queue(name=talk.q)
    yield talk.open().ask(Queue.Unbind(queue=talk.q, exchange="amq.direct", routing_key=talk.e))


@GROUP("an exclusive queue of another connection takes messages")
def exclusive_publish(talk: Talk) -> Lines:
    owner, other = talk.open(), talk.open()
    owner.declare_queue(name=talk.q)
    other.say(publish(1, "", talk.q, b"x"))
    yield owner.get_soon(talk.q)


@GROUP("a queue that deletes itself goes with its last consumer")
def auto_delete(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, auto_delete=True)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"), Basic.Consume(queue=talk.q, consumer_tag="u"))
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.ask(Basic.Cancel("u"))
    yield until_gone(speaker, talk.q)


@GROUP("a queue that deletes itself stays while it never had a consumer")
def auto_delete_never(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, auto_delete=True)
    yield speaker.get(talk.q)
    speaker.socket.close()
    other = talk.open()
    yield other.ask(Queue.Declare(queue=talk.q, passive=True))
    yield other.ask(Queue.Delete(queue=talk.q))


@GROUP("a queue that deletes itself goes with the channel of its consumer")
def auto_delete_channel(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, auto_delete=True)
    speaker.do(Basic.Consume(queue=talk.q), Channel.Close(200, "", 0, 0), Channel.Open())
    yield until_gone(speaker, talk.q)


@GROUP("a queue without a name is named amq.gen")
def generated(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Declare(exclusive=True))


@GROUP("a name that begins with amq.gen and is not there")
def forged(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Declare(queue="amq.gen-mine", exclusive=True))


@GROUP("declare a queue of the name amq.rabbitmq.something")
def reserved(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Declare(queue="amq.rabbitmq.mine"))


@GROUP("bindings of a deleted queue are gone when it is declared again")
def bindings(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Queue.Bind(queue=talk.q, exchange="amq.direct", routing_key=talk.e), Queue.Delete(queue=talk.q))
    speaker.declare_queue(name=talk.q)
    speaker.say(publish(1, "amq.direct", talk.e, b"x"))
    yield speaker.get(talk.q)


@GROUP("a binding twice is one, and one unbind is enough")
def bound_twice(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    bind = Queue.Bind(queue=talk.q, exchange="amq.direct", routing_key=talk.e)
    speaker.do(bind, bind)
    speaker.say(publish(1, "amq.direct", talk.e, b"x"))
    yield from [speaker.get(talk.q), speaker.get(talk.q)]
    speaker.do(Queue.Unbind(queue=talk.q, exchange="amq.direct", routing_key=talk.e))
    speaker.say(publish(1, "amq.direct", talk.e, b"y"))
    yield speaker.get(talk.q)


@GROUP("an unbind looks at arguments")
def unbind_arguments(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Queue.Bind(queue=talk.q, exchange="amq.direct", routing_key=talk.e, arguments={"a": 1}))
    speaker.do(Queue.Unbind(queue=talk.q, exchange="amq.direct", routing_key=talk.e))
    speaker.say(publish(1, "amq.direct", talk.e, b"x"))
    yield speaker.get(talk.q)
    speaker.do(Queue.Unbind(queue=talk.q, exchange="amq.direct", routing_key=talk.e, arguments={"a": 1}))
    speaker.say(publish(1, "amq.direct", talk.e, b"y"))
    yield speaker.get(talk.q)


@GROUP("a queue and an exchange that are both missing")
def both_missing(talk: Talk) -> Lines:
    yield talk.open().ask(Queue.Bind(queue="no.queue", exchange="no.exchange"))


@GROUP("a name with a line break")
def broken_name(talk: Talk) -> Lines:
    speaker = talk.open()
    for name in (b"a\nb", b"a\rb", b"a\r\nb", b"\n"):
        yield speaker.ask(bare(50, 10, b"\0\0" + bytes([len(name)]) + name + b"\x04\0\0\0\0"))


@GROUP("who deletes it hears so before its own consumers are cancelled")
def deleted(talk: Talk) -> Lines:
    speaker = talk.open(capabilities={"consumer_cancel_notify": True})
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield speaker.ask(Queue.Delete(queue=talk.q))
    yield from speaker.hear()


@GROUP("declare again with another time for consumers")
def other_consumer_timeout(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-consumer-timeout": 10_000})
    for arguments in ({"x-consumer-timeout": 20_000}, {}):
        yield speaker.ask(Queue.Declare(queue=talk.q, exclusive=True, arguments=arguments))
