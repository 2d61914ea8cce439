"""``report.html``: what an operator looks at, drawn out of the tables of a report.

    DIR/tables/NAME/*.parquet ─▶ Tables ─▶ findings, sections ─▶ template ─▶ DIR/report.html

It is one file, that can be mailed or attached to a ticket as it is: Plotly's script (4.8 MB, 1.5 MB in a compressed
mail) stands in it. Beside it, as a file, it would make pages of some 100 kB that show no plot wherever they have gone
alone; and a page from a disk may not check the script that it loads. The tables behind the plots need no script at all.

A page whose names anybody may have chosen runs nothing but what it came with: its policy (Content-Security-Policy)
allows two scripts by their hashes, and no request to anywhere. The same tables make the same page, byte by byte.

Plots drawn by ourselves as SVG would need no library, but one zooms into a night and reads off a value only with one;
matplotlib draws pictures; bokeh's script is a quarter as large, and has no plots for screen readers either.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from triomq.analytics.page import words
from triomq.analytics.page.findings import LOOKED_FOR, find, with_names
from triomq.analytics.page.needed import require_page
from triomq.analytics.page.queues import name_queues, places_of
from triomq.analytics.page.sections import make_sections
from triomq.analytics.page.tables import ReportTables, read_tables

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE: Final = Path(__file__).parent

_MARKUP: Final = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})
"""What would end a script in HTML, or a line in JavaScript; in JSON it only stands in texts."""


class Tile(msgspec.Struct, frozen=True):
    """A number in large letters, and of what it is."""

    value: str
    title: str


def draw_report(directory: Path) -> Path:
    """Draw the page of a report, and return where it is; it appears whole or not at all.

    Args:
        directory: The report, with its folder ``tables``. The page is its ``report.html``, which is replaced.

    Raises:
        ReportError: A table cannot be read, or what draws a page is not installed.
        OSError: The page cannot be written.
    """
    require_page()
    text = _draw(read_tables(directory / "tables"))
    path = directory / "report.html"
    write_whole(path, text)
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file under a hidden name, and rename it when it is whole.

    Raises:
        OSError: It cannot be written.
    """
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # a fixed name may be somebody's own file
    try:
        with hidden.open("x", encoding="utf-8") as file:
            file.write(text)
        hidden.rename(path)
    except FileExistsError:
        raise
    except BaseException:  # Ctrl-C too: nothing half written stays
        hidden.unlink(missing_ok=True)
        raise


def _draw(tables: ReportTables) -> str:
    places = places_of(tables.throughput, tables.waits, tables.unsettled_by_queue)

    def name(table: pa.Table) -> pa.Table:
        return name_queues(table, places)

    named = with_names(tables, name)
    about = _about(tables)
    sections = [section for section in make_sections(named) if about["period"] or section.grids]
    plotly, own = _plotly(), read_part("report.js")
    return (
        open_templates()
        .get_template("report.html.j2")
        .render(
            about=about,
            tiles=_tiles(tables),
            findings=find(named),
            looked_for=LOOKED_FOR,
            sections=sections,
            figures=_json({figure.id: figure.views for section in sections for figure in section.figures}),
            style=read_part("report.css"),
            plotly=plotly,
            script=own,
            hashes=" ".join(f"'{_hash(script)}'" for script in (plotly, own)),
        )
    )


def open_templates() -> "Environment":
    """Create what fills in the templates beside this file; whatever stands in them is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only here, since they are an extra

    return Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def read_part(name: str) -> str:
    """Read a file beside this one."""
    return (_HERE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return Plotly's script, without importing the package, which takes half a second."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    script = (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    # What would end it in HTML, or hide its end; it has neither today.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode().translate(_MARKUP)


def _tiles(tables: ReportTables) -> list[Tile]:
    sums = {name: _sum(tables.throughput, name) for name in ("queued", "delivered", "accepted", "bytes")}
    tiles = [Tile(words.number(sums[name]), f"messages {name}") for name in ("queued", "delivered", "accepted")]
    tiles.append(Tile(words.size(sums["bytes"]), "published"))
    if tables.jobs.num_rows:
        tiles.append(Tile(words.number(_sum(tables.jobs, "finished")), "jobs finished"))
    return tiles


def _sum(table: pa.Table, column: str) -> int:
    return pa.compute.sum(table[column], min_count=0).as_py() or 0


def _about(tables: ReportTables) -> Mapping[str, str | None]:
    """Return what the report was made of, in words."""
    row = next(iter(tables.log.to_pylist()), None)
    if row is None or not row["events"]:
        return {"period": None, "events": "0 events", "nodes": "", "exact": "", "took": ""}
    return {
        "period": f"{words.moment(row['first'])} to {words.moment(row['last'])} UTC",
        "events": words.some(row["events"], "event"),
        "nodes": words.some(len(row["nodes"]), "node") if row["nodes"] else "",
        "exact": "" if row["exact"] is None else "exact percentiles" if row["exact"] else "percentiles to within 1 %",
        "took": f"computed in {words.duration(row['seconds'])}" if row["seconds"] is not None else "",
    }
