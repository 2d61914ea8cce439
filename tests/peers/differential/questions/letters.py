"""Dead letters: why, where from, how often, and which cycles end."""

import time
from collections.abc import Callable

from pamqp import commands

from ..question import Group, Lines
from ..session import Peer, Session
from ..steps import message

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("dead letter")


def pair(session: Session, **arguments: object) -> tuple[Peer, str]:
    """A queue whose dead letters go to another."""
    peer = session.open()
    dead = peer.declare_queue(name=session.name("dead"))
    options = {name.replace("_", "-"): value for name, value in arguments.items()}
    peer.declare_queue(
        name=session.q, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, **options}
    )
    return peer, dead


@GROUP("a rejected one")
def rejected(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q, headers={"mine": 1}, message_id="m", delivery_mode=2))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("a nacked one without headers")
def nacked(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Nack(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("an expired one of a queue with a time to live")
def expired(session: Session) -> Lines:
    peer, dead = pair(session, x_message_ttl=50)
    peer.send_steps(message(session.q))
    yield peer.get_soon(dead)


@GROUP("an expired one with an expiration of its own")
def expired_itself(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q, expiration="50"))
    yield peer.get_soon(dead)


@GROUP("one that a full queue dropped")
def dropped(session: Session) -> Lines:
    peer, dead = pair(session, x_max_length=1)
    peer.send_steps(message(session.q, b"1"), message(session.q, b"2"))
    yield peer.get_soon(dead)


@GROUP("it keeps its key where none is given")
def own_key(session: Session) -> Lines:
    peer = session.open()
    dead = peer.declare_queue(name=session.name("dead"))
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="fanout", auto_delete=True))
    peer.do(Queue.Bind(queue=dead, exchange=session.e))
    peer.declare_queue(name=session.q, arguments={"x-dead-letter-exchange": session.e})
    peer.do(Queue.Bind(queue=session.q, exchange="amq.topic", routing_key=f"{session.e}.#"))
    peer.send_steps(message(f"{session.e}.k", exchange="amq.topic"))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("to a missing exchange it is gone")
def missing(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-dead-letter-exchange": session.e})
    peer.send_steps(message(session.q))
    yield peer.get(session.q, no_ack=False)
    yield peer.ask(Basic.Reject(1, requeue=False), Basic.Qos())
    yield peer.get(session.q)


@GROUP("the exchange may be declared later")
def later(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-dead-letter-exchange": session.e})
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="fanout", auto_delete=True))
    dead = peer.declare_queue()
    peer.do(Queue.Bind(queue=dead, exchange=session.e))
    peer.send_steps(message(session.q))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("an internal exchange takes it")
def internal(session: Session) -> Lines:
    peer = session.open()
    dead = peer.declare_queue()
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="fanout", auto_delete=True, internal=True))
    peer.do(Queue.Bind(queue=dead, exchange=session.e))
    peer.declare_queue(name=session.q, arguments={"x-dead-letter-exchange": session.e})
    peer.send_steps(message(session.q))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("twice by the same queue is one entry that counts two")
def twice(session: Session) -> Lines:
    peer, dead = pair(session)
    properties: dict[str, object] = {}
    peer.send_steps(message(session.q, **properties))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    # The letter goes back to where it died, by a queue that sends its own letters there.
    back = peer.declare_queue(
        name=session.name("back"),
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": session.q, "x-message-ttl": 10},
    )
    yield peer.get_soon(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
    looping = peer.declare_queue(name=session.name("looping"), arguments=arguments)
    again = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": looping, "x-message-ttl": 10}
    peer.do(Queue.Delete(queue=back))
    peer.declare_queue(name=back, arguments=again)
    peer.send_steps(message(looping))
    for tag in (2, 3, 4):
        yield peer.get_soon(looping, no_ack=False)
        peer.send_steps(Basic.Reject(tag, requeue=False))


@GROUP("a cycle of expiry ends")
def cycle_of_expiry(session: Session) -> Lines:
    peer = session.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": session.q, "x-message-ttl": 20}
    peer.declare_queue(name=session.q, arguments=arguments)
    peer.send_steps(message(session.q))
    time.sleep(0.4)
    yield peer.get(session.q)


@GROUP("a cycle over two queues ends")
def cycle_of_two(session: Session) -> Lines:
    peer, other = session.open(), session.name("other")
    for name, next_name in ((session.q, other), (other, session.q)):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": next_name, "x-message-ttl": 20}
        peer.declare_queue(name=name, arguments=arguments)
    peer.send_steps(message(session.q))
    time.sleep(0.5)
    yield from [peer.get(session.q), peer.get(other)]


@GROUP("a cycle of overflow ends")
def cycle_of_overflow(session: Session) -> Lines:
    peer = session.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": session.q, "x-max-length": 1}
    peer.declare_queue(name=session.q, arguments=arguments)
    peer.send_steps(message(session.q, b"1"), message(session.q, b"2"))
    time.sleep(0.2)
    yield from [peer.get(session.q), peer.get(session.q)]


@GROUP("a cycle with a reject in it goes on")
def cycle_of_reject(session: Session) -> Lines:
    peer = session.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": session.q}
    peer.declare_queue(name=session.q, arguments=arguments)
    peer.send_steps(message(session.q))
    for tag in (1, 2, 3):
        yield peer.get_soon(session.q, no_ack=False)
        peer.send_steps(Basic.Reject(tag, requeue=False))
    yield peer.get_soon(session.q)


@GROUP("many at once keep their order")
def order(session: Session) -> Lines:
    peer, dead = pair(session)
    for number in range(5):
        peer.send_steps(message(session.q, b"%d" % number))
    yield from [peer.get(session.q, no_ack=False).rpartition(" ")[2] for _ in range(5)]
    peer.send_steps(Basic.Nack(0, multiple=True, requeue=False))
    yield peer.get_soon(dead).rpartition(" ")[2]
    time.sleep(0.1)
    yield from [peer.get(dead).rpartition(" ")[2] for _ in range(4)]


@GROUP("headers of CC are left out where a key is given")
def with_copies(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q, headers={"CC": [dead], "mine": 1}))
    yield peer.get_soon(dead)
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Nack(0, multiple=True, requeue=False))
    yield peer.get_soon(dead)


