"""What drawing takes, and what to do where it is missing."""

from importlib.util import find_spec

from triomq.errors import ReportError


def require_page() -> None:
    """Raise how to install what draws a page.

    Raises:
        ReportError: It is not here.
    """
    if missing := [name for name in ("jinja2", "plotly", "pyarrow") if find_spec(name) is None]:
        raise ReportError(f"{' and '.join(missing)} missing, which draws pages: pip install 'triomq[report]'")
