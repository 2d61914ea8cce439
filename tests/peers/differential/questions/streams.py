"""Streams: what they are declared with, and what a queue does that they do not."""

from pamqp import commands

from ..question import Asking, Group, Lines
from ..session import Session
from ..streams import append, consume, declare, filled

Basic, Queue = commands.Basic, commands.Queue

GROUP = Group("stream")


def declared(**options: object) -> Asking:
    def ask(session: Session) -> Lines:
        yield session.open().ask(declare(session.q, **options))
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


ARGUMENTS: list[dict[str, object]] = [
    {},
    *({"x-max-age": age} for age in ("1Y", "2M", "7D", "24h", "5m", "30s", "0s", "001h", "1000000Y")),
    *({"x-max-age": age} for age in ("", "1", "h", "1w", "1H", "1y", "-1h", "1.5h", " 1h", "1h ", "1h30m", "bogus")),
    *({"x-max-age": age} for age in (3600, True, None, 1.5)),
    *({"x-max-length-bytes": size} for size in (0, 1, 1000, 20_000_000_000, 2**62, -1, "1000", True, 1.5)),
    *({"x-stream-max-segment-size-bytes": size} for size in (0, 1, 500_000_000, 3_000_000_000, 3_000_000_001)),
    *({"x-stream-max-segment-size-bytes": size} for size in (-1, "1000", True, 1.5)),
    *({"x-initial-cluster-size": size} for size in (0, 1, 3, -1, "3")),
    *({"x-queue-leader-locator": locator} for locator in ("client-local", "balanced", "nope", 5)),
    {"x-max-length": 10},
    {"x-max-length": "bogus"},
    {"x-message-ttl": 1000},
    {"x-expires": 60_000},
    {"x-max-priority": 5},
    {"x-overflow": "drop-head"},
    {"x-overflow": "reject-publish"},
    {"x-dead-letter-exchange": "amq.fanout"},
    {"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "k"},
    {"x-dead-letter-routing-key": "k"},
    {"x-dead-letter-strategy": "at-least-once"},
    {"x-delivery-limit": 3},
    {"x-single-active-consumer": True},
    {"x-single-active-consumer": False},
    {"x-consumer-timeout": 10_000},
    {"x-queue-mode": "lazy"},
    {"x-queue-version": 2},
    {"x-queue-master-locator": "client-local"},
    {"x-max-in-memory-length": 5},
    {"x-quorum-initial-group-size": 3},
    {"x-cancel-on-ha-failover": True},
    {"x-anything": {"of": ["any", "type"]}},
    {"x-max-age": "1h", "x-max-length-bytes": 1_000_000, "x-stream-max-segment-size-bytes": 1000},
    {"x-max-length-bytes": -1, "x-max-age": "bogus"},
    {"x-max-length": 10, "x-max-priority": 5, "x-message-ttl": 1000},
]
for _arguments in ARGUMENTS:
    _text = ", ".join(f"{name}={value!r}" for name, value in _arguments.items())
    GROUP.add(f"declare with {_text or 'nothing'}", declared(arguments=_arguments))

for _bits in (
    {"durable": False},
    {"exclusive": True},
    {"auto_delete": True},
    {"durable": False, "exclusive": True},
    {"durable": False, "auto_delete": True},
    {"exclusive": True, "auto_delete": True},
    {"durable": False, "exclusive": True, "auto_delete": True},
):
    GROUP.add(f"declare with {', '.join(f'{name}={value}' for name, value in _bits.items())}", declared(**_bits))
GROUP.add("declare, not durable and with x-max-priority", declared(durable=False, arguments={"x-max-priority": 5}))


@GROUP("declare without a name")
def unnamed(session: Session) -> Lines:
    yield session.open().ask(declare(""))


@GROUP("arguments of streams for other types")
def for_others(session: Session) -> Lines:
    for kind in ("classic", "quorum"):
        for name, value in (("x-max-age", "1h"), ("x-stream-max-segment-size-bytes", 1000)):
            yield session.open().ask(declare(session.q, arguments={"x-queue-type": kind, name: value}))


PAIRS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "the same": ({"x-max-age": "1h"}, {"x-max-age": "1h"}),
    "x-max-age": ({"x-max-age": "1h"}, {"x-max-age": "2h"}),
    "x-max-age in another unit": ({"x-max-age": "1h"}, {"x-max-age": "60m"}),
    "x-max-age left out": ({"x-max-age": "1h"}, {}),
    "x-max-age added": ({}, {"x-max-age": "1h"}),
    "x-max-length-bytes": ({"x-max-length-bytes": 1000}, {"x-max-length-bytes": 2000}),
    "x-max-length-bytes left out": ({"x-max-length-bytes": 1000}, {}),
    "x-max-length-bytes added": ({}, {"x-max-length-bytes": 1000}),
    "x-stream-max-segment-size-bytes": (
        {"x-stream-max-segment-size-bytes": 1000},
        {"x-stream-max-segment-size-bytes": 2000},
    ),
    "x-stream-max-segment-size-bytes left out": ({"x-stream-max-segment-size-bytes": 1000}, {}),
    "x-stream-max-segment-size-bytes added": ({}, {"x-stream-max-segment-size-bytes": 1000}),
    "x-initial-cluster-size": ({"x-initial-cluster-size": 1}, {"x-initial-cluster-size": 3}),
    "x-initial-cluster-size left out": ({"x-initial-cluster-size": 1}, {}),
    "x-queue-leader-locator": ({"x-queue-leader-locator": "balanced"}, {"x-queue-leader-locator": "client-local"}),
    "as classic": ({}, {"x-queue-type": "classic"}),
    "as quorum": ({}, {"x-queue-type": "quorum"}),
    "an argument that is not known": ({"x-mine": 1}, {"x-mine": 2}),
    "with one that it does not take": ({}, {"x-max-priority": 5}),
}


