"""Dead letters: why, where from, how often, and which cycles end."""

import time
from collections.abc import Callable

from pamqp import commands

from ..question import Group, Lines
from ..saying import message
from ..talk import Speaker, Talk

Basic, Confirm, Exchange, Queue = commands.Basic, commands.Confirm, commands.Exchange, commands.Queue

GROUP = Group("dead letter")


def pair(talk: Talk, **arguments: object) -> tuple[Speaker, str]:
    """A queue whose dead letters go to another."""
    speaker = talk.open()
    dead = speaker.declare_queue(name=talk.name("dead"))
    options = {name.replace("_", "-"): value for name, value in arguments.items()}
    speaker.declare_queue(
        name=talk.q, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, **options}
    )
    return speaker, dead


@GROUP("a rejected one")
def rejected(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q, headers={"mine": 1}, message_id="m", delivery_mode=2))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("a nacked one without headers")
def nacked(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Nack(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("an expired one of a queue with a time to live")
def expired(talk: Talk) -> Lines:
    speaker, dead = pair(talk, x_message_ttl=50)
    speaker.say(message(talk.q))
    yield speaker.get_soon(dead)


@GROUP("an expired one with an expiration of its own")
def expired_itself(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q, expiration="50"))
    yield speaker.get_soon(dead)


@GROUP("one that a full queue dropped")
def dropped(talk: Talk) -> Lines:
    speaker, dead = pair(talk, x_max_length=1)
    speaker.say(message(talk.q, b"1"), message(talk.q, b"2"))
    yield speaker.get_soon(dead)


@GROUP("it keeps its key where none is given")
def own_key(talk: Talk) -> Lines:
    speaker = talk.open()
    dead = speaker.declare_queue(name=talk.name("dead"))
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="fanout", auto_delete=True))
    speaker.do(Queue.Bind(queue=dead, exchange=talk.e))
    speaker.declare_queue(name=talk.q, arguments={"x-dead-letter-exchange": talk.e})
    speaker.do(Queue.Bind(queue=talk.q, exchange="amq.topic", routing_key=f"{talk.e}.#"))
    speaker.say(message(f"{talk.e}.k", exchange="amq.topic"))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("to a missing exchange it is gone")
def missing(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-dead-letter-exchange": talk.e})
    speaker.say(message(talk.q))
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Basic.Reject(1, requeue=False), Basic.Qos())
    yield speaker.get(talk.q)


@GROUP("the exchange may be declared later")
def later(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-dead-letter-exchange": talk.e})
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="fanout", auto_delete=True))
    dead = speaker.declare_queue()
    speaker.do(Queue.Bind(queue=dead, exchange=talk.e))
    speaker.say(message(talk.q))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("an internal exchange takes it")
def internal(talk: Talk) -> Lines:
    speaker = talk.open()
    dead = speaker.declare_queue()
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="fanout", auto_delete=True, internal=True))
    speaker.do(Queue.Bind(queue=dead, exchange=talk.e))
    speaker.declare_queue(name=talk.q, arguments={"x-dead-letter-exchange": talk.e})
    speaker.say(message(talk.q))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("twice by the same queue is one entry that counts two")
