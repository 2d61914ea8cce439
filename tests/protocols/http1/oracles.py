"""Two other parsers, asked about the same bytes: h11, and llhttp by way of httptools."""

from typing import NamedTuple, TypeAlias

import h11
import httptools

from .wire import Endpoint, cuts


class Found(NamedTuple):
    """A whole request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Verdict: TypeAlias = Found | str
"""A whole request, or "refused", or "waits" for more."""


def _joined(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, data in fields:
        name, value = raw.decode("latin-1").lower(), data.decode("latin-1").strip(" \t")
        between = "; " if name == "cookie" else ", "
        headers[name] = headers[name] + between + value if name in headers else value
    return headers


def by_us(data: bytes, places: list[int]) -> Verdict:
    endpoint = Endpoint().feed(*cuts(data, places))
    if endpoint.failed is not None:
        return "refused"
    if not endpoint.sent.startswith(b"HTTP/1.1 200"):
        return "waits"
    head = endpoint.heads[0]
    return Found(head.method, head.target, dict(head.headers), endpoint.bodies[0])


def by_h11(data: bytes, places: list[int]) -> Verdict:
    connection, head, body = h11.Connection(h11.SERVER), None, b""
    try:
        for piece in cuts(data, places):
            connection.receive_data(piece)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage) and head is not None:
                    fields = list(head.headers)
                    return Found(head.method.decode(), head.target.decode("latin-1"), _joined(fields), body)
    except h11.RemoteProtocolError:
        return "refused"
    return "waits"


class _Llhttp:
    def __init__(self) -> None:
        self.found: list[Found] = []

    def on_message_begin(self) -> None:
        self.target, self.body, self.done = b"", b"", False
        self.fields: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.done:  # then it is of the trailer
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.done = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        method = self.parser.get_method().decode()
        self.found.append(Found(method, self.target.decode("latin-1"), _joined(self.fields), self.body))


def by_llhttp(data: bytes, places: list[int]) -> Verdict:
    found = _Llhttp()
    found.parser = httptools.HttpRequestParser(found)
    try:
        for piece in cuts(data, places):
            found.parser.feed_data(piece)
            if found.found:
                return found.found[0]
    except httptools.HttpParserUpgrade:
        return found.found[0] if found.found else "waits"
    except httptools.HttpParserError:
        return found.found[0] if found.found else "refused"
    return "waits"
