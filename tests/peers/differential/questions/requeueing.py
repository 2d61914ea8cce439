"""What comes back: by reject, nack, recover, and by channels and connections that end."""

from collections.abc import Sequence

from pamqp import commands

from ...raw import publish
from ..question import Asking, Group, Lines
from ..saying import fill
from ..talk import Step, Talk

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("requeue")


def requeued(*steps: Step, arguments: dict[str, object] | None = None) -> Asking:
    """What is in a queue of five after three were got and these steps were said."""

    def ask(talk: Talk) -> Lines:
        speaker, other = talk.open(), talk.open()
        speaker.declare_queue(name=talk.q, exclusive=False, arguments=arguments)
        fill(speaker, talk.q, 5)
        for _ in range(3):
            yield speaker.get(talk.q, no_ack=False)
        yield speaker.ask(*steps, Basic.Qos())
        yield other.get_soon(talk.q)
        yield from [other.get(talk.q) for _ in range(4)]
        other.do(Queue.Delete(queue=talk.q))

    return ask


STEPS: dict[str, Sequence[Step]] = {
    "reject one": [Basic.Reject(2, requeue=True)],
    "reject one and drop it": [Basic.Reject(2, requeue=False)],
    "reject all, last first": [Basic.Reject(tag, requeue=True) for tag in (3, 2, 1)],
    "nack many": [Basic.Nack(2, multiple=True, requeue=True)],
    "nack 0": [Basic.Nack(0, multiple=True, requeue=True)],
    "nack many and drop them": [Basic.Nack(2, multiple=True, requeue=False)],
    "ack one, nack the rest": [Basic.Ack(2), Basic.Nack(3, multiple=True, requeue=True)],
    "ack many": [Basic.Ack(2, multiple=True)],
    "recover": [Basic.Recover(requeue=True)],
}
for _title, _steps in STEPS.items():
    GROUP.add(_title, requeued(*_steps))


@GROUP("the channel closes")
def channel(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    fill(speaker, talk.q, 3)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.get(talk.q, no_ack=False)
    speaker.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield from [speaker.get_soon(talk.q), speaker.get(talk.q), speaker.get(talk.q)]


@GROUP("the connection ends")
def connection(talk: Talk) -> Lines:
    speaker, other = talk.open(), talk.open()
    speaker.declare_queue(name=talk.q, exclusive=False)
    fill(speaker, talk.q, 2)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.get(talk.q, no_ack=False)
    speaker.socket.close()
    yield from [other.get_soon(talk.q), other.get_soon(talk.q)]
    other.do(Queue.Delete(queue=talk.q))


@GROUP("a message rejected by the only consumer comes again")
def again(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q)
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t"))
    speaker.say(publish(1, "", talk.q, b"x"))
    yield from speaker.hear(1)
    speaker.say(Basic.Reject(1, requeue=True))
    yield from speaker.hear(1)


@GROUP("a requeued message sorts by its priority")
def by_priority(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-max-priority": 5})
    for priority, body in ((1, b"low"), (3, b"high"), (1, b"low too"), (9, b"beyond the limit is as the limit")):
        speaker.say(publish(1, "", talk.q, body, b"\x08\x00" + bytes([priority])))
    speaker.say(publish(1, "", talk.q, b"none"))
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Basic.Nack(0, multiple=True, requeue=True), Basic.Qos())
    yield from [speaker.get(talk.q) for _ in range(5)]


@GROUP("a delivery limit of a classic queue")
def classic_limit(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-delivery-limit": 1})
    speaker.say(publish(1, "", talk.q, b"x"))
    for tag in (1, 2, 3):
        yield speaker.get(talk.q, no_ack=False)
        speaker.say(Basic.Reject(tag, requeue=True))


@GROUP("a delivery limit of a quorum queue")
def quorum_limit(talk: Talk) -> Lines:
    speaker = talk.open()
    dead = speaker.declare_queue(name=talk.name("dead"))
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    speaker.declare_queue(name=talk.q, exclusive=False, durable=True, arguments=arguments)
    speaker.do(Basic.Qos(prefetch_count=1))
    speaker.say(publish(1, "", talk.q, b"x"))
    for tag in (1, 2, 3):
        yield speaker.get_soon(talk.q, no_ack=False)
        speaker.say(Basic.Reject(tag, requeue=True))
    yield speaker.get_soon(dead)
    yield speaker.ask(Queue.Delete(queue=talk.q))


@GROUP("a quorum queue counts deliveries in x-delivery-count")
def quorum_count(talk: Talk) -> Lines:
    speaker = talk.open()
    arguments = {"x-queue-type": "quorum"}
    speaker.declare_queue(name=talk.q, exclusive=False, durable=True, arguments=arguments)
    speaker.do(Basic.Qos(prefetch_count=1))
    speaker.say(publish(1, "", talk.q, b"x"))
    for tag in (1, 2):
        yield speaker.get_soon(talk.q, no_ack=False)
        speaker.say(Basic.Reject(tag, requeue=True))
    yield speaker.get_soon(talk.q, no_ack=False)
    yield speaker.ask(Queue.Delete(queue=talk.q))


@GROUP("a quorum queue and a limit for the channel")
def quorum_global(talk: Talk) -> Lines:
    speaker = talk.open()
    arguments = {"x-queue-type": "quorum"}
    speaker.declare_queue(name=talk.q, exclusive=False, durable=True, arguments=arguments)
    speaker.do(Basic.Qos(prefetch_count=1, global_=True))
    yield speaker.ask(Basic.Consume(queue=talk.q, consumer_tag="t"))
    talk.open().do(Queue.Delete(queue=talk.q))
