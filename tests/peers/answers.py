"""The language of the table of answers: a row, what it asks for and what it expects."""

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from pamqp import commands
from pamqp.base import Frame as Method

from .raw import RawPeer, encode, raw_frame

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Connection, Exchange, Queue = commands.Connection, commands.Exchange, commands.Queue

RESET = "reset"
GENERATED = "amq.gen"  # any generated name
OK = "ok"  # any reply that closes nothing
Step = Method | bytes


class Row(NamedTuple):
    """One request.

    Args:
        title: what is asked for.
        before: what is done before; each step is answered before the next, octets by a confirm.
        request: methods or octets, sent at once; the first answer to them counts.
        answer: what RabbitMQ answers.
        ours: what triomq answers where it differs on purpose, as a regular expression.
        owner: what another connection does first, which stays open.
    """

    title: str
    before: Sequence[Step]
    request: Sequence[Step]
    answer: str
    ours: str | None = None
    owner: Sequence[Step] = ()


def refused(code: int, text: str, class_id: int, method_id: int) -> str:
    return f"channel.close {code} {text} [{class_id}.{method_id}]"


def failed(code: int, text: str, class_id: int, method_id: int) -> str:
    return f"connection.close {code} {text} [{class_id}.{method_id}]"


def not_found(kind: str, name: str, class_id: int, method_id: int) -> str:
    return refused(404, f"NOT_FOUND - no {kind} '{name}' in vhost '/'", class_id, method_id)


def denied(text: str, class_id: int, method_id: int) -> str:
    return refused(403, f"ACCESS_REFUSED - {text}", class_id, method_id)


def precondition(text: str, class_id: int, method_id: int) -> str:
    return refused(406, f"PRECONDITION_FAILED - {text}", class_id, method_id)


def inequivalent(argument: str, what: str, given: str, current: str, class_id: int) -> str:
    text = f"inequivalent arg '{argument}' for {what} in vhost '/': received {given} but current is {current}"
    return precondition(text, class_id, 10)


def locked(name: str, class_id: int, method_id: int) -> str:
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. "
        "It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration."
    )
    return refused(405, text, class_id, method_id)


def declare(queue: str = "", **options: object) -> Method:
    return Queue.Declare(queue=queue, **options)


def exclusive(queue: str = "", **arguments: object) -> Method:
    return Queue.Declare(
        queue=queue, exclusive=True, arguments={key.replace("_", "-"): v for key, v in arguments.items()}
    )


def exchange(name: str, kind: str = "direct", **options: object) -> Method:
    return Exchange.Declare(exchange=name, exchange_type=kind, **options)


def bare(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    """A method frame made of octets, for what no encoder would encode."""
    return raw_frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def header(class_id: int = 60, weight: int = 0, size: int = 1) -> bytes:
    return raw_frame(2, 1, struct.pack(">HHQH", class_id, weight, size, 0))


def as_octets(step: Step) -> bytes:
    return step if isinstance(step, bytes) else encode(1, step)


def prepare(peer: RawPeer, steps: Sequence[Step]) -> None:
    """Do what comes before; no step may be refused."""
    for step in steps:
        peer.socket.sendall(as_octets(step))
        assert "close" not in describe(peer)


def describe(peer: RawPeer) -> str:
    """Read one answer and put it as the table does."""
    found = peer.read()
    if found is None:
        return RESET
    method = found.decode()
    if not isinstance(method, Channel.Close | Connection.Close):
        return method.name
    text = re.sub(r"amq\.gen-[\w-]{22}", GENERATED, method.reply_text)
    kind = "channel.close" if isinstance(method, Channel.Close) else "connection.close"
    return f"{kind} {method.reply_code} {text} [{method.class_id}.{method.method_id}]"


def expected(row: Row, title: str, is_triomq: bool) -> str:
    """What must come, as a regular expression."""
    if is_triomq and row.ours is not None:
        pattern = row.ours
    elif is_triomq and title.startswith("frame:"):
        pattern = re.escape(row.answer.split(" - ")[0]) + ".*"
    else:
        pattern = re.escape(row.answer)
    return r"\w+\.\w+(?<!\.close)" if pattern == OK else pattern
