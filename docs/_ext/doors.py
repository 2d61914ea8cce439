"""Draw what survives between protocols from ``docs/topics/doors.toml``, which tests hold every pair of them to."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.append(str(Path(__file__).parent.parent.parent / "tests" / "doors"))

from carried import TABLE, Doors, Way, outcome, read_doors

HEADER = "header: "

WORDS = {
    "": "yes",
    "text": "as text",
    "number": "as number",
    "no word": "no word for it",
    "unmapped": "not carried",
    "used": "used",
    "own": "its own",
}
"""What the tables have for each kind of change."""


def listed(names: Iterable[str], doors: Doors) -> str:
    """Name properties, headers together."""
    there = list(names)
    headers = [name.removeprefix(HEADER) for name in there if name.startswith(HEADER)]
    texts = [name for name in there if not name.startswith(HEADER)]
    if headers:
        is_all = len(headers) == sum(name.startswith(HEADER) for name in doors.properties)
        texts.append("headers" if is_all else f"headers ({', '.join(headers)})")
    return ", ".join(texts)


def summary(doors: Doors, way_in: Way, way_out: Way) -> str:
    """Say in a few words what survives between two ways."""
    found: dict[str, list[str]] = {"kept": [], "text": [], "number": [], "own": [], "lost": []}
    for name in doors.properties:
        found[outcome(name, way_in, way_out)].append(name)
    if len(found["lost"]) < len(found["kept"]):
        texts = [f"all but {listed(found['lost'], doors)}" if found["lost"] else "all"]
    else:
        texts = [listed(found["kept"], doors)]
    texts += ["headers become texts"] if found["text"] else []
    texts += ["booleans become numbers"] if found["number"] else []
    texts += [f"its own {listed(found['own'], doors)}"] if found["own"] else []
    return "; ".join(texts)


class DoorsDirective(SphinxDirective):
    """A directive that draws from the table, so that its page is read again when that changes."""

    def read(self) -> Doors:
        """Return the table."""
        self.env.note_dependency(str(TABLE))
        return read_doors()

    def nodes_of(self, lines: Iterable[str]) -> list[nodes.Node]:
        """Return reStructuredText as nodes."""
        return self.parse_text_to_nodes("\n".join(lines))


class DoorPairs(DoorsDirective):
    """``.. door-pairs::`` is the table of all doors with all others."""

    def run(self) -> list[nodes.Node]:
        """Write the table: publishers from top to bottom, consumers from left to right."""
        doors = self.read()
        ways_out = [way for way in doors.ways_out if not way.door]
        rows = [
            (f"**{way_in.name}**", *(summary(doors, way_in, way_out) for way_out in ways_out))
            for way_in in doors.ways_in
            if not way_in.door
        ]
        return self.nodes_of(list_table(("from, to", *(way.name for way in ways_out)), rows))


class DoorProperties(DoorsDirective):
    """``.. door-properties:: in`` is the table of what each way in, or out, has words for."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table: properties from top to bottom, ways from left to right."""
        doors = self.read()
        ways = doors.ways_in if self.arguments[0] == "in" else doors.ways_out
        rows = [(name, *(WORDS[kind_of(way, name)] for way in ways)) for name in doors.properties]
        return self.nodes_of(list_table(("property", *(way.name for way in ways)), rows))


def kind_of(way: Way, name: str) -> str:
    """Return what a way does with a property."""
    return next((change.kind for change in way.changes if change.is_of(name)), "")


class DoorReasons(DoorsDirective):
    """``.. door-reasons:: in`` lists where each loss comes from."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the list."""
        doors = self.read()
        ways = doors.ways_in if self.arguments[0] == "in" else doors.ways_out
        return self.nodes_of(line for way in ways for line in reasons(way, doors))


def reasons(way: Way, doors: Doors) -> Iterator[str]:
    """Write a list of what a way changes, and why."""
    for change in way.changes:
        names = listed((name for name in doors.properties if change.is_of(name)), doors)
        kept = f" Kept towards {', '.join(change.but)}." if change.but else ""
        why = change.why.replace("`", "``")
        yield f"- *{way.name}*, {names}, {WORDS[change.kind]}: {why}.{kept}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("door-pairs", DoorPairs)
    app.add_directive("door-properties", DoorProperties)
    app.add_directive("door-reasons", DoorReasons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
