"""A path as a terminal shows it: a line with bars for each stay, in proportion, and a line for each event."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from triomq.analytics import MessagePath, PathEvent, Stay
from triomq.app.cli.output import printable

_NAMES = 40
"""Characters of a name: the bars want the rest of a line of 100."""

EVENTS_SHOWN = 200
"""Events that are listed, the first and the last ones: a message that came back a thousand times has many alike."""

_BARS = {"wait": ("━", "-"), "run": ("█", "#")}
"""How time is drawn, and how where there are no such letters."""


def view_path(path: MessagePath, width: int, *, plain: bool) -> Group:
    """Draw a path.

    Args:
        path: The path.
        width: Columns of the terminal.
        plain: Whether it has letters of ASCII alone.
    """
    parts: list[RenderableType] = [
        Text(f"{_moment(path.began)} UTC, {seconds_text((path.ended - path.began).total_seconds())} in all\n"),
        _timeline(path, width, plain=plain),
        Text(),
        _events(path),
    ]
    if path.not_followed:
        ids = ", ".join(_short(text) for text in path.not_followed)
        parts.append(Text(f"\nnot followed, since too many messages have it: {ids}"))
    return Group(*parts)


def view_choices(paths: Sequence[MessagePath]) -> Table:
    """List the beginnings of several paths."""
    table = Table(box=None, pad_edge=False)
    for column in ("message", "from (UTC)", "took", "outcome", "message_id"):
        table.add_column(column, no_wrap=True)
    for path in paths:
        first, last = path.stays[0], path.stays[-1]
        took = seconds_text((path.ended - path.began).total_seconds())
        names = [_short(first.name), _moment(path.began), took, last.outcome, _short(first.message_id or "")]
        table.add_row(*map(Text, names))
    return table


def _timeline(path: MessagePath, width: int, *, plain: bool) -> Table:
    names = [_short(stay.name) for stay in path.stays]
    texts = [stay.summary(seconds_text) for stay in path.stays]
    columns = max(20, width - max(map(len, names)) - max(map(len, texts)) - 4)
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    end = seconds_text((path.ended - path.began).total_seconds())
    table.add_row("", Text(f"0{end:>{columns - 1}}", style="dim"), "")
    for stay, name, text in zip(path.stays, names, texts, strict=True):
        style = "red" if stay.has_failed else ""
        table.add_row(Text(name, style="bold"), bar(stay, path, columns, plain=plain), Text(text, style=style))
    return table


def bar(stay: Stay, path: MessagePath, columns: int, *, plain: bool) -> Text:
    """Draw the time of a stay on the line of its path's; what took no time at all is one letter wide."""
    letters, styles = [" "] * columns, [""] * columns
    whole = (path.ended - path.began).total_seconds() or 1.0
    for span in stay.spans():
        begin = (span.began - path.began).total_seconds() / whole * columns
        end = ((span.ended or path.ended) - path.began).total_seconds() / whole * columns
        first = min(max(int(begin), 0), columns - 1)
        for place in range(first, max(first + 1, min(round(end), columns))):
            letters[place] = _BARS[span.kind][plain]
            styles[place] = "yellow" if span.kind == "wait" else "red" if stay.has_failed else "green"
    text = Text()
    for letter, style in zip(letters, styles, strict=True):
        text.append(letter, style)
    return text


def _events(path: MessagePath) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("time (UTC)", "after", "where", "event", ""):
        table.add_column(column, justify="right" if column == "after" else "left", no_wrap=column != "")
    for stay, event in _shown_events(path):
        if event is None or stay is None:
            table.add_row("…")
            continue
        after = seconds_text((event.ts - path.began).total_seconds())
        kind = Text(event.kind, style="red" if event.is_failure else "")
        table.add_row(
            _moment(event.ts), after, Text(_short(stay.name)), kind, Text(", ".join(map(printable, event.details())))
        )
    return table


def _shown_events(path: MessagePath) -> Iterator[tuple[Stay | None, PathEvent | None]]:
    events = [(stay, event) for stay in path.stays for event in stay.events]
    # Those of one node stand in the order of their numbers already; sorting is stable.
    events.sort(key=lambda found: found[1].ts)
    yield from events[:EVENTS_SHOWN]
    if len(events) > EVENTS_SHOWN:
        yield None, None
        yield from events[max(EVENTS_SHOWN, len(events) - EVENTS_SHOWN // 2) :]


def seconds_text(seconds: float) -> str:
    """Return a time in the unit that fits: ``1.23 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value := seconds / size) >= 1:
            return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


def _short(name: str) -> str:
    name = printable(name[: 2 * _NAMES])
    return name if len(name) <= _NAMES else f"{name[: _NAMES - 1]}…"
