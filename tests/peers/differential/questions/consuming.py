"""Consumers: limits, turns, priorities, exclusiveness, cancels."""

from pamqp import commands

from ...raw import publish
from ..question import Group, Lines
from ..saying import fill
from ..talk import Talk

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("consumer")
NOTIFY = {"consumer_cancel_notify": True}


@GROUP("a limit counts for each consumer that starts after it")
def prefetch(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 6)
    speaker.do(Basic.Qos(prefetch_count=2), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(2)
    yield from speaker.hush()
    speaker.do(Basic.Qos(prefetch_count=1))
    yield speaker.ask(Basic.Ack(1))
    yield from speaker.hush()
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="u"))
    yield from speaker.hear(1)
    yield from speaker.hush()


@GROUP("a limit for the channel is shared")
def global_prefetch(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 4)
    speaker.do(Basic.Qos(prefetch_count=2, global_=True), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(2)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="u"))
    yield from speaker.hush()
    speaker.say(Basic.Ack(1))
    yield (speaker.hear()[0]).partition("consumer_tag")[0]
    yield from speaker.hush()


@GROUP("a global prefetch that is used up, and a consumer without acks")
def global_no_ack(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=talk.q, consumer_tag="t"))
    speaker.say(publish(1, "", talk.q, b"x"))
    yield from speaker.hear()
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="u", no_ack=True))
    speaker.say(publish(1, "", talk.q, b"y"))
    yield from speaker.hush()


@GROUP("a limit for the channel may be raised while it holds")
def raised(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    speaker.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(1)
    speaker.say(Basic.Qos(prefetch_count=2, global_=True))
    yield from sorted(speaker.hear(2))
    yield from speaker.hush()


@GROUP("a limit of 0 is none")
def unlimited(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    speaker.do(Basic.Qos(prefetch_count=0), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(3)


@GROUP("a get is not held by a limit")
def get_beside(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    speaker.do(Basic.Qos(prefetch_count=1, global_=True), Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(1)
    yield speaker.get(talk.q, no_ack=False)


@GROUP("consumers take turns")
def turns(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    for tag in "tu":
        speaker.do(Basic.Consume(queue=talk.q, consumer_tag=tag, no_ack=True))
    for number in range(4):
        speaker.say(publish(1, "", talk.q, b"%d" % number))
        yield speaker.hear()[0]


@GROUP("a higher priority gets all that it has room for")
def priority(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Qos(prefetch_count=2), Basic.Consume(queue=talk.q, consumer_tag="low"))
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="high", arguments={"x-priority": 5}))
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="lowest", arguments={"x-priority": -5}))
    for number in range(5):
        speaker.say(publish(1, "", talk.q, b"%d" % number))
        yield speaker.hear()[0]


@GROUP("a single active consumer, and the next when it goes")
def single_active(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        speaker.do(Basic.Consume(queue=talk.q, consumer_tag=tag))
    speaker.say(publish(1, "", talk.q, b"1") * 2)
    yield from speaker.hear(2)
    speaker.do(Basic.Cancel("first"))
    speaker.say(publish(1, "", talk.q, b"2"))
    yield from speaker.hear(1)


@GROUP("a single active consumer with a limit lets nobody else have any")
def single_active_full(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-single-active-consumer": True})
    speaker.do(Basic.Qos(prefetch_count=1))
    for tag in ("first", "second"):
        speaker.do(Basic.Consume(queue=talk.q, consumer_tag=tag))
    speaker.say(publish(1, "", talk.q, b"1") * 3)
    yield from speaker.hear(1)
    yield from speaker.hush()


@GROUP("an exclusive consumer of a single active queue")
def single_active_exclusive(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-single-active-consumer": True})
    yield speaker.ask(Basic.Consume(queue=talk.q, consumer_tag="t", exclusive=True))


@GROUP("a get beside a single active consumer")
def single_active_get(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-single-active-consumer": True})
    speaker.do(Basic.Qos(prefetch_count=1), Basic.Consume(queue=talk.q, consumer_tag="t"))
    speaker.say(publish(1, "", talk.q, b"1") * 2)
    yield from speaker.hear(1)
    yield speaker.get(talk.q)


@GROUP("a get beside an exclusive consumer")
def exclusive_get(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", exclusive=True))
    yield speaker.get(talk.q)


@GROUP("an exclusive consumer goes and others may come")
def exclusive_gone(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", exclusive=True))
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.ask(Basic.Consume(queue=talk.q, consumer_tag="u"))


@GROUP("purge and delete beside an exclusive consumer")
def exclusive_delete(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", exclusive=True))
    yield speaker.ask(Queue.Purge(queue=talk.q))
    yield speaker.ask(Queue.Delete(queue=talk.q))


@GROUP("a consumer hears that its queue is deleted")
def cancelled(talk: Talk) -> Lines:
    consumer, other = talk.open(capabilities=NOTIFY), talk.open()
    consumer.declare_queue(name=talk.q, exclusive=False)
    consumer.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield other.ask(Queue.Delete(queue=talk.q))
    yield consumer.hear()[0]
    yield consumer.ask(Basic.CancelOk("t"), Basic.Qos())


@GROUP("a consumer that cannot hear it hears nothing")
def not_cancelled(talk: Talk) -> Lines:
    consumer, other = talk.open(), talk.open()
    consumer.declare_queue(name=talk.q, exclusive=False)
    consumer.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield other.ask(Queue.Delete(queue=talk.q))
    yield consumer.hush()[0]


@GROUP("the tag of a consumer that was cancelled is free")
def tag_free(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    for _ in range(2):
        yield speaker.ask(Basic.Consume(queue=talk.q, consumer_tag="t"))
        yield speaker.ask(Basic.Cancel("t"))


@GROUP("a consumer without a tag")
def no_tag(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    yield speaker.ask(Basic.Consume(queue=talk.q))


@GROUP("what a cancelled consumer has stays out, and is acked still")
def cancel_keeps(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 2)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    yield from speaker.hear(2)
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.get(talk.q)
    yield speaker.ask(Basic.Ack(2, multiple=True), Basic.Qos())


@GROUP("no-local is not looked at")
def no_local(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_local=True, no_ack=True))
    speaker.say(publish(1, "", talk.q, b"x"))
    yield speaker.hush()[0]


@GROUP("deliveries count on, over consumers and gets")
def numbers(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 4)
    yield speaker.get(talk.q)
    yield speaker.get(talk.q, no_ack=False)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_ack=True))
    yield from speaker.hear(2)
