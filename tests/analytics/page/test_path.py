"""The page of one message's path."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triomq.analytics import find_paths
from triomq.analytics.page import draw_path

from ..made_log import dead_letter, event, write_log
from .made_tables import HOSTILE


def page_of(folder: Path, wanted: str) -> Path:
    (path,) = find_paths(folder, wanted).paths
    draw_path(path, wanted, folder / "page.html")
    return folder / "page.html"


def test_bars_are_in_proportion(tmp_path: Path) -> None:
    page = page_of(write_log(tmp_path, dead_letter()), "bad").read_text()
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', page)]
    assert [round(width / 510 * 21, 1) for width in widths] == [1, 1, 10, 8, 1]
    assert page.count('class="move"') == 2


def test_page_is_small_and_the_same_each_time(tmp_path: Path) -> None:
    write_log(tmp_path, dead_letter())
    first = page_of(tmp_path, "bad").read_bytes()
    assert page_of(tmp_path, "bad").read_bytes() == first
    assert len(first) < 20_000


@pytest.mark.peers
def test_page_shows_a_picture_and_names_do_nothing(tmp_path: Path, show: Callable[[Path], Any]) -> None:
    names = [name for name in HOSTILE if name]
    events = [event(number, "queued", name, 1, message_id=name) for number, name in enumerate(names)]
    events += [
        event(20 + number, "queued", f"d{number}", 2, from_queue=name, from_id=1, error=name, exchange=name)
        for number, name in enumerate(names)
    ]
    write_log(tmp_path, events)
    for name in names:
        browser = show(page_of(tmp_path, name))
        assert len(browser.find_elements("css selector", "svg rect")) == 2
        assert not browser.find_elements("css selector", "script, img, main a, b, svg svg")
    browser = show(page_of(write_log(tmp_path / "bad", dead_letter()), "bad"))
    sizes = [rect.size for rect in browser.find_elements("css selector", "svg rect")]
    assert min(size["height"] for size in sizes) > 10
