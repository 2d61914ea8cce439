"""One line for each event, for people or for programs.

An event is a few fixed words and fields: ``log.info("connection opened", extra={"fields": {"peer": peer}})``, with the
standard library's ``logging`` and nothing of ours, so that every package can log and every program can
listen. Text from a peer is in fields alone, never in the words: so a name with a newline in it forges no line, in
text or in JSON.
"""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

import msgspec

if TYPE_CHECKING:
    from triomq.app.config import Log


class TextLines(logging.Formatter):
    """Lines for people: ``2026-01-31T12:00:00.123Z INFO connection opened peer=127.0.0.1:5001 user=ada``.

    A traceback follows its event, each of its lines behind four spaces.
    """

    def format(self, record: logging.LogRecord) -> str:
        words = [_moment(record), record.levelname, _visible(record.getMessage())]
        words += [f"{key}={_quoted(str(value))}" for key, value in _fields(record).items()]
        lines = [" ".join(words), *(f"    {_visible(line)}" for line in _traceback(record).splitlines())]
        return "\n".join(lines)


class JSONLines(logging.Formatter):
    """Lines for programs: an object with ``time``, ``level``, ``logger``, ``event``, and the fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _encodable(record.getMessage()),
        }
        for key, value in _fields(record).items():
            event.setdefault(key, value if isinstance(value, int | float) else _encodable(str(value)))
        if traceback := _traceback(record):
            event["traceback"] = _encodable(traceback)
        return msgspec.json.encode(event).decode()


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that ``set_up_logging`` adds, and replaces when it is called again."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the base class calls it so
        """Say so, if anybody can read it: nothing that cannot be logged may end what wanted to log it."""
        with suppress(Exception):
            super().handleError(record)


def set_up_logging(log: "Log", stream: TextIO | None = None) -> None:
    """Log as configured from now on; a second call replaces the first.

    Args:
        log: The level and the format.
        stream: Where to write; standard error by default.
    """
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Handler):
            root.removeHandler(handler)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JSONLines() if log.format == "json" else TextLines())
    root.addHandler(handler)
    logging.getLogger("triomq").setLevel(log.level.upper())


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _traceback(record: logging.LogRecord) -> str:
    """Return the traceback of an event, which may be one of another process: text, in ``extra["traceback"]``."""
    if record.exc_info:
        return logging.Formatter().formatException(record.exc_info)
    found = getattr(record, "traceback", "")
    return found if isinstance(found, str) else ""


def _visible(text: str) -> str:
    """Escape all that is not printable: newlines, control characters, changes of the direction of writing."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _quoted(value: str) -> str:
    """Quote a value if it has spaces or the like, so that a reader finds its end."""
    if value and value.isprintable() and not any(char in value for char in ' "='):
        return value
    return '"' + _visible(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _encodable(text: str) -> str:
    """Escape what UTF-8 cannot encode, as in names that a peer did not send in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
