"""CloudAMQP's client over WebSocket: in Node, and in Chromium with the page examples/notices_amqp.html."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pika
import pytest

from browsers import static_server
from peers.served import WEBSOCKET, Served, open_served

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
PATIENCE = 60.0


class Site(NamedTuple):
    """A broker, and a server of the page."""

    served: Served
    port: int

    def page(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/notices_amqp.html?broker={self.served.websocket}"


@pytest.fixture(scope="module")
def site(amqp_for_javascript: Path) -> Iterator[Site]:
    shutil.copy(EXAMPLES / "notices_amqp.html", amqp_for_javascript)
    with static_server(amqp_for_javascript) as port:
        origins = f'["http://127.0.0.1:{port}"]'
        with open_served(**WEBSOCKET, endpoints_1_websocket_allow_origins=origins) as served:
            yield Site(served, port)


def test_client_in_node_publishes_consumes_and_is_refused(
    tool: Callable[[str], str], site: Site, amqp_for_javascript: Path
) -> None:
    command = [tool("node"), str(HERE / "amqp_node.mjs"), site.served.websocket, str(amqp_for_javascript)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.count("ok - ") == 6


def test_example_in_node_prints_what_it_publishes(
    tool: Callable[[str], str], site: Site, amqp_for_javascript: Path
) -> None:
    shutil.copy(EXAMPLES / "notices_amqp.mjs", amqp_for_javascript)
    command = [tool("node"), str(amqp_for_javascript / "notices_amqp.mjs"), site.served.websocket]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "hello from Node\n")


# The page


def until(browser: "WebDriver", condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, (state(browser), notices(browser), browser.get_log("browser"))


def state(browser: "WebDriver") -> str:
    return str(browser.execute_script("return document.querySelector('#state').textContent"))


def why(browser: "WebDriver") -> str:
    return str(browser.execute_script("return document.querySelector('#state').title"))


def notices(browser: "WebDriver") -> list[str]:
    script = "return [...document.querySelectorAll('li')].map(li => li.querySelector('b').textContent + ': ' "
    found = browser.execute_script(f"{script} + li.lastChild.textContent)")
    return list(reversed(found))


def log_in(browser: "WebDriver", password: str = "guest") -> None:
    fill(browser, user="guest", password=password)
    browser.find_element("css selector", "#log-in button").click()


def post(browser: "WebDriver", author: str, text: str) -> None:
    fill(browser, author=author, text=text)
    browser.find_element("css selector", "#post button").click()


def fill(browser: "WebDriver", **texts: str) -> None:
    for name, text in texts.items():
        field = browser.find_element("name", name)
        field.clear()
        field.send_keys(text)


def publish(site: Site, *texts: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(site.served.url)) as connection:
        for text in texts:
            properties = pika.BasicProperties(content_type="text/plain", headers={"author": "pika"})
            connection.channel().basic_publish("notices", "", text.encode(), properties)


def test_page_publishes_and_shows_what_it_and_others_publish(browser: "WebDriver", site: Site, tmp_path: Path) -> None:
    browser.get(site.page())
    log_in(browser)
    until(browser, lambda: state(browser) == "connected")
    post(browser, "ada", "tea is ready ☕")
    until(browser, lambda: notices(browser) == ["ada: tea is ready ☕"])
    hostile = '<img src="x" onerror="document.title=1"> & "quotes"'
    publish(site, "from AMQP", hostile)
    until(browser, lambda: notices(browser) == ["ada: tea is ready ☕", "pika: from AMQP", f"pika: {hostile}"])
    publish(site, *map(str, range(200)))
    until(browser, lambda: len(notices(browser)) == 203)
    assert notices(browser)[3:] == [f"pika: {number}" for number in range(200)]
    assert browser.title == "Notices over AMQP"
    assert browser.get_log("browser") == []


def test_page_with_a_wrong_password_says_so(browser: "WebDriver", site: Site) -> None:
    browser.get(site.page())
    log_in(browser, "wrong")
    until(browser, lambda: state(browser) == "refused")
    assert "ACCESS_REFUSED" in why(browser)


def test_same_page_of_an_origin_that_is_not_allowed_does_not_connect(browser: "WebDriver", site: Site) -> None:
    browser.get(site.page("localhost"))
    log_in(browser)
    until(browser, lambda: state(browser) == "refused")
    assert any("403" in line["message"] for line in browser.get_log("browser"))
