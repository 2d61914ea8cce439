"""A real browser for tests of pages, what is missing where there is none, and a server for the files of pages."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

_FLAGS = (
    "headless",
    "no-sandbox",  # tests may be root, for whom Chromium has none
    "disable-gpu",
    "disable-quic",
    "disable-sync",
    "disable-background-networking",
    "disable-component-update",
    "no-first-run",
    "window-size=1280,900",
)


def missing_browser() -> str:
    """Return what is missing for tests in a browser, in words; empty if nothing is."""
    if find_spec("selenium") is None:
        return "selenium is not installed: pip install 'triomq[browser]'"
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"{' and '.join(missing)} not installed: apt install chromium chromium-driver" if missing else ""


@contextmanager
def open_browser(profile: Path) -> Iterator["WebDriver"]:
    """Run a Chromium without a window, driven by Debian's chromedriver.

    Args:
        profile: A directory for what it remembers.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # A path to the driver, so that none is looked for, and no program is asked to fetch one.
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


class _QuietHandler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def static_server(folder: Path) -> Iterator[int]:
    """Serve the files of a folder over HTTP on a port of 127.0.0.1, which is given."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
