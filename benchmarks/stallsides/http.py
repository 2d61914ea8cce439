"""Attacks by RestMS over HTTP: documents, lists, and what there are many of."""

import base64
import http.client
import json
from collections.abc import Iterator

from stallsides.attacked import Attacked, rest

DOMAIN = "/restms/domain/default"
JSON = "application/restms+json"
XML = "application/restms+xml"


class Browser:
    """A client of HTTP, as eve."""

    def __init__(self, broker: Attacked) -> None:
        """Connect."""
        self._connection = http.client.HTTPConnection("127.0.0.1", broker.ports["RestMS"], timeout=120)
        self._login = "Basic " + base64.b64encode(b"eve:eve").decode()

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> tuple[int, bytes, str]:
        """Send a request; return the status, the body and where something is."""
        headers = {"Authorization": self._login, "Content-Type": kind, "Accept": kind}
        try:
            self._connection.request(method, path, body or None, headers)
            response = self._connection.getresponse()
            return response.status, response.read(), response.headers.get("Location", "")
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b"", ""

    def make(self, path: str, **what: object) -> str:
        """Make a resource; return its path."""
        return self.ask("POST", path, json.dumps({"restms": what}).encode())[2].removeprefix("http://127.0.0.1")


def path_of(location: str) -> str:
    """Return the path of a location."""
    return "/" + location.split("/", 3)[3] if "://" in location else location


def post_each(browser: Browser, path: str, bodies: dict[str, bytes], kind: str) -> Iterator[str]:
    """Post documents three times each."""
    for what, body in bodies.items():
        yield f"{what}, {len(body):,} octets"
        for _ in range(3):
            status = browser.ask("POST", path, body, kind)[0]
        yield f"{what}: {status}"


