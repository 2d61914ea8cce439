"""A page in Chromium, of another origin than the broker: examples/notices.html, and a page with a log-in of its own."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pika
import pytest

from browsers import static_server
from peers.served import RESTMS, Served, open_served

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.peers

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 30.0


class Site(NamedTuple):
    """A broker, and where pages come from that it lets in."""

    served: Served
    port: int

    def page(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/notices.html?broker={self.served.restms}"

    def ask(self, method: str, uri: str, **options: Any) -> httpx.Response:
        auth, headers = ("guest", "guest"), {"Accept": "application/json"}
        url = httpx.URL(self.served.restms).join(uri)
        return httpx.request(method, url, auth=auth, headers=headers, trust_env=False, **options)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with static_server(EXAMPLES) as port:
        origins = f'["http://127.0.0.1:{port}"]'
        with open_served(**RESTMS, endpoints_1_allow_origins=origins) as served:
            yield Site(served, port)


@pytest.fixture
def page(browser: "WebDriver", site: Site) -> "WebDriver":
    """The page, in a browser whose user has given the password to the broker."""
    log_in(browser, site)
    browser.get(site.page())
    until(browser, state_is("reading"))
    return browser


def log_in(browser: "WebDriver", site: Site) -> None:
    browser.get(f"{site.served.restms}/restms".replace("//", "//guest:guest@"))


def complaints(browser: "WebDriver") -> list[str]:
    """What the console has, but for the icon that a browser asks a broker for."""
    found = [line["message"] for line in browser.get_log("browser")]
    return [text for text in found if "/favicon.ico" not in text]


def until(browser: "WebDriver", condition: Callable[["WebDriver"], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition(browser):
        assert time.monotonic() < end, (state(browser), notices(browser), browser.get_log("browser"))


def state(browser: "WebDriver") -> str:
    return str(browser.execute_script("return document.querySelector('#state').textContent"))


def state_is(wanted: str) -> Callable[["WebDriver"], bool]:
    return lambda browser: state(browser) == wanted


def notices(browser: "WebDriver") -> list[str]:
    script = "return [...document.querySelectorAll('li')].map(li => li.querySelector('b').textContent + ': ' "
    found = browser.execute_script(f"{script} + li.lastChild.textContent)")
    return list(reversed(found))


def shows(*wanted: str) -> Callable[["WebDriver"], bool]:
    return lambda browser: notices(browser) == list(wanted)


def pipe_of(browser: "WebDriver") -> str:
    return str(browser.execute_script("return sessionStorage.getItem('pipe')"))


def post(browser: "WebDriver", author: str, text: str) -> None:
    for name, value in (("author", author), ("text", text)):
        field = browser.find_element("name", name)
        field.clear()
        field.send_keys(value)
    browser.find_element("tag name", "button").click()


def publish(site: Site, *texts: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(site.served.url)) as connection:
        for text in texts:
            properties = pika.BasicProperties(content_type="text/plain", headers={"author": "pika"})
            connection.channel().basic_publish("notices", "", text.encode(), properties)


def is_empty(site: Site, pipe: str) -> bool:
    return bool(site.ask("GET", pipe).json()["restms"]["pipe"][0]["size"] == "0")


def test_page_posts_and_shows_what_it_and_others_post_and_takes_it_from_its_pipe(page: "WebDriver", site: Site) -> None:
    post(page, "ada", "tea is ready ☕")
    until(page, shows("ada: tea is ready ☕"))
    hostile = '<img src="x" onerror="document.title=1"> & "quotes"'
    publish(site, "from AMQP", hostile)
    until(page, shows("ada: tea is ready ☕", "pika: from AMQP", f"pika: {hostile}"))
    until(page, lambda _: is_empty(site, pipe_of(page)))
    assert page.title == "Notices"
    assert complaints(page) == []


def test_page_that_is_loaded_again_goes_on_with_its_pipe_and_shows_nothing_twice(page: "WebDriver", site: Site) -> None:
    pipe = pipe_of(page)
    post(page, "ada", "before")
    until(page, shows("ada: before"))
    until(page, lambda _: is_empty(site, pipe))
    page.get("about:blank")
    publish(site, "while it was away")
    page.get(site.page())
    until(page, shows("pika: while it was away"))
    assert pipe_of(page) == pipe


def test_page_makes_another_pipe_when_its_own_is_gone(page: "WebDriver", site: Site) -> None:
    pipe = pipe_of(page)
    assert site.ask("DELETE", pipe).status_code == 200
    until(page, lambda page: pipe_of(page) != pipe and state(page) == "reading")
    publish(site, "read by the new one")
    until(page, shows("pika: read by the new one"))


def test_same_page_of_an_origin_that_is_not_let_in_makes_nothing(browser: "WebDriver", site: Site) -> None:
    log_in(browser, site)
    before = site.ask("GET", "/restms/domain/default").text
    browser.get(site.page("localhost"))
    until(browser, state_is("refused"))
    assert pipe_of(browser) == "None"
    assert site.ask("GET", "/restms/domain/default").text == before
    assert any("CORS" in text for text in complaints(browser))


LOG_IN = """
const [broker, done] = arguments;
const ask = (uri, headers, options) => fetch(broker + uri, {
  credentials: "omit", headers: { Authorization: "Basic " + btoa("guest:guest"), ...headers }, ...options });
(async () => {
  const refused = (await ask("/restms", { Authorization: "Basic " + btoa("guest:wrong") })).status;
  const type = { "Content-Type": "text/xml" };
  const made = await ask("/restms/domain/default", type, { method: "POST", body: "<restms><pipe/></restms>" });
  const pipe = new URL(made.headers.get("Location")).pathname;
  const events = await ask(pipe, { Accept: "text/event-stream" });
  const reader = events.body.pipeThrough(new TextDecoderStream()).getReader();
  const body = `<restms><message address="${pipe.split("/").pop()}"><content>hello</content></message></restms>`;
  await ask("/restms/feed/default", type, { method: "POST", body });
  let text = "";
  while (!text.includes("data: ")) text += (await reader.read()).value;
  await reader.cancel();
  const gone = (await ask(pipe, {}, { method: "DELETE" })).status;
  return [refused, text.includes("hello"), gone];
})().then(done, (error) => done(String(error)));
"""


def test_page_with_a_log_in_of_its_own_gives_the_password_in_each_fetch(browser: "WebDriver", site: Site) -> None:
    browser.get(f"http://127.0.0.1:{site.port}/")
    assert browser.execute_async_script(LOG_IN, site.served.restms) == [401, True, 200]
