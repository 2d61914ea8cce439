"""The path of one message as a page with a picture: bars in proportion, and the events below it.

The picture is SVG that stands in the page; nothing here needs a script, so the page's policy allows none.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from triomq.analytics.page import words
from triomq.analytics.page.needed import require_page
from triomq.analytics.page.report import open_templates, read_part, write_whole
from triomq.analytics.path_parts import MessagePath, PathEvent, Stay

BARS_FROM: Final = 250.0
BARS_TO: Final = 760.0
"""Where bars begin and end, in the picture's own units, of which it is 1,000 wide; before them are names."""

ROW: Final = 34
"""Height of a stay's line."""

THINNEST: Final = 2.0
"""Width of a bar for what took no time at all."""

EVENTS_SHOWN: Final = 1000
"""Events that are listed."""


class DrawnSpan(msgspec.Struct, frozen=True):
    """A bar."""

    kind: Literal["wait", "run"]
    x: float
    width: float
    is_open: bool
    text: str


class DrawnStay(msgspec.Struct, frozen=True):
    """A line of the picture, and where it is joined to the one that it moved from."""

    name: str
    whole: str
    y: int
    text: str
    has_failed: bool
    spans: Sequence[DrawnSpan]
    came: tuple[float, int] | None


class ShownEvent(msgspec.Struct, frozen=True):
    """A row of the table."""

    time: str
    after: str
    where: str
    kind: str
    is_failure: bool
    details: str


def draw_path(path: MessagePath, wanted: str, file: Path) -> None:
    """Draw a page of a path; it appears whole or not at all.

    Args:
        path: The path.
        wanted: What was searched for, for the title.
        file: The page.

    Raises:
        ReportError: What draws a page is not installed.
        OSError: The page cannot be written.
    """
    require_page()
    stays = list(_drawn(path))
    events = [(stay, event) for stay in path.stays for event in stay.events]
    events.sort(key=lambda found: found[1].ts)
    text = (
        open_templates()
        .get_template("path.html.j2")
        .render(
            title=words.shown(wanted),
            began=_moment(path.began),
            took=words.duration((path.ended - path.began).total_seconds()),
            stays=stays,
            height=ROW * len(stays) + 40,
            left=BARS_FROM,
            right=BARS_TO,
            events=[_shown(stay, event, path.began) for stay, event in events[:EVENTS_SHOWN]],
            more=max(0, len(events) - EVENTS_SHOWN),
            not_followed=[words.shown(text) for text in path.not_followed],
            style=read_part("path.css"),
        )
    )
    write_whole(file, text)


def _drawn(path: MessagePath) -> Iterator[DrawnStay]:
    whole = (path.ended - path.began).total_seconds() or 1.0

    def x_of(time: datetime) -> float:
        part = (time - path.began).total_seconds() / whole
        return round(BARS_FROM + (BARS_TO - BARS_FROM) * min(max(part, 0.0), 1.0), 2)

    y_of: dict[object, int] = {}
    for number, stay in enumerate(path.stays):
        first, y = stay.events[0], 30 + ROW * number
        spans = [
            DrawnSpan(
                span.kind,
                x_of(span.began),
                max(round(x_of(span.ended or path.ended) - x_of(span.began), 2), THINNEST),
                span.ended is None,
                f"{span.kind} {words.duration(span.seconds)}" if span.ended else f"{span.kind}, its end is not known",
            )
            for span in stay.spans()
        ]
        from_y = None if stay.moved_from is None else y_of.get((first.node, first.domain, *stay.moved_from))
        came = None if from_y is None else (x_of(stay.began), from_y)
        name = words.shown(stay.name, 30)
        yield DrawnStay(name, words.shown(stay.name), y, stay.summary(words.duration), stay.has_failed, spans, came)
        y_of[first.place] = y


def _shown(stay: Stay, event: PathEvent, began: datetime) -> ShownEvent:
    after = words.duration((event.ts - began).total_seconds())
    details = ", ".join(words.shown(text) for text in event.details())
    return ShownEvent(_moment(event.ts), after, words.shown(stay.name), event.kind, event.is_failure, details)


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
