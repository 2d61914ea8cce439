"""Requests to one broker: which connection takes them, when they are tried again, and what refusals are.

A request takes an idle connection or makes one, and gives it back when it is answered; there are as many as there were
tasks that asked at one moment. What may be done twice (GET, PUT, DELETE, a public feed, a join) is asked again after
the connection broke; a new pipe is not, nor are messages if the policy says so: the broker may have them. An idle
connection is not used any more before the broker would close it, so that nothing is sent into one that is about to end.
"""

import logging
import math
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
import trio

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.restms.http_line import HTTPLine, HTTPReply, dial
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
from triomq.protocols.restms import JSON, Document, Problem, parse, render

_log = logging.getLogger("triomq.clients")

_IDLE: Final = 30.0
"""Seconds after which an idle connection is not used any more: servers keep them for 60 or more, ours for 75."""

_ERRORS: Final[dict[int, type[Refused]]] = {
    401: AccessRefused,
    403: AccessRefused,
    404: NotFound,
    412: PreconditionFailed,
    413: LimitExceeded,
    429: LimitExceeded,
    503: LimitExceeded,
    507: LimitExceeded,
}


class NotDone(Disconnected):
    """There is no connection, or the broker says that it has not done what was asked for."""


class RestMSStatistics(msgspec.Struct, frozen=True, gc=False):
    """A client at one moment.

    Args:
        idle: Connections that wait for a request.
        busy: Connections with a request, pipes that are read among them.
        requests: Requests that were answered.
        retries: How often one was tried again since its connection broke.
    """

    idle: int
    busy: int
    requests: int
    retries: int


