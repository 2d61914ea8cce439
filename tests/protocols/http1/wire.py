"""Requests as bytes, and an engine with the endpoint behind it."""

from collections.abc import Iterable
from itertools import pairwise

from triomq.protocols.http1 import Failed, HTTPServerEngine, RequestBody, RequestHead, Settings

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def request(line: str = "GET / HTTP/1.1", *fields: str, body: bytes = b"", host: bool = True) -> bytes:
    """Encode a request as it stands, without any field that is not given but ``Host``."""
    lines = [line, *(["Host: h"] if host else []), *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def post(body: bytes, *fields: str) -> bytes:
    return request("POST / HTTP/1.1", f"Content-Length: {len(body)}", *fields, body=body)


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=body + b"0\r\n" + trailer + b"\r\n")


def engine(settings: Settings | None = None) -> HTTPServerEngine:
    return HTTPServerEngine(now=0.0, settings=settings)


def sent(engine: HTTPServerEngine) -> bytes:
    return b"".join(engine.data_to_send())


def read(engine: HTTPServerEngine, data: bytes) -> list[object]:
    engine.receive_data(data)
    return list(engine.events())


class Endpoint:
    """Answers each request by 200, behind its body, and records what came."""

    def __init__(self, settings: Settings | None = None, *, most: int = 1_000_000, pieces: bool = False) -> None:
        self.engine = engine(settings)
        self.heads: list[RequestHead] = []
        self.bodies: list[bytes] = []
        self.failed: Failed | None = None
        self.sent = b""
        self._most = most
        self._pieces = pieces

    def feed(self, *pieces: bytes) -> "Endpoint":
        for piece in pieces:
            self.engine.receive_data(piece)
            while events := self.engine.events():
                for event in events:
                    self._act(event)
            self.sent += sent(self.engine)
        return self

    def _act(self, event: object) -> None:
        match event:
            case RequestHead():
                self.heads.append(event)
                self.bodies.append(b"")
                self.engine.read_body(self._most, pieces=self._pieces)
            case RequestBody(data, ended):
                self.bodies[-1] += data
                if ended:
                    self.engine.answer(200, b"ok")
            case Failed():
                self.failed = event

    @property
    def found(self) -> tuple[object, ...]:
        """What must not depend on how the bytes were cut."""
        heads = [(head.method, head.target, dict(head.headers), head.length) for head in self.heads]
        return heads, self.bodies, self.failed, self.sent, self.engine.outbox.finished


def cuts(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut bytes at places; none of the pieces is empty."""
    bounds = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds) if start < stop]
