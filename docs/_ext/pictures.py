"""Draw pictures as SVG, with no tool but Python, so that they build wherever the documentation does.

``message-trip`` draws the way of a message: a lane for each package, and a box for each file that the message comes to.
A file that is not there is a mistake, so that a picture cannot outlive the code that it shows.
"""

from html import escape
from pathlib import Path
from textwrap import wrap

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).parent.parent.parent / "src" / "triomq"
WIDTH = 780
"""Units across each picture; a browser scales it to the width of the page."""
LINE = 14
"""Units from one line of text to the next."""
CHARACTER = 6.2
"""Units that a character of the small text takes on average; a little too many, so that nothing overflows."""


class Picture:
    """Shapes gathered for one SVG; colours are the page's own, so that a dark page has a light picture."""

    def __init__(self) -> None:
        self.height = 0.0
        self._shapes: list[str] = []

    def box(self, x: float, y: float, width: float, height: float) -> None:
        """Add a box."""
        self._shapes.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="5" fill="currentColor" '
            f'fill-opacity="0.05" stroke="currentColor" stroke-opacity="0.5"/>'
        )
        self.height = max(self.height, y + height)

    def text(self, x: float, y: float, words: str, *, bold: bool = False, middle: bool = False) -> None:
        """Add one line of text; bold text is one unit larger."""
        style = 'font-weight="bold" font-size="12"' if bold else 'font-size="11"'
        anchor = ' text-anchor="middle"' if middle else ""
        self._shapes.append(f'<text x="{x:.0f}" y="{y:.0f}" {style}{anchor}>{escape(words)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Add an arrow along straight lines."""
        line = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-opacity="0.7" marker-end="url(#tip)"/>'
        )

    def node(self, title: str) -> nodes.raw:
        """Return the picture as a node of the page, with its title for readers that see none."""
        tip = (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>'
        )
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height + 4:.0f}" role="img" '
            f'style="width: 100%; height: auto" font-family="sans-serif" fill="currentColor" '
            f'aria-label="{escape(title)}">{tip}{"".join(self._shapes)}</svg>'
        )
        return nodes.raw("", f"<p>{svg}</p>", format="html")


def lines_of(words: str, width: float) -> list[str]:
    """Wrap small text into a width in units."""
    return wrap(words, max(8, int(width / CHARACTER)))


class MessageTrip(SphinxDirective):
    """``.. message-trip:: title`` draws one step for each line ``file: what happens there``."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {"lanes": directives.unchanged_required}  # noqa: RUF012  (docutils' own form)

    def run(self) -> list[nodes.Node]:
        """Draw lanes and steps from top to bottom."""
        lanes = self.options["lanes"].split()
        width = WIDTH / len(lanes)
        picture = Picture()
        for number, lane in enumerate(lanes):
            picture.text((number + 0.5) * width, LINE, lane, bold=True, middle=True)
        before: tuple[int, float] | None = None
        top = 2.0 * LINE
        for line in self.content:
            file, _, words = line.partition(":")
            lane = lanes.index(file.partition("/")[0])
            if not (SOURCE / f"{file}.py").is_file():
                raise self.error(f"message-trip: there is no src/triomq/{file}.py; name the file that does this now")
            left, text = lane * width + 6, lines_of(words.strip(), width - 24)
            height = LINE * (len(text) + 1) + 8
            picture.box(left, top, width - 12, height)
            for row, (part, bold) in enumerate([(file.partition("/")[2], True), *((part, False) for part in text)]):
                picture.text(left + 6, top + LINE * (row + 1), part, bold=bold)
            middle = left + width / 2 - 6
            if before is not None:
                lane_before, bottom = before
                if lane_before == lane:
                    picture.arrow((middle, bottom), (middle, top))
                else:
                    across, side = (lane_before + 0.5) * width, left if lane > lane_before else left + width - 12
                    picture.arrow((across, bottom), (across, top + LINE), (side, top + LINE))
            before = lane, top + height
            top += height + 8
        return [picture.node(self.arguments[0])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("message-trip", MessageTrip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