class Requests:
    """Owned by a ``RestMSConnection``.

    Args:
        url: Where to, and as whom.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        policy: When to try again; None is once and at once, since an idle connection may be about to end.
    """

    def __init__(self, url: RestMSUrl, ssl_context: ssl.SSLContext | None, policy: Reconnect | None) -> None:
        self.url = url
        self.policy = policy
        self._ssl_context = ssl_context
        self._headers = url.headers
        self._signs_of_life = {"Prefer": f"wait={url.wait}"}
        self._idle: list[HTTPLine] = []
        self._busy = self._requests = self._retries = 0

    @property
    def resends(self) -> bool:
        """Whether publishes are sent again, so that a broker may have them twice."""
        return self.policy is not None and self.policy.resend

    def statistics(self) -> RestMSStatistics:
        """Return what goes on."""
        return RestMSStatistics(len(self._idle), self._busy, self._requests, self._retries)

    async def ask(
        self,
        method: str,
        target: str,
        document: Document | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        again: bool = True,
        waits: bool = False,
    ) -> HTTPReply:
        """Send a request, and return its answer if it is good.

        Args:
            method: Such as ``GET``.
            target: The path, or a URI whose host is not looked at.
            document: What to send.
            body: What to send otherwise.
            headers: Further fields.
            again: Whether it may be done twice, so that it is tried again after the connection broke.
            waits: Whether the answer comes when there is something, as that of an asynclet; it is 204 where nothing has
                come for a third of the URL's ``silence``.

        Raises:
            AccessRefused: The user may not, or is none.
            NotFound: There is nothing.
            LimitExceeded: It is too large, or too much, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            Disconnected: The connection broke, or there is none.
        """
        fields = {**self._headers, "Accept": JSON.name, **(self._signs_of_life if waits else {}), **(headers or {})}
        if document is not None:
            fields["Content-Type"], body = JSON.name, render(document, JSON)
        failures = 0
        while True:
            try:
                reply = await self._ask_once(method, path_of(target), fields, body, waits)
                return checked(reply, of_get=method == "GET")
            except NotDone as error:
                await self.wait_again(failures, error)
            except Disconnected as error:
                if not again:
                    raise
                self.log(logging.INFO, "asking again", method=method, reason=error)
                await self.close_idle()  # which have ended with it
                if failures:  # the first one may have taken a connection that was about to end
                    await self.wait_again(failures, error)
            failures += 1
            self.count_retry()

    async def _ask_once(self, method: str, path: str, fields: Mapping[str, str], body: bytes, waits: bool) -> HTTPReply:
        line = await self.borrow()
        try:
            with self.limit(f"no answer to {method}", waits=waits):
                reply = await line.ask(method, path, fields, body)
        finally:
            await self.give_back(line)
        self._requests += 1
        return reply

    @contextmanager
    def limit(self, what: str, *, waits: bool = False) -> Iterator[None]:
        """Bound what a block waits for.

        Args:
            what: What has not come then.
            waits: Whether it waits for something to come, and not only for an answer.

        Raises:
            Disconnected: That long has passed.
        """
        name, seconds = ("silence", self.url.silence) if waits else ("timeout", self.url.timeout)
        with trio.move_on_after(seconds) as scope:
            yield
        if scope.cancelled_caught:
            text = f"{what} from {self.url.place} within {seconds:g} s; see whether it is busy"
            raise Disconnected(f"{text}, or raise ?{name}= in the URL")

    def count_retry(self) -> None:
        """Have the statistics say that something was tried again."""
        self._retries += 1

    async def wait_again(self, failures: int, error: Disconnected) -> None:
        """Wait until the next try; raise the error if there is to be none.

        Args:
            failures: How many tries have failed before.
            error: Why this one did.
        """
        if self.policy is None or failures + 1 >= (self.policy.attempts or math.inf):
            raise error
        seconds = self.policy.seconds(failures)
        self.log(logging.INFO, "trying again", waits=round(seconds, 3), reason=error)
        await trio.sleep(seconds)

    def log(self, level: int, text: str, **fields: object) -> None:
        """Log what becomes of connections; where they lead, without the password."""
        _log.log(level, text, extra={"fields": {"place": self.url.place, **fields}})

    async def borrow(self) -> HTTPLine:
        """Return a connection for one request.

        Raises:
            NotDone: There is none.
        """
        while self._idle:
            line = self._idle.pop()
            if trio.current_time() - line.idle_since < _IDLE:
                self._busy += 1
                return line
            await line.close()
        try:
            line = await dial(self.url, self._ssl_context)
        except Disconnected as error:
            raise NotDone(str(error)) from None
        self._busy += 1
        return line

    async def give_back(self, line: HTTPLine) -> None:
        """Have a connection used again, or close it if that cannot be."""
        self._busy -= 1
        if line.is_usable:
            line.idle_since = trio.current_time()
            self._idle.append(line)
        else:
            await line.close()

    def follow_headers(self, last: str) -> dict[str, str]:
        """Return the fields of a request for events, from behind one of them on."""
        seen = {"Last-Event-ID": last} if last else {}
        return {**self._headers, "Accept": "text/event-stream", **self._signs_of_life, **seen}

    async def close_idle(self) -> None:
        """Close the connections that wait for a request."""
        while self._idle:
            await self._idle.pop().close()


def path_of(uri: str) -> str:
    """Return a URI without scheme and host: the broker may call itself by another name than we do."""
    scheme, found, rest = uri.partition("://")
    if not found or "/" in scheme:
        return uri
    return f"/{rest.partition('/')[2]}"


def checked(reply: HTTPReply, *, of_get: bool = False) -> HTTPReply:
    """Return an answer that is good; raises as ``ask`` does, and ``NotDone``."""
    if reply.status < 400:
        return reply
    text = reply.body[:2000].decode("utf-8", "replace").strip()
    # A GET is never refused for memory: then the broker is on its way out.
    if reply.status == 503 and (of_get or reply.headers.get("restms-error") == "closing"):
        raise NotDone(f"503 {text}")
    raise _ERRORS.get(reply.status, Refused)(f"{reply.status} {text}")


def document_of(reply: HTTPReply) -> Document:
    """Return the document of an answer.

    Raises:
        RemoteProtocolError: It is none.
    """
    found = parse(reply.body, JSON)
    if isinstance(found, Problem):
        raise RemoteProtocolError(f"the broker's answer cannot be read: {found.text}")
    return found
