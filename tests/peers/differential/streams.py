"""Steps of the questions about streams."""

from pamqp import commands

from .question import Lines
from .session import Peer, Session
from .steps import confirmed, message

Basic, Confirm, Queue = commands.Basic, commands.Confirm, commands.Queue

STREAM = {"x-queue-type": "stream"}


def declare(name: str, **options: object) -> Queue.Declare:
    """Make the declaration of a stream."""
    arguments = {**STREAM, **options.pop("arguments", {})}  # type: ignore[dict-item]
    return Queue.Declare(**{"queue": name, "durable": True, "arguments": arguments, **options})  # type: ignore[arg-type]


def filled(session: Session, count: int = 3, *, arguments: dict[str, object] | None = None) -> Peer:
    """Open a channel with a limit of 100, declare a stream, and publish 0, 1, 2 … to it with confirms."""
    writer = session.open()
    writer.do(declare(session.q, arguments=arguments or {}), Confirm.Select())
    for number in range(count):
        confirmed(writer, message(session.q, b"%d" % number))
    peer = session.open(capabilities={"consumer_cancel_notify": True})
    peer.do(Basic.Qos(prefetch_count=100))
    return peer


def append(session: Session, *bodies: bytes) -> None:
    """Publish with confirms, over a connection of its own."""
    writer = session.open()
    writer.do(Confirm.Select())
    confirmed(writer, *(message(session.q, body) for body in bodies))


def consume(name: str, offset: object = None, tag: str = "t", **options: object) -> Basic.Consume:
    """Make a consume that begins at an offset; None leaves it to the broker."""
    arguments = {} if offset is None else {"x-stream-offset": offset}
    given = {"queue": name, "consumer_tag": tag, "arguments": arguments, **options}
    return Basic.Consume(**given)  # type: ignore[arg-type]


def until(peer: Peer, body: bytes) -> Lines:
    """Yield deliveries up to the one with this body, or to silence."""
    found = ""
    while found != "nothing comes" and f" {body!r}" not in found:
        found = peer.receive()[0]
        yield found
