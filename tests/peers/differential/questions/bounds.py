"""Queues with bounds: what goes when they are full."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..saying import confirmed, message
from ..talk import Talk

Basic, Confirm, Queue = commands.Basic, commands.Confirm, commands.Queue

GROUP = Group("bound")


def filled(bodies: list[bytes], **arguments: object) -> Asking:
    """What is answered to each publish, what is left, and what became of the rest."""

    def ask(talk: Talk) -> Lines:
        speaker = talk.open()
        dead = speaker.declare_queue(name=talk.name("dead"))
        options = {name.replace("_", "-"): value for name, value in arguments.items()}
        if "x-dead-letter-exchange" in options:
            options["x-dead-letter-routing-key"] = dead
        speaker.declare_queue(name=talk.q, arguments=options)
        speaker.do(Confirm.Select())
        for number, body in enumerate(bodies):
            yield from confirmed(speaker, message(talk.q, body, priority=number))
        yield from [speaker.get(talk.q) for _ in range(len(bodies) + 1)]
        if "x-dead-letter-exchange" in options:
            yield speaker.get_soon(dead)
            yield from [speaker.get(dead) for _ in range(len(bodies))]

    return ask


THREE = [b"1", b"2", b"3"]
for _overflow in (None, "drop-head", "reject-publish", "reject-publish-dlx"):
    for _title, _extra in {"": {}, ", with dead letters": {"x_dead_letter_exchange": ""}}.items():
        _options: dict[str, object] = {"x_overflow": _overflow, **_extra} if _overflow else dict(_extra)
        GROUP.add(f"two messages, overflow {_overflow}{_title}", filled(THREE, x_max_length=2, **_options))
        GROUP.add(f"no message, overflow {_overflow}{_title}", filled(THREE, x_max_length=0, **_options))
        GROUP.add(
            f"ten octets, overflow {_overflow}{_title}",
            filled([b"12345", b"67890", b"abc"], x_max_length_bytes=10, **_options),
        )
GROUP.add("a message larger than the queue", filled([b"1", b"2" * 20, b"3"], x_max_length_bytes=10))
GROUP.add(
    "a message larger than the queue, which rejects",
    filled([b"1", b"2" * 20], x_max_length_bytes=10, x_overflow="reject-publish"),
)
GROUP.add("both bounds", filled([b"1", b"2", b"3456789"], x_max_length=2, x_max_length_bytes=8))
GROUP.add("a queue with priorities drops from its tail end", filled(THREE, x_max_length=2, x_max_priority=5))
GROUP.add(
    "a queue with priorities that rejects", filled(THREE, x_max_length=2, x_max_priority=5, x_overflow="reject-publish")
)


@GROUP("only what is ready counts")
def ready(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-max-length": 1})
    for body in THREE:
        speaker.say(message(talk.q, body))
        yield speaker.get(talk.q, no_ack=False)
    yield speaker.ask(Basic.Nack(0, multiple=True, requeue=True), Basic.Qos())
    yield from [speaker.get(talk.q) for _ in range(4)]


@GROUP("a consumer takes it and a queue of nothing passes it on")
def nothing(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-max-length": 0})
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_ack=True))
    speaker.say(message(talk.q, b"1"))
    yield speaker.hush()[0]
    yield speaker.ask(Queue.Declare(queue=talk.q, passive=True))


@GROUP("a consumer takes it and a queue of nothing that rejects")
def nothing_rejects(talk: Talk) -> Lines:
    speaker = talk.open()
    speaker.declare_queue(name=talk.q, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    speaker.do(Basic.Consume(queue=talk.q, consumer_tag="t", no_ack=True), Confirm.Select())
    speaker.say(message(talk.q, b"1"))
    yield from sorted(line.partition(" multiple")[0] for line in speaker.hush())
