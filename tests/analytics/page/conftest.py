"""A real browser for the page, which no request leaves, and what is skipped where it is missing."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browsers import missing_browser, open_browser

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver


def pytest_runtest_setup(item: pytest.Item) -> None:
    extras = [name for name in ("jinja2", "plotly") if find_spec(name) is None]
    reason = f"{' and '.join(extras)} missing: pip install 'triomq[report]'" if extras else ""
    if not reason and "browser" in getattr(item, "fixturenames", ()):
        reason = missing_browser()
    if reason and item.config.getoption("--require-peers"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["WebDriver"]:
    """A Chromium without a window, driven by Debian's chromedriver."""
    with open_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def show(browser: "WebDriver") -> Callable[[Path], "WebDriver"]:
    """Load a page from its file, and check that it has complained of nothing and asked for nothing."""

    def load(path: Path) -> "WebDriver":
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # forget what was before
        browser.get(path.as_uri())
        assert browser.get_log("browser") == []
        assert set(requests(browser)) == {path.as_uri()}
        return browser

    return load


def requests(browser: "WebDriver") -> list[str]:
    """Return the addresses that the browser has asked for, but those of data in the page itself."""
    sent = [event["params"]["request"]["url"] for event in _network(browser, "requestWillBeSent")]
    return [url for url in sent if not url.startswith("data:")]


def blocked(browser: "WebDriver") -> list[str]:
    """Return why requests have failed."""
    return [str(event["params"].get("blockedReason", "")) for event in _network(browser, "loadingFailed")]


def _network(browser: "WebDriver", kind: str) -> list[dict[str, Any]]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event for event in events if event["method"] == f"Network.{kind}"]
