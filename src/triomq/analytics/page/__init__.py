"""Pages of HTML: a report, drawn out of its tables, and the path of one message; they need no Spark and no network.

Names are resolved with their first use, since all of them need an extra.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names

if TYPE_CHECKING:
    from triomq.analytics.page.needed import require_page as require_page
    from triomq.analytics.page.path import draw_path as draw_path
    from triomq.analytics.page.report import draw_report as draw_report

# The module of each public name; __all__ below lists the same names for tools that read and do not run.
_MODULES = {
    "draw_path": "triomq.analytics.page.path",
    "draw_report": "triomq.analytics.page.report",
    "require_page": "triomq.analytics.page.needed",
}

__all__ = ["draw_path", "draw_report", "require_page"]

__getattr__ = lazy_names(__name__, _MODULES, __all__)
