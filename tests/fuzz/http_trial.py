"""How HTTP's engine is fuzzed in both roles: inputs, the party behind an engine, and what must hold."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Literal, NamedTuple

import h11

from triomq.protocols.http1 import (
    EndOfStream,
    Failed,
    HTTPClientEngine,
    HTTPServerEngine,
    RequestBody,
    RequestHead,
    ResponseBody,
    ResponseHead,
    Settings,
)

from .engine_fuzz import SLACK, EngineDriver, EngineFuzz, Flood, retained
from .http_words import HTTP, answer, request
from .loop import Violation
from .mutations import spoil

Role = Literal["server", "client"]
Policy = Literal["whole", "pieces", "stream", "refuse", "late"]

MOST = 10_000
"""Bytes of a body."""
SETTINGS = Settings(max_head=2_000, max_line=1_000, max_fields=20)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_ASKED = ("GET", "HEAD", "POST", "GET", "GET", "GET")


class Input(NamedTuple):
    """One input.

    Args:
        role: of the engine.
        policy: what a server does with a request: answers behind its body, whole or in pieces, in pieces itself, before
            the body, or, for the first one, when all has come. A client reads bodies whole or in pieces.
        data: all that the other side says, spoilt or not.
    """

    role: Role
    policy: Policy
    data: bytes

    def describe(self) -> str:
        return f"{self.role}, {self.policy}: {self.data.hex()}"


class Message(NamedTuple):
    """What came: a request or an answer, with what has come of its body, and whether that was all."""

    start: tuple[object, ...]
    headers: dict[str, str]
    body: bytes
    whole: bool


def generate(random: Random) -> Input:
    """Make an input: a conversation that is spoilt somewhere, or plain noise."""
    role: Role = random.choice(("server", "server", "client"))
    policy: Policy = random.choice(("whole", "pieces"))
    if role == "server":
        policy = random.choice(("whole", "whole", "pieces", "stream", "refuse", "late"))
    if random.random() < 0.05:
        return Input(role, policy, random.randbytes(random.randrange(200)))
    say = request if role == "server" else answer
    words = [say(random) for _ in range(random.randrange(1, 7))]
    return Input(role, policy, b"".join(words if random.random() < 0.3 else spoil(random, words, HTTP)))


class Side(EngineDriver):
    """The party behind one engine: a server that answers, or a client that has asked six times."""

    def __init__(self, given: Input) -> None:
        super().__init__()
        self.given = given
        self.messages: list[Message] = []
        self.failed: Failed | None = None
        self._late = False
        if given.role == "server":
            self.engine: Any = HTTPServerEngine(now=0.0, settings=SETTINGS)
        else:
            self.engine = HTTPClientEngine(settings=SETTINGS)
            for method in _ASKED:
                self.engine.send_request(method, "/", {"Host": "h"}, most=MOST, pieces=given.policy == "pieces")

    def act(self, event: Any) -> None:
        match event:
            case RequestHead(method=method, target=target, headers=headers):
                self.messages.append(Message((method, target), dict(headers), b"", False))
                self._meet(event)
            case ResponseHead(status=status, headers=headers):
                self.messages.append(Message((status,), dict(headers), b"", False))
            case RequestBody(data, ended) | ResponseBody(data, ended):
                last = self.messages[-1]
                self.messages[-1] = last._replace(body=last.body + data, whole=ended)
                if ended and self.given.role == "server":
                    self.engine.answer(200, b"body")
            case Failed():
                self.failed = event
            case EndOfStream(unanswered) if unanswered and self.given.role == "server":
                self.engine.give_up()

    def _meet(self, head: RequestHead) -> None:
        if self.given.policy == "refuse":
            self.engine.answer(401, b"nobody")
        elif self.given.policy == "stream":
            self.engine.begin_answer(200, {"X": "y"})
            self.engine.send_piece(b"one")
            self.engine.end_answer()
        elif self.given.policy == "late" and len(self.messages) == 1:
            self._late = True
        else:
            self.engine.read_body(MOST, pieces=self.given.policy == "pieces")

    def finish(self) -> None:
        """Answer what was to wait until all has come."""
        if self._late:
            self._late = False
            self.engine.read_body(MOST)
            self.work()

    @property
    def said(self) -> bytes:
        """What was sent, without asking for bodies: whether one has to be asked for depends on how the bytes come."""
        return self.octets.replace(CONTINUE, b"")

    @property
    def ending(self) -> str:
        if self.failed is not None:
            return f"failed {self.failed.status}"
        return "ended" if self.engine.outbox.finished else "open"


# Another parser reads the same bytes


def judge(given: Input, found: list[Message]) -> Iterator[tuple[Message, Message | None]]:
    """Go through the whole messages that were found, each with what h11 finds in its place."""
    rest = given.data
    for number, message in enumerate(found):
        if given.role == "server":
            rest = rest.removeprefix(b"\r\n")  # which is ignored here, and not by h11
            connection = h11.Connection(h11.SERVER)
        else:
            connection = h11.Connection(h11.CLIENT)
            connection.send(h11.Request(method=_ASKED[number], target="/", headers=[("Host", "h")]))
            connection.send(h11.EndOfMessage())
        theirs, rest = _read(connection, rest)
        yield message, theirs


def _read(connection: h11.Connection, data: bytes) -> tuple[Message | None, bytes]:
    head, body = None, b""
    try:
        connection.receive_data(data)
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                return None, b""
            if isinstance(event, h11.Request | h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
    except h11.RemoteProtocolError:
        return None, b""
    assert head is not None  # it is ended
    start: tuple[object, ...] = (
        (head.method.decode(), head.target.decode("latin-1")) if isinstance(head, h11.Request) else (head.status_code,)
    )
    headers: dict[str, str] = {}
    for raw, text in head.headers:
        name, value = raw.decode(), text.decode("latin-1")
        between = "; " if name == "cookie" else ", "
        headers[name] = headers[name] + between + value if name in headers else value
    return Message(start, headers, bytes(body), True), bytes(connection.trailing_data[0])


def _comparable(message: Message) -> Message:
    """Pass over what differs by design: see ``docs/topics/http.rst``."""
    headers = {name: value.lower() if name == "transfer-encoding" else value for name, value in message.headers.items()}
    if str(message.start[-1]).lower().startswith("http"):
        headers["host"] = ""  # it is the target's
    return message._replace(headers=headers)


class HTTPFuzz(EngineFuzz[Input, Side]):
    """HTTP's engine in both roles; what it accepts is held against h11."""

    name = "http "
    floods = ("noise", "a head in drops", "requests", "pipelined", "chunks", "a body")

    def generate(self, random: Random) -> Input:
        return generate(random)

    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Side:
        side = Side(given)
        now = 0.0
        for piece in pieces:
            if piece:
                side.feed(piece)
            if active:
                now += 1.7
                side.engine.handle_timer(now)
        side.finish()
        return side

    def check(self, whole: Side) -> None:
        if whole.given.policy in ("whole", "pieces", "late"):
            for ours, theirs in judge(whole.given, [each for each in whole.messages if each.whole]):
                if theirs is None or _comparable(ours) != _comparable(theirs):
                    raise Violation(f"found {ours}, where h11 finds {theirs}")
        if whole.failed is not None and whole.given.role == "server":
            check_answers(whole)

    def compare(self, whole: Side, other: Side, how: str) -> None:
        if (whole.messages, whole.failed, whole.said) != (other.messages, other.failed, other.said):
            raise Violation(
                f"{how} it came to {other.messages}, {other.failed} and sent {other.said!r}, "
                f"in one piece to {whole.messages}, {whole.failed} and sent {whole.said!r}"
            )

    def check_retained(self, driver: Side, fed: int) -> None:
        limit = min(2 * fed, SETTINGS.max_head + 2 * MOST + SETTINGS.max_pipelined) + SLACK
        if (held := retained(driver.engine)) > limit:
            raise Violation(f"{held} bytes are retained of {fed} that came; at most {limit} may be")

    def outcome(self, driver: Side) -> str:
        return f"{driver.given.role}: {driver.ending}"

    def make_flood(self, name: str, random: Random) -> Flood:
        side = Side(Input("server", "late" if name == "pipelined" else "pieces", b""))
        if name in ("chunks", "a body"):
            length = "Transfer-Encoding: chunked" if name == "chunks" else "Content-Length: 10000"
            side.feed(b"POST / HTTP/1.1\r\nHost: h\r\n" + length.encode() + b"\r\n\r\n")
        # Who drives an engine stops reading at ``max_pipelined``.
        return Flood(side, _flood(name, random), 30 if name == "pipelined" else 800)


def _flood(name: str, random: Random) -> Iterator[bytes]:
    while True:
        match name:
            case "noise":
                yield random.randbytes(16 * 1024)
            case "a head in drops":
                yield b"x" * random.randrange(1, 9)
            case "chunks":
                yield b"1\r\nx\r\n" * 10
            case "a body":
                yield b"x"
            case "pipelined":
                yield b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 50
            case _:
                yield b"".join(request(random) for _ in range(20))


def check_answers(side: Side) -> None:
    """Check that the last answer, to what was no request, says that the connection closes."""
    head, _, _ = side.octets.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
    assert side.failed is not None
    if head.startswith(b"%d " % side.failed.status) and b"Connection: close" not in head:
        raise Violation(f"the last answer, {head!r}, does not say that the connection closes")
