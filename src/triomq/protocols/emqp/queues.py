"""The queues of a worker's INFORM: each with a weight, in all the ways in which they have been written.

The specification's example is ``[40, 'email']``, its text says that such arrays are separated by commas, and the
released worker sends a JSON array of them, which is what we write.
"""

import re
from typing import Final, NamedTuple

import msgspec

from triomq.protocols.emqp.codes import PeerError

MOST: Final = 1000
"""Queues of one worker: more than anybody names, few enough to subscribe to in one turn."""

LONGEST_NAME: Final = 255
"""Bytes of the name of a queue or a topic, as AMQP's names have, since its clients use the same ones."""


class WeightedQueue(NamedTuple):
    """A queue that a worker takes jobs from; of several workers those with the highest weight come first."""

    weight: int
    name: str


DEFAULT_QUEUE: Final = WeightedQueue(10, "default")
"""Of a worker that names none, and the weight of a queue without one."""

_QUOTES: Final = str.maketrans("'‘’“”()", '"""""[]')
_Value = list[list[int | str] | int | str]


def encode_queues(queues: tuple[WeightedQueue, ...]) -> bytes:
    """Write queues as the released worker does, empty for the default one."""
    items = ", ".join(f"[{weight}, {msgspec.json.encode(name).decode()}]" for weight, name in queues)
    return f"[{items}]".encode() if items else b""


def check_name(frame: bytes, what: str = "queue") -> str:
    """Return the name in a frame.

    Raises:
        PeerError: it is too long, or not UTF-8.
    """
    if len(frame) > LONGEST_NAME:
        raise PeerError(f"the name of a {what} has {len(frame)} bytes; at most {LONGEST_NAME} are allowed")
    try:
        return frame.decode()
    except UnicodeDecodeError:
        raise PeerError(f"the name of a {what} is not UTF-8") from None


def parse_queues(frame: bytes) -> tuple[WeightedQueue, ...]:
    """Read a worker's queues, one of each name; none stand for the default one.

    Raises:
        PeerError: they cannot be read in any of the known ways.
    """
    if len(frame) > MOST * LONGEST_NAME:
        raise PeerError(f"queues in {len(frame)} bytes; at most {MOST * LONGEST_NAME} are allowed")
    try:
        text = frame.decode().strip()
    except UnicodeDecodeError:
        raise PeerError("the queues are not UTF-8") from None
    if not text:
        return (DEFAULT_QUEUE,)
    found = {queue.name: queue for queue in map(_queue, _values(text))}
    if len(found) > MOST:
        raise PeerError(f"{len(found)} queues; at most {MOST} are allowed")
    return tuple(found.values()) or (DEFAULT_QUEUE,)


def _values(text: str) -> list[list[int | str] | int | str]:
    """Return pairs and names."""
    plain = text.translate(_QUOTES)
    for candidate in (text, f"[{text}]", plain, f"[{plain}]"):
        try:
            values = msgspec.json.decode(candidate, type=_Value)
        except (msgspec.MsgspecError, RecursionError):
            continue
        is_pair = len(values) == 2 and type(values[0]) is int and type(values[1]) is str
        return [[values[0], values[1]]] if is_pair else values  # type: ignore[list-item]  # they were looked at
    if re.search(r"[\[\]\"{}]", plain):
        raise PeerError(f'queues {text[:80]!r}; write them like [[10, "default"]]')
    return [name for part in text.split(",") if (name := part.strip())]


def _queue(value: list[int | str] | int | str) -> WeightedQueue:
    """Read one queue."""
    weight, name = value if isinstance(value, list) and len(value) == 2 else (DEFAULT_QUEUE.weight, value)
    if not isinstance(weight, int) or not isinstance(name, str) or not name or abs(weight) >= 1 << 31:
        raise PeerError(f'{value!r} is no queue; write it like [10, "default"]'[:200])
    return WeightedQueue(weight, check_name(name.encode("utf-8", "replace")))
