"""Times to live, of messages and of queues."""

import time

from pamqp import commands

from ..question import Group, Lines
from ..saying import fill, message
from ..talk import Talk
from .queues import until_gone

Basic, Queue = commands.Basic, commands.Queue

GROUP = Group("time")


@GROUP("a message of a queue with a time to live")
def queue_ttl(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-message-ttl": 400})
    fill(speaker, talk.q, 1)
    time.sleep(0.7)
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    yield speaker.get(talk.q)


@GROUP("a message with an expiration")
def expiration(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.say(message(talk.q, b"short", expiration="100"), message(talk.q, b"long", expiration="60000"))
    time.sleep(0.3)
    yield from [speaker.get(talk.q), speaker.get(talk.q)]


@GROUP("the shorter of the two counts")
def shorter(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-message-ttl": 100})
    speaker.say(message(talk.q, b"long", expiration="60000"))
    time.sleep(0.3)
    yield speaker.get(talk.q)


@GROUP("a message that expires behind one that does not")
def behind(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.say(message(talk.q, b"stays"), message(talk.q, b"goes", expiration="100"))
    time.sleep(0.3)
    yield from [speaker.get(talk.q), speaker.get(talk.q)]


@GROUP("a time to live of 0 and a consumer that waits")
def zero(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-message-ttl": 0})
    speaker.say(message(talk.q, b"gone"))
    yield speaker.get(talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_ack=True))
    speaker.say(message(talk.q, b"taken"))
    yield speaker.hear()[0]


@GROUP("an expiration of 0 and a consumer that waits")
def zero_expiration(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_ack=True))
    speaker.say(message(talk.q, b"taken", expiration="0"))
    yield speaker.hear()[0]


@GROUP("what is out does not expire, and does when it comes back")
def out(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-message-ttl": 100})
    speaker.say(message(talk.q))
    yield speaker.get(talk.q, no_ack=False)
    time.sleep(0.3)
    yield speaker.ask(Basic.Reject(1, requeue=True), Basic.Qos())
    time.sleep(0.2)
    yield speaker.get(talk.q)


@GROUP("a mandatory message with a time to live of 0 is not returned")
def mandatory(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-message-ttl": 0})
    yield speaker.ask(message(talk.q, mandatory=True), Basic.Qos())


@GROUP("a queue that nobody uses goes")
def expires(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, arguments={"x-expires": 200})
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    time.sleep(0.6)
    yield until_gone(speaker, talk.q)


@GROUP("a queue with a consumer stays, and goes after it")
def expires_later(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, arguments={"x-expires": 200})
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    time.sleep(0.5)
    yield speaker.ask(Basic.Cancel("t"))
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))
    time.sleep(0.6)
    yield until_gone(speaker, talk.q)


@GROUP("a get keeps a queue from going")
def expires_get(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, arguments={"x-expires": 500})
    for _ in range(4):
        time.sleep(0.25)
        yield speaker.get(talk.q)
    yield speaker.ask(Queue.Delete(queue=talk.q))


@GROUP("a queue that goes leaves no dead letters")
def expires_letters(talk: Talk) -> Lines:
    speaker = talk.open()
    dead = speaker.declare_queue(name=talk.name("dead"))
    arguments = {"x-expires": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    speaker.declare_queue(name=talk.q, exclusive=False, arguments=arguments)
    speaker.say(message(talk.q))
    time.sleep(0.6)
    yield speaker.get(dead)


@GROUP("a queue with messages goes too")
def expires_full(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False, arguments={"x-expires": 200})
    speaker.say(message(talk.q))
    time.sleep(0.6)
    yield until_gone(speaker, talk.q)