def twice(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    properties: dict[str, object] = {}
    speaker.say(message(talk.q, **properties))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    # The letter goes back to where it died, by a queue that sends its own letters there.
    back = speaker.declare_queue(
        name=talk.name("back"),
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": talk.q, "x-message-ttl": 10},
    )
    yield speaker.get_soon(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
    looping = speaker.declare_queue(name=talk.name("looping"), arguments=arguments)
    again = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": looping, "x-message-ttl": 10}
    speaker.do(Queue.Delete(queue=back))
    speaker.declare_queue(name=back, arguments=again)
    speaker.say(message(looping))
    for tag in (2, 3, 4):
        yield speaker.get_soon(looping, no_ack=False)
        speaker.say(Basic.Reject(tag, requeue=False))


@GROUP("a cycle of expiry ends")
def cycle_of_expiry(talk: Talk) -> Lines:
    speaker = talk.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": talk.q, "x-message-ttl": 20}
    speaker.declare_queue(name=talk.q, arguments=arguments)
    speaker.say(message(talk.q))
    time.sleep(0.4)
    yield speaker.get(talk.q)


@GROUP("a cycle over two queues ends")
def cycle_of_two(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.name("other")
    for name, next_name in ((talk.q, other), (other, talk.q)):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": next_name, "x-message-ttl": 20}
        speaker.declare_queue(name=name, arguments=arguments)
    speaker.say(message(talk.q))
    time.sleep(0.5)
    yield from [speaker.get(talk.q), speaker.get(other)]


@GROUP("a cycle of overflow ends")
def cycle_of_overflow(talk: Talk) -> Lines:
    speaker = talk.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": talk.q, "x-max-length": 1}
    speaker.declare_queue(name=talk.q, arguments=arguments)
    speaker.say(message(talk.q, b"1"), message(talk.q, b"2"))
    time.sleep(0.2)
    yield from [speaker.get(talk.q), speaker.get(talk.q)]


@GROUP("a cycle with a reject in it goes on")
def cycle_of_reject(talk: Talk) -> Lines:
    speaker = talk.open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": talk.q}
    speaker.declare_queue(name=talk.q, arguments=arguments)
    speaker.say(message(talk.q))
    for tag in (1, 2, 3):
        yield speaker.get_soon(talk.q, no_ack=False)
        speaker.say(Basic.Reject(tag, requeue=False))
    yield speaker.get_soon(talk.q)


@GROUP("many at once keep their order")
def order(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    for number in range(5):
        speaker.say(message(talk.q, b"%d" % number))
    yield from [speaker.get(talk.q, no_ack=False).rpartition(" ")[2] for _ in range(5)]
    speaker.say(Basic.Nack(0, multiple=True, requeue=False))
    yield speaker.get_soon(dead).rpartition(" ")[2]
    time.sleep(0.1)
    yield from [speaker.get(dead).rpartition(" ")[2] for _ in range(4)]


@GROUP("headers of CC are left out where a key is given")
def with_copies(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q, headers={"CC": [dead], "mine": 1}))
    yield speaker.get_soon(dead)
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Nack(0, multiple=True, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("headers of CC are kept where no key is given")
def with_copies_kept(talk: Talk) -> Lines:
    speaker = talk.open()
    dead = speaker.declare_queue(name=talk.name("dead"))
    speaker.do(Exchange.Declare(exchange=talk.e, exchange_type="direct", auto_delete=True))
    speaker.do(Queue.Bind(queue=dead, exchange=talk.e, routing_key="copy"))
    speaker.declare_queue(name=talk.q, arguments={"x-dead-letter-exchange": talk.e})
    speaker.say(message(talk.q, headers={"CC": ["copy"]}))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


@GROUP("a purge and a delete leave none")
def purged(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q) * 2)
    yield speaker.ask(Queue.Purge(queue=talk.q))
    speaker.say(message(talk.q))
    yield speaker.ask(Queue.Delete(queue=talk.q))
    time.sleep(0.1)
    yield speaker.get(dead)


@GROUP("a header x-death of the publisher's own")
def forged(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.say(message(talk.q, headers={"x-death": "mine"}))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.get_soon(dead)


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


def with_history(make: Callable[[str], list[dict[str, object]]]) -> Callable[[Talk], Lines]:
    def told(talk: Talk) -> Lines:
        speaker, dead = pair(talk)
        speaker.say(message(talk.q, headers={"x-death": make(talk.q)}))
        yield speaker.get(talk.q, no_ack=False)
        speaker.say(Basic.Reject(1, requeue=False))
        yield speaker.get_soon(dead)

    return told


for _title, _make in HISTORIES.items():
    GROUP(f"a history of {_title}")(with_history(_make))


@GROUP("a consumer of the dead hears exchange and key")
def consumed(talk: Talk) -> Lines:
    speaker, dead = pair(talk)
    speaker.do(Basic.Consume(queue=dead, consumer_tag="t", no_ack=True))
    speaker.say(message(talk.q, priority=3))
    yield speaker.get(talk.q, no_ack=False)
    speaker.say(Basic.Reject(1, requeue=False))
    yield speaker.hear()[0]