@GROUP("headers of CC are kept where no key is given")
def with_copies_kept(session: Session) -> Lines:
    peer = session.open()
    dead = peer.declare_queue(name=session.name("dead"))
    peer.do(Exchange.Declare(exchange=session.e, exchange_type="direct", auto_delete=True))
    peer.do(Queue.Bind(queue=dead, exchange=session.e, routing_key="copy"))
    peer.declare_queue(name=session.q, arguments={"x-dead-letter-exchange": session.e})
    peer.send_steps(message(session.q, headers={"CC": ["copy"]}))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


@GROUP("a purge and a delete leave none")
def purged(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q) * 2)
    yield peer.ask(Queue.Purge(queue=session.q))
    peer.send_steps(message(session.q))
    yield peer.ask(Queue.Delete(queue=session.q))
    time.sleep(0.1)
    yield peer.get(dead)


@GROUP("a header x-death of the publisher's own")
def forged(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.send_steps(message(session.q, headers={"x-death": "mine"}))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.get_soon(dead)


def entry(reason: str, queue: str, **more: object) -> dict[str, object]:
    """A death as an old broker told it, without a count."""
    return {"queue": queue, "reason": reason, "exchange": "", "routing-keys": [queue], **more}


HISTORIES = {
    "one without count": lambda q: [entry("rejected", q)],
    "two of one kind without count": lambda q: [entry("rejected", q), entry("rejected", q)],
    "three of one kind without count, and another": lambda q: [
        entry("rejected", q),
        entry("expired", q),
        entry("rejected", q),
        entry("rejected", q),
    ],
    "two of another queue without count": lambda q: [entry("rejected", "other"), entry("rejected", "other")],
    "one of another queue without count": lambda q: [entry("rejected", "other")],
    "one with count and one without": lambda q: [entry("rejected", q, count=5), entry("rejected", q)],
    "one without count and one with": lambda q: [entry("rejected", q), entry("rejected", q, count=5)],
    "two with counts": lambda q: [entry("rejected", q, count=3), entry("rejected", q, count=5)],
    "two of another queue with counts": lambda q: [entry("rejected", "o", count=3), entry("rejected", "o", count=5)],
}


def with_history(make: Callable[[str], list[dict[str, object]]]) -> Callable[[Session], Lines]:
    def told(session: Session) -> Lines:
        peer, dead = pair(session)
        peer.send_steps(message(session.q, headers={"x-death": make(session.q)}))
        yield peer.get(session.q, no_ack=False)
        peer.send_steps(Basic.Reject(1, requeue=False))
        yield peer.get_soon(dead)

    return told


for _title, _make in HISTORIES.items():
    GROUP(f"a history of {_title}")(with_history(_make))


@GROUP("a consumer of the dead hears exchange and key")
def consumed(session: Session) -> Lines:
    peer, dead = pair(session)
    peer.do(Basic.Consume(queue=dead, consumer_tag="t", no_ack=True))
    peer.send_steps(message(session.q, priority=3))
    yield peer.get(session.q, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    yield peer.receive()[0]
