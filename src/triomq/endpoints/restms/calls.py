"""One request: who asks for what, and how it is answered; made by its connection, ends with its answer."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from triomq.endpoints.restms.client import RestMSClient, client_of
from triomq.endpoints.restms.pipes import ServedPipe
from triomq.endpoints.restms.targets import RequestTarget
from triomq.errors import Refused
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.connection import RestMSServerConnection
    from triomq.endpoints.restms.resources import RestMSDomain
    from triomq.protocols.http1 import RequestHead

T = TypeVar("T")

TAG_BYTES: Final = 12
"""Bytes of the digest of a document: two that differ have the same tag in one of 2^48 tries, at worst."""

_encode: Final = msgspec.msgpack.Encoder().encode

_NO_HEADERS: Final[Mapping[str, str]] = {}


class Refusal(Refused):
    """A request that cannot be done, and what its client is told; never leaves the connection."""

    def __init__(self, problem: restms.Problem) -> None:
        self.problem = problem
        super().__init__(problem.text)


class TryAgain(Exception):
    """A request is to be handled anew, in a turn of its own; never leaves the connection."""


def require(found: T | restms.Problem) -> T:
    """Return what was found.

    Raises:
        Refusal: It is a problem.
    """
    if isinstance(found, restms.Problem):
        raise Refusal(found)
    return found


class RestMSCall:
    """One request.

    Args:
        connection: Where it came.
        request: Its head.
        user: Who asks.
        target: What for.
        route: The path as it was given.
        links: URIs for the answer.
    """

    __slots__ = ("_client", "connection", "links", "media", "request", "route", "target", "user")

    def __init__(
        self,
        connection: "RestMSServerConnection",
        request: "RequestHead",
        user: str,
        target: RequestTarget,
        route: restms.RequestRoute,
        links: restms.Links,
    ) -> None:
        self.connection = connection
        self.request = request
        self.user = user
        self.target = target
        self.route = route
        self.links = links
        self.media = restms.TEXT_XML
        self._client: RestMSClient | None = None  # once it was asked for

    @property
    def domain(self) -> "RestMSDomain":
        """The domain of what is asked for."""
        assert self.target.domain is not None
        return self.target.domain

    @property
    def client(self) -> RestMSClient:
        """What works for the user there.

        Raises:
            AccessRefused: The user may not be there.
        """
        client = self._client
        if client is None or client.ending or client.has_left:
            client = self._client = client_of(self.connection.endpoint_of_restms, self.user, self.domain)
            self.connection.borrow(client)
        return client

    def wake(self, pipe: ServedPipe) -> None:
        """Let a pipe take what its queues have, and handle this request when it has.

        Raises:
            TryAgain: That is at the end of this turn.
        """
        if self.client.wake(pipe):
            raise TryAgain

    # What is asked for

    def choose(self, default: restms.MediaType = restms.TEXT_XML, *, events: bool = False) -> None:
        """Choose the form of the answer.

        Raises:
            Refusal: The client accepts none that there is.
        """
        self.media = require(restms.accepted(self.request.headers.get("accept"), default, events=events))

    def read_document(self, take: Callable[[restms.Document], None]) -> None:
        """Read the request's document, and then go on with it; the answer is to have the same form.

        Raises:
            Refusal: It is in no form that is read.
        """
        media = require(restms.document_type(self.request.headers.get("content-type")))
        self.read_as(media, take)

    def read_as(self, media: restms.MediaType, take: Callable[[restms.Document], None]) -> None:
        """Read the request's document in one form, and then go on with it."""
        self.require_plain()
        self.choose(media)
        most = self.domain.config.max_document
        if (self.request.length or 0) > most:
            raise Refusal(restms.too_large(self.request.length, most))

        def read(body: bytes, ended: bool) -> None:
            self.look_again()
            take(require(restms.parse(body, media)))

        self.connection.read_for(self, most, read)

    def require_plain(self) -> None:
        """Require that the body is not compressed.

        Raises:
            Refusal: It is.
        """
        if "content-encoding" in self.request.headers:
            require(restms.content_coding(self.request.headers["content-encoding"]))

    def look_again(self) -> None:
        """Find what is asked for once more: a body takes its time, and others may have deleted it meanwhile.

        Raises:
            Refusal: It is not there any more, or not what it was.
        """
        found = self.connection.find(self.route, self.user)
        if found.kind != self.target.kind:
            raise Refusal(restms.no_resource(self.request.path))
        self.target = found

    # Answers

    @property
    def is_over(self) -> bool:
        """Whether it was answered, or its client has gone."""
        return not self.connection.is_open(self.request)

    def answer(self, status: int, body: bytes | memoryview = b"", headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Answer; nothing if the request is over."""
        self.connection.answer(self.request, status, body, headers)

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer in pieces."""
        self.connection.begin_answer(self.request, status, headers)

    def send_piece(self, data: bytes) -> None:
        """Send a piece of it."""
        self.connection.send_piece(self.request, data)

    def end_answer(self) -> None:
        """End it."""
        self.connection.end_answer(self.request)

    def refuse(self, problem: restms.Problem) -> None:
        """Answer that it cannot be done, and why."""
        self.answer(problem.status, problem.body, problem.answer_headers)

    def show(
        self,
        document: restms.Document,
        modified: float,
        *,
        status: int = 200,
        location: str | None = None,
    ) -> None:
        """Answer by a document; a GET may have it already."""
        version = version_of(document, modified)
        self.show_rendered(version, lambda: restms.render(document, self.media), status=status, location=location)

    def show_rendered(
        self, version: restms.Version, render: Callable[[], bytes], *, status: int = 200, location: str | None = None
    ) -> None:
        """Answer by what renders a document; a GET may have it already."""
        headers = restms.document_headers(version, self.media, location=location)
        if self.request.method in ("GET", "HEAD"):
            conditions = restms.Conditions.of(self.request.headers)
            if conditions.unchanged(version, self.media):
                self.answer(304, b"", headers)
                return
        self.answer(status, render(), headers)

    def require_unchanged(self, view: Callable[[], restms.Document], modified: float) -> None:
        """Require what a PUT or DELETE says that it knows of a resource.

        Args:
            view: Returns the resource's document; called if anything is said.
            modified: When it has changed.

        Raises:
            Refusal: It has changed.
        """
        conditions = restms.Conditions.of(self.request.headers)
        if not conditions.are_none:
            problem = conditions.refusal(version_of(view(), modified))
            if problem is not None:
                raise Refusal(problem)

    def done(self) -> None:
        """Answer that it is done, with nothing else to say."""
        self.answer(200)

    def made(self, document: restms.Document, modified: float, location: str, *, is_new: bool) -> None:
        """Answer that something was made, or that it was there, when that is on disk."""
        if is_new:
            self.connection.hold_until_safe(self.domain)
        else:
            self.connection.hold_while_others_are()
        self.show(document, modified, status=201 if is_new else 200, location=location)


def version_of(document: restms.Document, modified: float) -> restms.Version:
    """Return the version of a document: a digest, so that whatever changes it changes that."""
    try:
        encoded = _encode(document)
    except UnicodeEncodeError:  # texts of AMQP need not be UTF-8
        encoded = repr(document).encode()
    return restms.Version(blake2b(encoded, digest_size=TAG_BYTES).hexdigest(), modified)
