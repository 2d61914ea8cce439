"""Which requests are sent again, and what refusals become, against a server that does as it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from triomq.clients import Reconnect
from triomq.clients.restms.opening import open_restms
from triomq.clients.restms.requests import Requests, path_of
from triomq.clients.restms.url import RestMSUrl
from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    Refused,
    RemoteProtocolError,
)

SOON = Reconnect(delay=0.001, max_delay=0.002, jitter=0.0, attempts=4)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CLOSING = b"HTTP/1.1 503 No\r\nRestMS-Error: closing\r\nContent-Length: 0\r\n\r\n"
HANG_UP = b""


class Server:
    """Answers each request by the next of its replies; an empty one, or none, ends the connection."""

    def __init__(self, *replies: bytes) -> None:
        self.replies = list(replies)
        self.requests: list[str] = []
        self.connections = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        received = b""
        while (data := await stream.receive_some()) and self.replies:
            received += data
            if b"\r\n\r\n" not in received:
                continue
            self.requests.append(received.partition(b" HTTP")[0].decode())
            received = b""
            reply = self.replies.pop(0)
            if not reply:
                break
            await stream.send_all(reply)
        await stream.aclose()


@asynccontextmanager
async def serving(
    server: Server, policy: Reconnect | None = None, *, patience: float = 10.0
) -> AsyncIterator[Requests]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, server.serve, 0)
        (port, *_) = (listener.socket.getsockname()[1] for listener in listeners)
        requests = Requests(RestMSUrl(host="localhost", port=port, timeout=patience), None, policy)
        yield requests
        await requests.close_idle()
        nursery.cancel_scope.cancel()


async def test_request_that_may_be_done_twice_is_sent_again_when_its_connection_ends() -> None:
    server = Server(OK, HANG_UP, OK)
    async with serving(server) as requests:
        await requests.ask("GET", "/a")
        await requests.ask("DELETE", "/b")
        assert server.requests == ["GET /a", "DELETE /b", "DELETE /b"]
        assert requests.statistics().retries == 1


async def test_request_that_may_not_be_done_twice_is_sent_once() -> None:
    server = Server(OK, HANG_UP, OK)
    async with serving(server, SOON) as requests:
        await requests.ask("GET", "/a")
        with pytest.raises(Disconnected, match="may be done or not"):
            await requests.ask("POST", "/b", body=b"x", again=False)
        assert server.requests == ["GET /a", "POST /b"]


async def test_request_that_a_closing_broker_did_not_do_is_sent_again() -> None:
    server = Server(CLOSING, OK)
    async with serving(server, SOON) as requests:
        assert (await requests.ask("POST", "/b", again=False)).status == 200
    server = Server(CLOSING, OK)
    async with serving(server) as requests:
        with pytest.raises(Disconnected, match="503"):
            await requests.ask("POST", "/b", again=False)


async def test_get_of_a_broker_on_its_way_out_is_sent_again() -> None:
    server = Server(CLOSING.replace(b"RestMS-Error: closing\r\n", b""), OK)
    async with serving(server, SOON) as requests:
        assert (await requests.ask("GET", "/a", waits=True)).status == 200


async def test_tries_are_as_many_as_the_policy_says() -> None:
    server = Server(*[HANG_UP] * 9)
    async with serving(server, SOON) as requests:
        with pytest.raises(Disconnected):
            await requests.ask("GET", "/a")
        assert len(server.requests) == SOON.attempts


async def test_answer_that_takes_too_long_ends_its_connection() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n")
    async with serving(server, patience=0.05) as requests:
        with pytest.raises(Disconnected, match="no answer to POST"):
            await requests.ask("POST", "/a", again=False)
        assert (requests.statistics().idle, requests.statistics().busy) == (0, 0)


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 x\r\n\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_what_is_no_answer_is_disconnected(reply: bytes) -> None:
    server = Server(reply)
    async with serving(server, patience=0.2) as requests:
        with pytest.raises(Disconnected):
            await requests.ask("POST", "/a", again=False)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused), (401, AccessRefused), (403, AccessRefused), (404, NotFound), (412, PreconditionFailed),
        (413, LimitExceeded), (429, LimitExceeded), (500, Refused), (501, Refused), (503, LimitExceeded),
        (507, LimitExceeded),
    ],
)  # fmt: skip
async def test_status_is_an_error_with_the_broker_s_text(status: int, error: type[Refused]) -> None:
    server = Server(b"HTTP/1.1 %d X\r\nContent-Length: 4\r\n\r\nwhy\n" % status)
    async with serving(server) as requests:
        with pytest.raises(error) as raised:
            await requests.ask("POST", "/a")
        assert type(raised.value) is error
        assert str(raised.value) == f"{status} why"
        assert requests.statistics().idle == 1


async def test_connection_that_was_idle_for_long_is_not_used_again(autojump_clock: trio.testing.MockClock) -> None:
    closed: list[float] = []

    class Line:
        is_usable = True
        idle_since = 0.0

        async def close(self) -> None:
            closed.append(trio.current_time())

    requests = Requests(RestMSUrl(host="localhost", port=1), None, None)
    line = Line()
    await requests.give_back(line)  # type: ignore[arg-type]
    await trio.sleep(29)
    assert await requests.borrow() is line
    await requests.give_back(line)  # type: ignore[arg-type]
    await trio.sleep(31)
    with pytest.raises(Disconnected):
        await requests.borrow()
    assert len(closed) == 1


@pytest.mark.parametrize("body", [b'{"restms":{"domain":[{"name":"default"}]}}', b'{"restms":{}}', b"<html/>"])
async def test_domain_without_the_profile_that_is_known_is_refused(body: bytes) -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    async with serving(server) as requests:
        with pytest.raises(RemoteProtocolError):
            async with open_restms(requests.url):
                pass


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("http://h/restms/x", "/restms/x"), ("/restms/x", "/restms/x"), ("https://h:1/", "/"), ("http://h", "/"),
        ("/restms/feed/a://b", "/restms/feed/a://b"),
    ],
)  # fmt: skip
def test_host_of_a_uri_is_not_looked_at(uri: str, path: str) -> None:
    assert path_of(uri) == path
