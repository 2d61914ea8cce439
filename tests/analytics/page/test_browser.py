"""The page as a browser shows it, from a file, without any network."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triomq.analytics.page import draw_report

from .conftest import blocked, requests
from .made_tables import HOSTILE, bad_day, day, write_tables

pytestmark = pytest.mark.peers

FEW = ["orders", "mail", "metrics"]

Show = Callable[[Path], Any]


def drawn(folder: Path, tables: Any) -> Path:
    (folder / "tables").mkdir()
    return draw_report(write_tables(folder, tables))


def count(browser: Any, selector: str) -> int:
    return int(browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector))


def text(browser: Any, selector: str) -> str:
    return str(browser.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def click(browser: Any, selector: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def until(browser: Any, script: str) -> None:
    """Wait until a script returns true; Plotly draws in a turn of its own."""
    end = time.monotonic() + 20
    while not browser.execute_script(f"return {script}"):
        assert time.monotonic() < end, script


def test_page_of_a_bad_day_draws_each_plot(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, bad_day(FEW)))
    assert count(browser, ".plot") == 5
    until(browser, "[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('svg .trace path'))")
    assert count(browser, "#throughput-plot .scatterlayer .trace") == len(FEW)
    assert count(browser, "#jobs-plot .bars .point path") >= len(FEW)
    assert count(browser, ".findings li.bad") == 5
    for plot in browser.execute_script("return [...document.querySelectorAll('.plot')].map(p => p.ariaLabel)"):
        assert plot


def test_page_of_nothing_says_so_and_has_no_plot(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, {}))
    assert "no events" in text(browser, "#wrong")
    assert count(browser, ".plot, table") == 0


def test_one_point_is_drawn_as_a_mark(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, day(["orders"], 1)))
    until(browser, "document.querySelector('#waits-over-time-plot .points path')")
    assert "Nothing was found" in text(browser, "#wrong")


def test_thousand_queues_are_eight_lines_and_the_rest(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, day([f"q{number:03}" for number in range(1000)], 5)))
    until(browser, "document.querySelectorAll('#throughput-plot .legendtext').length === 9")
    assert "992 other queues together" in text(browser, "#throughput-plot")
    assert count(browser, "#throughput tbody tr") == 101
    assert text(browser, "#throughput tbody tr:last-child td") == "900 other queues together"


def test_names_that_try_to_break_out_are_shown_and_do_nothing(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, bad_day(HOSTILE, 3)))
    until(browser, "document.querySelector('#slowest-plot .bars path')")
    # Point at all that has a text of its own.
    for plot in browser.find_elements("css selector", ".plot"):
        browser.execute_script("Plotly.Fx.hover(arguments[0], [{curveNumber: 0, pointNumber: 0}])", plot)
    assert browser.execute_script("return window.broken") is None
    assert count(browser, "main img, main a[href^='http'], main script, .plot b, svg a") == 0
    names = browser.execute_script(
        "return [...document.querySelectorAll('#throughput tbody td:first-child')].map(cell => cell.textContent)"
    )
    assert HOSTILE[0] in names
    assert "(empty)" in names
    assert max(map(len, names)) <= 60
    assert text(browser, "#waits-plot .yaxislayer-above .ytick text").startswith("</script>")
    assert requests(browser) == []
    assert browser.get_log("browser") == []


def test_page_may_not_ask_for_anything_elsewhere_even_if_something_in_it_tries(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, {}))
    browser.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('securitypolicyviolation', () => done(true), {once: true});"
        "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'}))"
    )
    assert [why for why in blocked(browser) if why] == ["csp"]
    browser.get_log("browser")


def test_choice_of_a_view_draws_another_one(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, bad_day(FEW)))
    title = "document.querySelector('#throughput-plot .ytitle').textContent"
    until(browser, f"{title} === 'messages/s'")
    click(browser, "[data-views=throughput-plot] label:last-of-type input")
    until(browser, f"{title} === 'bytes/s'")
    click(browser, "[data-views=waits-plot] input[value='1']")
    until(browser, "document.querySelector('#waits-plot .xtitle').textContent === 'Wait in seconds'")


def test_colours_follow_the_system_and_the_choice(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, day(FEW)))
    theme = "document.documentElement.dataset.theme"
    colour = "getComputedStyle(document.querySelector('#throughput-plot .ytitle')).fill"
    until(browser, f"{theme} === 'light'")
    light = browser.execute_script(f"return {colour}")
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    until(browser, f"{theme} === 'dark'")
    until(browser, f"{colour} !== '{light}'")
    click(browser, "#theme input[value=light]")
    until(browser, f"{theme} === 'light' && {colour} === '{light}'")


def test_table_is_sorted_by_the_column_that_is_chosen(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, bad_day(FEW)))
    first = "#waits tbody tr:first-child td"
    assert text(browser, first) == "orders"
    click(browser, "#waits th button")
    assert text(browser, first) == "mail"
    click(browser, "#waits th button")
    assert text(browser, first) == "orders"
    assert browser.execute_script("return document.querySelector('#waits th').ariaSort") == "descending"
    click(browser, "#waits th:nth-child(2) button")
    counts = browser.execute_script(
        "return [...document.querySelectorAll('#waits tbody tr')].map(row => Number(row.cells[1].dataset.key))"
    )
    assert counts == sorted(counts, reverse=True)


def test_keyboard_reaches_the_content_and_each_choice(tmp_path: Path, show: Show) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = show(drawn(tmp_path, day(FEW)))
    reached = []
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        here = browser.execute_script("const e = document.activeElement; return e.name || e.className || e.hash")
        reached.append(here)
    assert reached[0] == "skip"
    assert {"theme", "throughput-plot-view", "waits-plot-view", "scroll"} <= set(reached)


def test_paper_is_light_and_has_all_tables_open(tmp_path: Path, show: Show) -> None:
    browser = show(drawn(tmp_path, day([f"q{number}" for number in range(20)])))
    click(browser, "#theme input[value=dark]")
    browser.execute_script(
        "addEventListener('beforeprint', () => window.printed = "
        "[document.querySelectorAll('details:not([open])').length, "
        "document.documentElement.dataset.theme])"
    )
    assert browser.print_page()
    assert browser.execute_script("return window.printed") == [0, "light"]
    until(browser, "document.documentElement.dataset.theme === 'dark'")