def json_documents(broker: Attacked, size: float) -> Iterator[str]:
    """Post JSON documents of a megabyte."""
    count = int(80_000 * size)
    escaped = '"\\u0041":1,'
    keys = ",".join(f'"k{n}":1' for n in range(count))
    texts = ",".join(f'"k{n}":"\\u0041"' for n in range(count // 2))
    bodies = {
        "keys": f'{{"restms":{{{escaped}{keys}}}}}',
        "keys of a pipe": f'{{"restms":{{"pipe":[{{{escaped}{keys}}}]}}}}',
        "escaped texts": f'{{"restms":{{"pipe":[{{{texts}}}]}}}}',
        "numbers": f'{{"restms":{{"pipe":[{",".join(["1"] * count * 5)}]}}}}',
        "objects": f'{{"restms":{{"pipe":[{",".join(["{}"] * count * 3)}]}}}}',
        "equal keys": f'{{"restms":{{{",".join([escaped[:-1]] * count)}}}}}',
        "headers": '{"restms":{"message":[{"header":['
        + ",".join([f'{{"name":"n{n}","value":"v"}}' for n in range(int(16_000 * size))])
        + "]}]}}",
        "a long text": '{"restms":{"pipe":[{"title":"' + "\\u00e9" * (count * 2) + '"}]}}',
        "many of a kind": '{"restms":{"feed":['
        + ",".join([f'{{"name":"f{n}","type":"fanout"}}' for n in range(int(16_000 * size))])
        + "]}}",
        "a large fraction": '{"restms":{"pipe":[{"title":' + "9" * (count * 10) + "}]}}",
    }
    encoded = {what: body.encode() for what, body in bodies.items()}
    yield from post_each(Browser(broker), DOMAIN, encoded, JSON)


def xml_documents(broker: Attacked, size: float) -> Iterator[str]:
    """Post XML documents of a megabyte."""
    count = int(60_000 * size)
    attributes = " ".join(f'a{n}="1"' for n in range(count))
    bodies = {
        "attributes": f'<restms xmlns="http://www.restms.org/schema/restms"><pipe {attributes}/></restms>',
        "names of spaces": "<restms " + " ".join(f'xmlns:a{n}="u{n}"' for n in range(count // 2)) + "/>",
        "elements": '<restms xmlns="http://www.restms.org/schema/restms">' + "<pipe/>" * count + "</restms>",
        "comments": "<restms>" + "<!---->" * count + "</restms>",
        "texts": "<restms>" + "&#65;" * count * 3 + "</restms>",
        "headers": '<restms xmlns="http://www.restms.org/schema/restms"><message>'
        + "".join(f'<header name="n{n}" value="v"/>' for n in range(int(16_000 * size)))
        + "</message></restms>",
    }
    encoded = {what: body.encode() for what, body in bodies.items()}
    yield from post_each(Browser(broker), DOMAIN, encoded, XML)


def listing(broker: Attacked, size: float) -> Iterator[str]:
    """List a domain with 5,000 feeds, a feed with as many joins, a pipe with as many messages."""
    browser = Browser(broker)
    yield "make feeds"
    for n in range(int(5_000 * size)):
        browser.make(DOMAIN, feed=[{"name": f"feed{n}", "type": "fanout"}])
    yield "list them"
    for kind in (JSON, XML):
        for _ in range(2):
            browser.ask("GET", DOMAIN, kind=kind)
    yield "make a pipe and joins"
    pipe = path_of(browser.make(DOMAIN, pipe=[{}]))
    browser.make(DOMAIN, feed=[{"name": "t", "type": "topic"}])
    feed = "/restms/feed/default/t"
    for n in range(int(2_000 * size)):
        browser.make(pipe, join=[{"address": f"*.a{n}.*", "feed": f"http://127.0.0.1{feed}"}])
    yield "list the pipe, send"
    browser.ask("GET", pipe)
    messages = [{"address": "x.a1.b", "content": [{"type": "text/plain", "value": "x"}]}]
    for _ in range(3):
        status = browser.ask("POST", feed, json.dumps({"restms": {"message": messages * int(8_000 * size)}}).encode())
    yield f"{status[0]}; list messages"
    for kind in (JSON, XML):
        for number in (100, 100_000):
            browser.ask("GET", f"{pipe}?messages={number}", kind=kind)
    yield "delete the feed"
    browser.ask("DELETE", feed)
    rest()
    yield "delete the pipe"
    browser.ask("DELETE", pipe)
    rest()


def contents(broker: Attacked, size: float) -> Iterator[str]:
    """Send large contents, and look at what they make."""
    browser = Browser(broker)
    yield "make"
    pipe = path_of(browser.make(DOMAIN, pipe=[{}]))
    browser.make(DOMAIN, feed=[{"name": "c", "type": "fanout"}])
    browser.make(pipe, join=[{"feed": "http://127.0.0.1/restms/feed/default/c"}])
    yield "send contents of 15 MB"
    large = b"x" * int(15_000_000 * size)
    for _ in range(3):
        browser.ask("POST", "/restms/feed/default/c", large, "application/octet-stream")
    text = "\\u00e9" * int(150_000 * size)
    document = '{"restms":{"message":[{"content":[{"type":"text/plain","value":"' + text + '"}]}]}}'
    for _ in range(3):
        browser.ask("POST", "/restms/feed/default/c", document.encode())
    yield "list and get them"
    for kind in (JSON, XML):
        browser.ask("GET", f"{pipe}?messages=100", kind=kind)


def pipelined(broker: Attacked, size: float) -> Iterator[str]:
    """Send 3,000 requests at once on a connection, with heads as large as they may be."""
    import socket

    login = base64.b64encode(b"eve:eve").decode()
    for what, more in (("small", ""), ("100 fields", "".join(f"X-{n}: {n}\r\n" for n in range(90)))):
        for method, path in (("GET", DOMAIN), ("OPTIONS", DOMAIN), ("GET", "/nothing")):
            yield f"{what} {method} {path}"
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n{more}\r\n".encode()
            with socket.create_connection(("127.0.0.1", broker.ports["RestMS"]), timeout=60) as client:
                client.settimeout(2)
                count = int(3_000 * size)
                try:
                    for _ in range(0, count, 30):
                        client.sendall(head * 30)
                        client.recv(1_000_000)
                except OSError:
                    pass


ATTACKS = (json_documents, xml_documents, listing, contents, pipelined)
