"""What of a message survives from one door to another, computed from ``docs/topics/doors.toml``.

The tests hold every pair of ways to it; the page of the docs is drawn from it.
"""

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

TABLE = Path(__file__).parent.parent.parent / "docs" / "topics" / "doors.toml"

Kind = Literal["text", "number", "no word", "unmapped", "used", "own"]
Outcome = Literal["kept", "text", "number", "own", "lost"]

_OUTCOMES: dict[str, Outcome] = {"text": "text", "number": "number", "own": "own"}
"""What each kind of change comes to; all other kinds lose the property."""

_BECOMES: dict[str, str] = {"text": "header: text", "number": "header: integer"}
"""What a header is from then on."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of some properties.

    Args:
        kind: As the table explains it.
        of: The properties; one that ends with ``*`` stands for all that begin so.
        why: Where that comes from.
        but: Doors at the other end for which they are kept.
    """

    kind: Kind
    of: tuple[str, ...]
    why: str
    but: tuple[str, ...] = ()

    def is_of(self, name: str) -> bool:
        """Tell whether it is about a property."""
        return any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in self.of)


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way in or out.

    Args:
        name: Its name.
        door: The door that it is a way through; without, that has its name.
        changes: What it cannot say.
        adds: What it says by itself.
        settles: Of a way out: whether the consumer says that it is done with a message.
        sinks: Of a way in: whether messages go into a sink; of a way out: whether only those come that did.
    """

    name: str
    door: str = ""
    changes: tuple[Change, ...] = ()
    adds: tuple[str, ...] = ()
    settles: bool = True
    sinks: bool | None = None

    @property
    def through(self) -> str:
        """The door."""
        return self.door or self.name

    def change(self, name: str, other: "Way") -> Change | None:
        """Return what becomes here of a property, with another way at the other end."""
        return next((each for each in self.changes if each.is_of(name) and other.through not in each.but), None)


class Doors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"ways_in": "in", "ways_out": "out"}):
    """The table."""

    properties: tuple[str, ...]
    ways_in: tuple[Way, ...]
    ways_out: tuple[Way, ...]


def read_doors() -> Doors:
    """Read the table."""
    return msgspec.convert(tomllib.loads(TABLE.read_text(encoding="utf-8")), Doors)


def leads(way_in: Way, way_out: Way) -> bool:
    """Tell whether what is published by the one way can come out by the other."""
    return way_in.sinks is not False or not way_out.sinks


def outcome(name: str, way_in: Way, way_out: Way) -> Outcome:
    """Return what becomes of a property between two ways."""
    before = _outcome(way_in.change(name, way_out))
    # A header that has become a text goes on as texts do.
    after = _outcome(way_out.change(_BECOMES.get(before, name), way_in))
    if after == "kept":
        return before
    return after if after in ("own", "lost") or before in ("kept", "number") else before


def _outcome(change: Change | None) -> Outcome:
    return "kept" if change is None else _OUTCOMES.get(change.kind, "lost")
