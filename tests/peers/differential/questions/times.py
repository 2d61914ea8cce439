"""Times to live, of messages and of queues."""

import time

from pamqp import commands

from ..question import Group, Lines
from ..session import Session
from ..steps import fill, message
from .queues import until_gone

Basic, Queue = commands.Basic, commands.Queue

GROUP = Group("time")


@GROUP("a message of a queue with a time to live")
def queue_ttl(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-message-ttl": 400})
    fill(peer, session.q, 1)
    time.sleep(0.7)
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    yield peer.get(session.q)


@GROUP("a message with an expiration")
def expiration(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.send_steps(message(session.q, b"short", expiration="100"), message(session.q, b"long", expiration="60000"))
    time.sleep(0.3)
    yield from [peer.get(session.q), peer.get(session.q)]


@GROUP("the shorter of the two counts")
def shorter(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-message-ttl": 100})
    peer.send_steps(message(session.q, b"long", expiration="60000"))
    time.sleep(0.3)
    yield peer.get(session.q)


@GROUP("a message that expires behind one that does not")
def behind(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.send_steps(message(session.q, b"stays"), message(session.q, b"goes", expiration="100"))
    time.sleep(0.3)
    yield from [peer.get(session.q), peer.get(session.q)]


@GROUP("a time to live of 0 and a consumer that waits")
def zero(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-message-ttl": 0})
    peer.send_steps(message(session.q, b"gone"))
    yield peer.get(session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_ack=True))
    peer.send_steps(message(session.q, b"taken"))
    yield peer.receive()[0]


@GROUP("an expiration of 0 and a consumer that waits")
def zero_expiration(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q)
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_ack=True))
    peer.send_steps(message(session.q, b"taken", expiration="0"))
    yield peer.receive()[0]


@GROUP("what is out does not expire, and does when it comes back")
def out(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-message-ttl": 100})
    peer.send_steps(message(session.q))
    yield peer.get(session.q, no_ack=False)
    time.sleep(0.3)
    yield peer.ask(Basic.Reject(1, requeue=True), Basic.Qos())
    time.sleep(0.2)
    yield peer.get(session.q)


@GROUP("a mandatory message with a time to live of 0 is not returned")
def mandatory(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-message-ttl": 0})
    yield peer.ask(message(session.q, mandatory=True), Basic.Qos())


@GROUP("a queue that nobody uses goes")
def expires(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, arguments={"x-expires": 200})
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    time.sleep(0.6)
    yield until_gone(peer, session.q)


@GROUP("a queue with a consumer stays, and goes after it")
def expires_later(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, arguments={"x-expires": 200})
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t"))
    time.sleep(0.5)
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    time.sleep(0.6)
    yield until_gone(peer, session.q)


@GROUP("a get keeps a queue from going")
def expires_get(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, arguments={"x-expires": 500})
    for _ in range(4):
        time.sleep(0.25)
        yield peer.get(session.q)
    yield peer.ask(Queue.Delete(queue=session.q))


@GROUP("a queue that goes leaves no dead letters")
def expires_letters(session: Session) -> Lines:
    peer = session.open()
    dead = peer.declare_queue(name=session.name("dead"))
    arguments = {"x-expires": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    peer.declare_queue(name=session.q, exclusive=False, arguments=arguments)
    peer.send_steps(message(session.q))
    time.sleep(0.6)
    yield peer.get(dead)


@GROUP("a queue with messages goes too")
def expires_full(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, arguments={"x-expires": 200})
    peer.send_steps(message(session.q))
    time.sleep(0.6)
    yield until_gone(peer, session.q)
