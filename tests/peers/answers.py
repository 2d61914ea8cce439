"""The table of answers, ``answers.csv``: how a row is read, put to a broker, and compared with what comes.

A step is a method with its arguments (``Queue.Bind queue={q}``), ``content`` with a body and perhaps flags and values
of properties in hexadecimal, or ``frame`` with a type, a channel, a payload in hexadecimal (``-`` for none) and perhaps
another end. ``{q}`` and ``{e}`` are names of the row's own; ``amq.gen`` in an answer stands for any generated name.
"""

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pamqp import commands
from pamqp.base import Frame as Method

from .raw import RawPeer, content, encode, raw_frame

Channel, Connection = commands.Channel, commands.Connection

TABLE = Path(__file__).with_name("answers.csv")
RESET = "reset"
GENERATED = "amq.gen"
OK = "ok"  # any reply that closes nothing


class Row(NamedTuple):
    """One request.

    Args:
        owner: steps of another connection, which stays open.
        before: steps that come before; each is answered before the next, a content by a confirm.
        request: octets that are sent at once; the first answer to them counts.
        answer: the answer of RabbitMQ.
        ours: the answer of triomq where it differs on purpose, as a regular expression; empty if it does not.
    """

    owner: list[bytes]
    before: list[bytes]
    request: bytes
    answer: str
    ours: str


def table(q: str, e: str) -> dict[str, Row]:
    """Return all rows by their titles, with a queue and an exchange of those names."""
    _, *lines = TABLE.read_text(encoding="utf-8").replace("{q}", q).replace("{e}", e).splitlines()
    return dict(map(_read_row, lines))


def _read_row(line: str) -> tuple[str, Row]:
    title, owner, before, request, answer, ours = (cell.strip() for cell in line.split("|", 5))
    return title, Row(_read_steps(owner), _read_steps(before), b"".join(_read_steps(request)), answer, ours)


def _read_steps(cell: str) -> list[bytes]:
    """Encode steps; a content belongs to the step before it."""
    steps: list[bytes] = []
    for text in filter(None, cell.split("; ")):
        if text.startswith("content "):
            steps[-1] += _read_content(*text.split()[1:])
        else:
            steps.append(_read_frame(*text.split()[1:]) if text.startswith("frame ") else _read_method(text))
    return steps


def _read_content(body: str, properties: str = "0000") -> bytes:
    return content(1, body.encode(), bytes.fromhex(properties))


def _read_frame(kind: str, channel: str, payload: str, end: str = "ce") -> bytes:
    return raw_frame(int(kind), int(channel), bytes.fromhex(payload.strip("-")), bytes.fromhex(end))


def _read_method(text: str) -> bytes:
    """Encode a method such as ``@5 Queue.Declare queue=a durable=true arguments={"x-expires":5}``; @1 goes unsaid."""
    channel, text = text[1:].split(" ", 1) if text.startswith("@") else ("1", text)
    name, *words = text.split()
    pairs = (word.partition("=")[::2] for word in words)
    kind = getattr(getattr(commands, name.split(".")[0]), name.split(".")[1])
    return encode(int(channel), kind(**{argument: _read_value(value) for argument, value in pairs}))


def _read_value(text: str) -> object:
    return json.loads(text) if re.fullmatch(r"true|false|\d+|\{.*\}", text) else text


def precondition(text: str, class_id: int, method_id: int) -> str:
    return f"channel.close 406 PRECONDITION_FAILED - {text} [{class_id}.{method_id}]"


def bare(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    """A method frame made of octets, for what no encoder would encode."""
    return raw_frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def header(class_id: int = 60, weight: int = 0, size: int = 1) -> bytes:
    return raw_frame(2, 1, struct.pack(">HHQH", class_id, weight, size, 0))


def prepare(peer: RawPeer, steps: Sequence[bytes]) -> None:
    """Send each step and wait for its answer; no step may be refused."""
    for step in steps:
        peer.socket.sendall(step)
        assert "close" not in describe(peer)


def describe(peer: RawPeer) -> str:
    """Read one answer and put it as the table does."""
    found = peer.read()
    if found is None:
        return RESET
    method: Method = found.decode()
    if not isinstance(method, Channel.Close | Connection.Close):
        return method.name
    text = re.sub(r"amq\.gen-[\w-]{22}", GENERATED, method.reply_text)
    kind = "channel.close" if isinstance(method, Channel.Close) else "connection.close"
    return f"{kind} {method.reply_code} {text} [{method.class_id}.{method.method_id}]"


def expected(row: Row, title: str, is_triomq: bool) -> str:
    """What must come, as a regular expression.

    For frames that should not be, the code and its name are promised; what follows describes RabbitMQ's own parser.
    """
    if is_triomq and row.ours:
        pattern = row.ours
    elif is_triomq and title.startswith("frame:"):
        pattern = re.escape(row.answer.split(" - ")[0]) + ".*"
    else:
        pattern = re.escape(row.answer)
    return r"\w+\.\w+(?<!\.close)" if pattern == OK else pattern
