"""What released clients put into messages: the call of a function, ``["run", {"path": …, "callable": …, …}]`` in JSON.

The engine carries any message. These functions say whether released workers can run it, whether two schedules are the
same, and where the times of a schedule stand that has no frames for them.
"""

import hashlib
import json
from typing import Any, Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import PeerError

_PARTS: Final[dict[str, type]] = {"args": list, "kwargs": dict, "class_args": list, "class_kwargs": dict}


class _Call(msgspec.Struct, gc=False):
    path: str
    callable: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    class_args: list[Any] = []
    class_kwargs: dict[str, Any] = {}


class _Message(msgspec.Struct, array_like=True, gc=False):
    word: Any
    call: _Call


_check: Final = msgspec.json.Decoder(_Message).decode


def call_problem(message: bytes) -> str:
    """Return why released workers cannot run a message, which would end their connection; nothing if they can."""
    try:
        _check(message)
        return ""
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass  # a decoder with types is four times as fast, and says less
    found = _call(message)
    if found is None:
        return 'it is no call like ["run", {"path": "module", "callable": "function", "args": [], "kwargs": {}}]'
    wrong = [name for name, kind in _PARTS.items() if not isinstance(found.get(name, kind()), kind)]
    return f"its {' and '.join(wrong)} cannot be passed to a function" if wrong else ""


def call_name(message: bytes) -> str:
    """Return what a message calls, as ``module.function``; an empty text if it is no call."""
    call = _call(message)
    return "" if call is None else f"{call['path']}.{call['callable']}"


def call_arguments(message: bytes) -> dict[str, Any]:
    """Return the arguments of a call, ``args`` and ``kwargs``; empty ones if it is none."""
    call = _call(message) or {}
    args, kwargs = call.get("args", []), call.get("kwargs", {})
    return {"args": args if isinstance(args, list) else [], "kwargs": kwargs if isinstance(kwargs, dict) else {}}


def _call(message: bytes) -> dict[str, Any] | None:
    """Return the call in a message, if there is one; the word before it is never looked at."""
    value = _decode(message)
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[1], dict):
        return None
    call: dict[str, Any] = value[1]
    return call if isinstance(call.get("path"), str) and isinstance(call.get("callable"), str) else None


def _decode(message: bytes) -> Any:
    try:
        return msgspec.json.decode(message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def complete_call(message: bytes) -> bytes:
    """Return a call with all six keys, as released schedulers need it; they end if one is missing.

    Raises:
        LocalProtocolError: it is no call; ``call_problem`` says so before.
    """
    if problem := call_problem(message):
        raise LocalProtocolError(f"the message cannot be scheduled by a released scheduler: {problem}")
    word, call, *rest = _decode(message)
    return _encode([word, {name: kind() for name, kind in _PARTS.items()} | call, *rest])


def _encode(value: object) -> bytes:
    return json.dumps(value).encode()  # with the blanks that released programs write


def schedule_key(message: bytes) -> str:
    """Return what tells one schedule from another: the call, whatever its queue, its headers and its times are.

    A message that is no call is told apart by its bytes.
    """
    call = _call(message)
    if call is None:
        return hashlib.sha1(message, usedforsecurity=False).hexdigest()
    names = ("path", "callable", *_PARTS)
    same = {name: call.get(name, _PARTS.get(name, str)()) for name in names}
    return hashlib.sha1(json.dumps(same, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def with_timing(message: bytes, interval: float, cron: str) -> bytes:
    """Put the times of a schedule into its message, for a peer that has no frames for them.

    Raises:
        LocalProtocolError: the message has no place for them.
    """
    timing: dict[str, object] = {"cron": cron} if cron else {"interval_secs": interval}
    value = _decode(message)
    if isinstance(value, dict):
        return _encode(value | timing)
    if isinstance(value, list) and len(value) > 1 and isinstance(value[1], dict):
        return _encode([value[0], value[1] | timing, *value[2:]])
    raise LocalProtocolError("a schedule of the strict dialect has its times in its message, which is no JSON object")


def read_timing(message: bytes) -> tuple[float, str]:
    """Return interval and cron text of a schedule that has them in its message; 0 and nothing if it has none.

    Raises:
        PeerError: they are none.
    """
    value = _decode(message)
    inner = value[1] if isinstance(value, list) and len(value) > 1 else value
    if not isinstance(inner, dict):
        return 0.0, ""
    interval, cron = inner.get("interval_secs", 0), inner.get("cron", "")
    if isinstance(interval, bool) or not isinstance(interval, int | float) or not isinstance(cron, str | None):
        raise PeerError("interval_secs takes seconds, and cron a text")
    return float(interval), cron or ""
