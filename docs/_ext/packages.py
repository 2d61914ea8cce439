"""Draw the packages, their parts and their budgets from ``docs/topics/packages.toml``, which tests hold the code to."""

import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from amqp_tables import list_table
from docutils import nodes
from pictures import LINE, WIDTH, Picture, lines_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parent.parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from sizes import TABLE, sizes  # noqa: E402  (the path comes first)

GAP = 8
FACES = ("triomq", "__main__", "pytest_plugin")
"""How programs come in; not drawn, since all of them are doors to ``app``."""

Row = Mapping[str, Any]


def read_table() -> dict[str, Row]:
    """Return the rows of packages."""
    packages: dict[str, Row] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["packages"]
    return packages


def literal(names: str) -> str:
    """Write names as literals, with commas."""
    return ", ".join(f"``{name}``" for name in names.split()) or "–"


def purpose(row: Row) -> str:
    """Write what a row is for, in reStructuredText."""
    return str(row["for"]).replace("`", "``")


class FromTable(SphinxDirective):
    """A directive that draws from the table, so that its page is read again when that changes."""

    def rows(self) -> dict[str, Row]:
        """Return the rows of packages."""
        self.env.note_dependency(str(TABLE))
        return read_table()

    def table(self, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[nodes.Node]:
        """Return a table as nodes."""
        return self.parse_text_to_nodes("\n".join(list_table(columns, rows)))


class PackagesPicture(FromTable):
    """``.. packages-picture::`` draws each package above all that it imports."""

    def run(self) -> list[nodes.Node]:
        """Draw the layers from top to bottom."""
        packages = self.rows()

        @cache
        def floor(name: str) -> int:
            return 1 + max(
                (floor(below) for below in packages[name]["imports"].split() if below not in FACES), default=-1
            )

        floors: dict[int, list[str]] = {}
        for name in packages:
            if name not in FACES:
                floors.setdefault(floor(name), []).append(name)
        picture, top = Picture(), 0.0
        for number in sorted(floors, reverse=True):
            top += self.draw_floor(picture, top, {name: packages[name] for name in floors[number]}) + GAP
        return [picture.node("The packages of triomq in layers: each imports only from layers below it")]

    def draw_floor(self, picture: Picture, top: float, packages: Mapping[str, Row]) -> float:
        """Draw packages side by side, the one with more parts wider, and return the height."""
        weights = {name: 2 + min(3, len(row.get("parts", ()))) for name, row in packages.items()}
        unit = (WIDTH - GAP * (len(packages) - 1) - 2) / sum(weights.values())
        texts = {}
        for name, row in packages.items():
            width = unit * weights[name]
            parts = "  ·  ".join(part for part in row.get("parts", ()) if part != "*")
            texts[name] = [*lines_of(row["for"], width - 16), *lines_of(parts, width - 16)]
        height = LINE * (max(map(len, texts.values())) + 1) + 12
        left = 1.0
        for name in packages:
            picture.box(left, top, unit * weights[name], height)
            picture.text(left + 8, top + LINE + 2, name, bold=True)
            for line, words in enumerate(texts[name]):
                picture.text(left + 8, top + LINE * (line + 2) + 2, words)
            left += unit * weights[name] + GAP
        return height


class PackagesTable(FromTable):
    """``.. packages-table::`` lists the packages: what for, and what each may import."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        packages = self.rows()
        return self.table(
            ("package", "what for", "may import", "and of others"),
            (
                (f"``{name}``", purpose(row), literal(row["imports"]), literal(row.get("others", "")))
                for name, row in packages.items()
            ),
        )


class PartsTable(FromTable):
    """``.. parts-table:: core`` lists the parts of one package in reading order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        packages = self.rows()
        (package,) = self.arguments
        return self.table(
            ("part", "what for", "may import"),
            (
                ("the modules beside" if name == "*" else f"``{name}``", purpose(row), literal(row.get("imports", "")))
                for name, row in packages[package]["parts"].items()
            ),
        )


class BudgetsTable(FromTable):
    """``.. budgets-table::`` lists lines and budgets."""

    def run(self) -> list[nodes.Node]:
        """Count the lines and write the table."""
        lines = sizes()
        there = {name: row["budget"] for name, row in self.rows().items()}
        rows = [(f"``{name}``", f"{lines[name]:,}", f"{budget:,}") for name, budget in there.items()]
        rows.append(("**everything**", f"**{sum(lines[name] for name in there):,}**", f"**{sum(there.values()):,}**"))
        return self.table(("package", "logical lines", "budget"), rows)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("packages-picture", PackagesPicture)
    app.add_directive("packages-table", PackagesTable)
    app.add_directive("parts-table", PartsTable)
    app.add_directive("budgets-table", BudgetsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
