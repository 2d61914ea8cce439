"""The page as a file, without a browser: what is in it, and what is not."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from triomq.analytics.page import draw_report, require_page
from triomq.errors import ReportError

from .made_tables import HOSTILE, NOON, bad_day, day, log, write_tables


class Elements(HTMLParser):
    """Counts elements; the content of scripts and styles is no markup for it, as for a browser."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


def page_of(folder: Path, tables: Any) -> str:
    (folder / "tables").mkdir(parents=True)
    return draw_report(write_tables(folder, tables)).read_text(encoding="utf-8")


def figures_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_same_tables_make_the_same_page(tmp_path: Path) -> None:
    tables = bad_day(["orders", "mail"], 10)
    assert page_of(tmp_path / "a", tables) == page_of(tmp_path / "b", tables)


def test_page_is_drawn_again_and_leaves_nothing_else(tmp_path: Path) -> None:
    page_of(tmp_path, day(["orders"], 2))
    draw_report(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "tables"]


def test_page_that_cannot_be_drawn_leaves_the_old_one(tmp_path: Path) -> None:
    before = page_of(tmp_path, day(["orders"], 2))
    (tmp_path / "tables" / "waits" / "more.parquet").write_bytes(b"cut")
    with pytest.raises(ReportError, match="waits"):
        draw_report(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before


def test_hostile_names_make_no_elements(tmp_path: Path) -> None:
    plain = page_of(tmp_path / "plain", bad_day([f"queue-{number:02}" for number in range(len(HOSTILE))], 3))
    hostile = page_of(tmp_path / "hostile", bad_day(HOSTILE, 3))
    assert sorted(Elements(hostile).found) == sorted(Elements(plain).found)
    assert not set("\u202e\u2066\x07\x1b\x00\u2028\u2029") & set(hostile)


def test_names_of_any_length_make_a_page_of_bounded_size(tmp_path: Path) -> None:
    names = [f"{number} " + "x" * 1_000_000 for number in range(3)]
    assert len(page_of(tmp_path, bad_day(names, 3))) < 6_000_000


def test_thousand_queues_over_a_month_make_a_page_of_bounded_size(tmp_path: Path) -> None:
    tables = day([f"queue-{number:03}" for number in range(1000)], 2)
    late = [{**row, "minute": NOON.replace(month=3)} for row in tables["throughput"]]
    page = page_of(tmp_path, {**tables, "throughput": [*tables["throughput"], *late]})
    assert len(page) < 5_500_000
    traces = figures_of(page)["throughput-plot"][0]["traces"]
    assert len(traces) == 9
    assert len(traces[0]["x"]) <= 241


def test_figures_are_what_plotly_knows(tmp_path: Path) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for views in figures_of(page_of(tmp_path, bad_day(["orders", "mail"], 5))).values():
        for view in views:
            graph_objects.Figure({"data": view["traces"], "layout": view["layout"]})


def test_rows_of_nothing_but_nulls_are_drawn(tmp_path: Path) -> None:
    names = ("throughput", "waits", "waits_by_minute", "jobs", "job_failures", "dead_letters", "lost_peers")
    names += ("unsettled", "unsettled_by_queue", "slowest")
    page = page_of(tmp_path, {**{name: [{}, {}] for name in names}, "log": [log()]})
    assert "None" not in "".join(re.findall(r"<main>.*</main>", page, re.DOTALL))


def test_parts_of_the_log_that_are_not_known_are_not_mentioned(tmp_path: Path) -> None:
    page = page_of(tmp_path, {"log": [{"events": 3, "first": NOON, "last": NOON}]})
    assert "3 events" in page
    assert "percentiles" not in page


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.analytics.page.needed.find_spec", lambda name: None)
    with pytest.raises(ReportError, match=r"jinja2 and plotly and pyarrow missing.*triomq\[report\]"):
        require_page()


def test_drawing_loads_neither_spark_nor_plotly_nor_an_event_loop(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    program = (
        "import sys; from pathlib import Path; from triomq.analytics.page import draw_report; "
        f"draw_report(Path({str(tmp_path)!r})); print(*{{name.split('.')[0] for name in sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"pyspark", "plotly", "trio"}  # pyarrow loads pandas where it is installed
