"""Queues with bounds: what goes when they are full."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..session import Session
from ..steps import confirmed, message

Basic, Confirm, Queue = commands.Basic, commands.Confirm, commands.Queue

GROUP = Group("bound")


def filled(bodies: list[bytes], **arguments: object) -> Asking:
    """What is answered to each publish, what is left, and what became of the rest."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        dead = peer.declare_queue(name=session.name("dead"))
        options = {name.replace("_", "-"): value for name, value in arguments.items()}
        if "x-dead-letter-exchange" in options:
            options["x-dead-letter-routing-key"] = dead
        peer.declare_queue(name=session.q, arguments=options)
        peer.do(Confirm.Select())
        for number, body in enumerate(bodies):
            yield from confirmed(peer, message(session.q, body, priority=number))
        yield from [peer.get(session.q) for _ in range(len(bodies) + 1)]
        if "x-dead-letter-exchange" in options:
            yield peer.get_soon(dead)
            yield from [peer.get(dead) for _ in range(len(bodies))]

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
def ready(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-max-length": 1})
    for body in THREE:
        peer.send_steps(message(session.q, body))
        yield peer.get(session.q, no_ack=False)
    yield peer.ask(Basic.Nack(0, multiple=True, requeue=True), Basic.Qos())
    yield from [peer.get(session.q) for _ in range(4)]


@GROUP("a consumer takes it and a queue of nothing passes it on")
def nothing(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-max-length": 0})
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_ack=True))
    peer.send_steps(message(session.q, b"1"))
    yield peer.receive_for()[0]
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))


@GROUP("a consumer takes it and a queue of nothing that rejects")
def nothing_rejects(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    peer.do(Basic.Consume(queue=session.q, consumer_tag="t", no_ack=True), Confirm.Select())
    peer.send_steps(message(session.q, b"1"))
    yield from sorted(line.partition(" multiple")[0] for line in peer.receive_for())