def redeclared(first: dict[str, object], second: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.do(declare(session.q, arguments=first))
        yield peer.ask(declare(session.q, arguments=second))
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


for _title, (_first, _second) in PAIRS.items():
    GROUP.add(f"redeclare, {_title}", redeclared(_first, _second))


@GROUP("redeclare without its type")
def untyped(session: Session) -> Lines:
    peer = session.open()
    peer.do(declare(session.q))
    yield peer.ask(Queue.Declare(queue=session.q, durable=True))


@GROUP("redeclare with other bits")
def other_bits(session: Session) -> Lines:
    session.open().do(declare(session.q))
    for bits in ({"durable": False}, {"exclusive": True}, {"auto_delete": True}):
        yield session.open().ask(declare(session.q, **bits))


@GROUP("a classic queue redeclared as a stream")
def classic_before(session: Session) -> Lines:
    peer = session.open()
    peer.declare_queue(name=session.q, exclusive=False, durable=True)
    yield peer.ask(declare(session.q))
    session.open().ask(Queue.Delete(queue=session.q))


# What a queue does, and a stream does not


@GROUP("a get")
def get(session: Session) -> Lines:
    yield filled(session).get(session.q)


@GROUP("a get with an ack")
def get_acked(session: Session) -> Lines:
    yield filled(session).get(session.q, no_ack=False)


@GROUP("a get of an empty stream")
def get_empty(session: Session) -> Lines:
    yield filled(session, 0).get(session.q)


@GROUP("a purge")
def purge(session: Session) -> Lines:
    yield filled(session).ask(Queue.Purge(queue=session.q))


@GROUP("a delete")
def delete(session: Session) -> Lines:
    yield filled(session).ask(Queue.Delete(queue=session.q))


@GROUP("a delete if empty of one that is not")
def delete_if_empty(session: Session) -> Lines:
    peer = filled(session)
    yield peer.ask(Queue.Delete(queue=session.q, if_empty=True))
    session.open().ask(Queue.Delete(queue=session.q))


@GROUP("a delete if empty of one that is")
def delete_empty(session: Session) -> Lines:
    yield filled(session, 0).ask(Queue.Delete(queue=session.q, if_empty=True))


@GROUP("a delete if unused while it has a consumer")
def delete_if_unused(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "next"))
    yield peer.ask(Queue.Delete(queue=session.q, if_unused=True))


@GROUP("a delete if unused of one that is")
def delete_unused(session: Session) -> Lines:
    yield filled(session).ask(Queue.Delete(queue=session.q, if_unused=True))


@GROUP("a delete while it has consumers")
def delete_used(session: Session) -> Lines:
    peer, other = filled(session), session.open(capabilities={"consumer_cancel_notify": True})
    other.do(Basic.Qos(prefetch_count=10), consume(session.q, "next"))
    yield peer.ask(Queue.Delete(queue=session.q))
    yield from other.receive()


@GROUP("deleted and declared again, it begins with 0")
def declared_again(session: Session) -> Lines:
    peer = filled(session)
    peer.do(Queue.Delete(queue=session.q), declare(session.q))
    append(session, b"new")
    yield peer.ask(consume(session.q, "first"))
    yield from peer.receive()
