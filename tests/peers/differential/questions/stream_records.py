"""Records of streams: how they come in, and with which properties they go out."""

import re
import time
from datetime import UTC, datetime

from pamqp import commands

from ...raw import publish
from ..question import Asking, Group, Lines
from ..session import SOON, Session
from ..steps import confirmed, message
from ..streams import append, consume, declare, filled, until

Basic, Channel, Confirm, Queue, Tx = (
    commands.Basic,
    commands.Channel,
    commands.Confirm,
    commands.Queue,
    commands.Tx,
)

GROUP = Group("stream record")


@GROUP("confirms")
def confirms(session: Session) -> Lines:
    peer = session.open()
    peer.do(declare(session.q), Confirm.Select())
    yield from confirmed(peer, *[publish(1, "", session.q, b"x")] * 3)


@GROUP("a mandatory message")
def mandatory(session: Session) -> Lines:
    peer = session.open()
    peer.do(declare(session.q), Confirm.Select())
    yield from confirmed(peer, message(session.q, mandatory=True))


@GROUP("a message that would expire")
def expiration(session: Session) -> Lines:
    peer = filled(session, 0)
    writer = session.open()
    writer.do(Confirm.Select())
    yield from confirmed(writer, message(session.q, b"x", expiration="1"))
    time.sleep(SOON)
    peer.do(consume(session.q, "first"))
    yield from peer.receive()


PROPERTIES: dict[str, dict[str, object]] = {
    "a transient message": {"delivery_mode": 1},
    "a persistent message": {"delivery_mode": 2},
    "all properties but headers": {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
    },
    "a timestamp": {"timestamp": datetime.fromtimestamp(1_700_000_000, UTC)},
    "headers of its own": {"headers": {"a": "b", "n": 2**40, "t": True}},
    "nested headers": {"headers": {"l": ["a", "b"], "m": {"n": "o"}}},
    "the header x-stream-offset of its own": {"headers": {"x-stream-offset": 99}},
    "empty headers": {"headers": {}},
}


def with_properties(properties: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = filled(session, 0)
        writer = session.open()
        writer.do(Confirm.Select())
        confirmed(writer, message(session.q, b"x", **properties))
        peer.do(consume(session.q, "first"))
        yield from peer.receive()

    return ask


for _title, _properties in PROPERTIES.items():
    GROUP.add(_title, with_properties(_properties))


@GROUP("an empty body and a large one")
def bodies(session: Session) -> Lines:
    peer = filled(session, 0)
    writer = session.open()
    writer.do(Confirm.Select())
    confirmed(writer, publish(1, "", session.q, b""), publish(1, "", session.q, b"x" * 300_000))
    peer.do(consume(session.q, "first"))
    yield from peer.receive(2)


@GROUP("by way of an exchange, with its key")
def exchanged(session: Session) -> Lines:
    peer = filled(session, 0)
    peer.do(Queue.Bind(queue=session.q, exchange="amq.topic", routing_key=f"{session.e}.#"), Confirm.Select())
    yield from confirmed(peer, message(f"{session.e}.one", b"x", exchange="amq.topic"))
    peer.do(consume(session.q, "first"))
    yield from peer.receive()
    yield peer.ask(
        Queue.Unbind(queue=session.q, exchange="amq.topic", routing_key=f"{session.e}.#"), Queue.Delete(queue=session.q)
    )


@GROUP("a dead letter")
def dead_letter(session: Session) -> Lines:
    peer = filled(session, 0)
    classic = session.name("classic")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": session.q}
    peer.declare_queue(name=classic, arguments=arguments)
    peer.send_steps(message(classic, b"x"))
    yield peer.get_soon(classic, no_ack=False)
    peer.send_steps(Basic.Reject(1, requeue=False))
    peer.do(consume(session.q, "first"))
    yield from peer.receive()


@GROUP("a transaction")
def transaction(session: Session) -> Lines:
    peer = filled(session, 0)
    writer = session.open()
    yield writer.ask(Tx.Select())
    writer.send_steps(message(session.q, b"gone"))
    yield writer.ask(Tx.Rollback())
    writer.send_steps(message(session.q, b"stays"))
    yield writer.ask(Tx.Commit())
    peer.do(consume(session.q, "first"))
    yield from until(peer, b"stays")


@GROUP("acks in a transaction")
def transaction_acks(session: Session) -> Lines:
    filled(session, 4)
    peer = session.open()
    yield peer.ask(Tx.Select())
    peer.do(Basic.Qos(prefetch_count=2))
    yield peer.ask(consume(session.q, "first"))
    yield from peer.receive(2)
    peer.send_steps(Basic.Ack(2, multiple=True))
    yield from peer.receive_for()
    peer.send_steps(Tx.Commit())
    yield from sorted(peer.receive(3))


# Retention


@GROUP("a small bound keeps the last segment")
def retention(session: Session) -> Lines:
    peer = filled(session, 3, arguments={"x-max-length-bytes": 1})
    peer.do(consume(session.q, "first"))
    *_, found = until(peer, b"2")
    yield re.sub(r"delivery_tag=\d ", "", found)


@GROUP("flow off and on")
def flow(session: Session) -> Lines:
    peer = filled(session, 0)
    peer.do(consume(session.q, "first"))
    append(session, b"0", b"1")
    yield from peer.receive(2)
    yield peer.ask(Channel.Flow(active=True))
