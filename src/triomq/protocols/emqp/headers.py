"""The headers of REQUEST, PUBLISH and SCHEDULE (section Headers): names and numbers, with commas between them.

Released workers look for ``reply-requested``, ``nohaste``, ``timeout:`` and ``run_count:`` anywhere in the frame, and
fail at a number that is none. So a header that would be misread there is refused, whoever it is for.
"""

import math
import re
from functools import lru_cache
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import PeerError

LONGEST: Final = 4096
"""Bytes of the frame: all headers that there are take fewer than a hundred."""

_REMEMBERED: Final = 256  # bytes of a frame that is worth remembering
_FLAGS: Final = {"reply-requested": "reply_requested", "guarantee": "guarantee", "nohaste": "nohaste"}
_NUMBERS: Final = {"retry-count": "retry_count", "timeout": "timeout", "run_count": "run_count", "interval": "interval"}
_SECONDS: Final = ("timeout", "interval")
_MISREAD: Final = ("reply-requested", "nohaste", "timeout:", "run_count:")
_MOST: Final = 1 << 31


class Headers(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the headers of a message ask for; ``make_headers`` and ``parse_headers`` make them.

    Args:
        frame: how they stand on the wire, unknown ones among them.
        reply_requested: whether the sender wants the worker's answer.
        guarantee: whether the job is to be given to another worker if the first one is lost.
        retry_count: how often a failed job is tried again.
        timeout: seconds after which a job is ended; 0 is never.
        nohaste: whether a schedule begins with a pause.
        run_count: how often a schedule runs; 0 is without end.
        interval: seconds between jobs of a SCHEDULE that has no other place for it.
    """

    frame: bytes = b""
    reply_requested: bool = False
    guarantee: bool = False
    retry_count: int = 0
    timeout: float = 0.0
    nohaste: bool = False
    run_count: int = 0
    interval: float = 0.0

    def replying(self) -> "Headers":
        """Return these with ``reply-requested``: the only sign that a released worker gives that it is done."""
        return (
            self if self.reply_requested else parse_headers(b",".join(filter(None, (b"reply-requested", self.frame))))
        )


NO_HEADERS: Final = Headers()


def make_headers(
    *,
    reply_requested: bool = False,
    guarantee: bool = False,
    retry_count: int = 0,
    timeout: float = 0.0,
    nohaste: bool = False,
    run_count: int = 0,
) -> Headers:
    """Make headers in the order that the released client has.

    Args:
        reply_requested: see ``Headers``, also for the others.
        guarantee: as there.
        retry_count: as there.
        timeout: as there; written as whole seconds, rounded up.
        nohaste: as there.
        run_count: as there.

    Raises:
        LocalProtocolError: a number is below 0, or too large.
    """
    seconds = math.ceil(timeout) if 0 <= timeout < _MOST else -1
    numbers = {"retry-count": retry_count, "timeout": seconds, "run_count": run_count}
    for name, number in numbers.items():
        if not 0 <= number < _MOST:
            raise LocalProtocolError(f"{name} must be from 0 to {_MOST - 1}")
    flags = {"reply-requested": reply_requested, "guarantee": guarantee, "nohaste": nohaste}
    names = [name for name, is_set in flags.items() if is_set]
    names += [f"{name}:{number}" for name, number in numbers.items() if number]
    return parse_headers(",".join(names).encode())


def parse_headers(frame: bytes) -> Headers:
    """Read the frame of headers; what was read is remembered, since publishers repeat themselves.

    A JSON object or array is read as well, as one table of the specification calls the frame a dictionary.

    Raises:
        RemoteProtocolError: it is none, or released workers would misread it.
    """
    if not frame:
        return NO_HEADERS
    if len(frame) > LONGEST:
        raise PeerError(f"headers of {len(frame)} bytes; at most {LONGEST} are allowed")
    return _remembered(frame) if len(frame) <= _REMEMBERED else _parse(frame)


def _parse(frame: bytes) -> Headers:
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        raise PeerError("the headers are not UTF-8") from None
    if text.startswith(("{", "[")):
        text = _from_json(frame)
    found: dict[str, bool | float] = {}
    names = [name for part in text.split(",") if (name := part.strip())]
    for place, name in enumerate(names):
        key, colon, value = name.partition(":")
        if key in _NUMBERS and colon:
            number = found[_NUMBERS[key]] = _number(key, value.strip())
            names[place] = f"{key}:{math.ceil(number)}"  # whole seconds, since released workers read no others
        elif name in _FLAGS:
            found[_FLAGS[name]] = True
        elif any(word in name for word in _MISREAD):
            raise PeerError(f"header {name[:80]!r} is unknown, and released workers would take it for another")
    return msgspec.convert({"frame": ",".join(names).encode(), **found}, Headers)


_remembered = lru_cache(maxsize=1024)(_parse)


def _number(name: str, value: str) -> float:
    """Read the number of a header; only seconds may have a fraction."""
    pattern = r"[0-9]{1,10}(\.[0-9]{1,9})?" if name in _SECONDS else r"[0-9]{1,10}"
    if not re.fullmatch(pattern, value, re.ASCII) or float(value) >= _MOST:
        raise PeerError(f"header {name}:{value[:40]!r} needs a number below {_MOST}")
    return float(value) if name in _SECONDS else int(value)


def _from_json(frame: bytes) -> str:
    """Write a JSON object, or an array of names, as the list that it should have been."""
    try:
        value = msgspec.json.decode(frame, type=dict[str, bool | int | float | str | None] | list[str])
    except (msgspec.MsgspecError, RecursionError):
        raise PeerError(f"the headers begin with {frame[:40]!r}, and are neither a list nor JSON") from None
    if isinstance(value, list):
        return ",".join(value)
    flags = [name for name, said in value.items() if name in _FLAGS and said is True]
    return ",".join(flags + [f"{name}:{said}" for name, said in value.items() if name not in _FLAGS])
