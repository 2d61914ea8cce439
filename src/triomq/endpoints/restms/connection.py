"""A connection over which RestMS is spoken: what is asked for, and by which function it is answered.

    HTTPConnection ── requested(request, user) ──▶ target ──▶ action ──▶ _HANDLERS[kind, action](call)
                      no body is read yet           404        403        answers, reads the body first, or waits

Whatever can be found out without the body is: who asks, whether the resource is there, whether the method is allowed
there, whether the length is. What is refused later is raised as well, and nothing has happened then.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from triomq.core import Forbidden, Persistence, Pressure, PublishingPaused, UserLimitReached
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import ClientEnded
from triomq.endpoints.feeds import (
    BadAddress,
    BadFeedName,
    DefaultFeedJoin,
    NotAFeed,
    OnlySharedFeeds,
    OtherType,
    TooManyJoins,
    UnknownType,
)
from triomq.endpoints.http import HTTPAnswer, HTTPConnection
from triomq.endpoints.restms import message_handlers as messages
from triomq.endpoints.restms import resource_handlers as resources
from triomq.endpoints.restms.calls import Refusal, RestMSCall, TryAgain, require
from triomq.endpoints.restms.polls import WaitingCall
from triomq.endpoints.restms.staged import StagedContent
from triomq.endpoints.restms.targets import FoundFeed, RequestTarget, find_target
from triomq.errors import AccessRefused, ActorError, LimitExceeded, NotFound, PreconditionFailed, ResourceLocked
from triomq.protocols import restms
from triomq.protocols.http1 import RequestBody, RequestHead
from triomq.transports import Transport

if TYPE_CHECKING:
    from triomq.endpoints.restms.config import RestMS
    from triomq.endpoints.restms.endpoint import RestMSEndpoint
    from triomq.endpoints.restms.resources import RestMSDomain

Handler = Callable[[RestMSCall], None]

_NO_FIELDS: Final[Mapping[str, str]] = {}

_EXPOSED: Final = "ETag, Location, Last-Modified, RestMS-Error, Retry-After"
"""Fields of answers that scripts of a page may read."""

_ALLOWED_FIELDS: Final = (
    "Authorization, Content-Type, Accept, Prefer, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, "
    "When-None-Match, When-Modified-After, Last-Event-ID"
)
"""Fields of requests that scripts of a page may send."""


class LastRequest(NamedTuple):
    """What a connection has asked for last: as it stood there, what that names, and the feed (RestMS's word)."""

    text: str
    route: restms.RequestRoute
    feed: FoundFeed | None = None


class RestMSServerConnection(HTTPConnection):
    """One connection; made by the endpoint.

    Args:
        transport: The bytes; owned from now on.
        context: What the broker lends.
        config: Of the endpoint.
        endpoint: Which has made it.
    """

    def __init__(
        self, transport: Transport, context: BrokerContext, config: "RestMS", endpoint: "RestMSEndpoint"
    ) -> None:
        insecure = config.allow_plain_insecure
        super().__init__(transport, context, realm=config.realm, allow_plain_insecure=insecure, tls=config.tls)
        self.endpoint_of_restms = endpoint
        self._waiting: WaitingCall | None = None
        self._links: tuple[str, restms.Links] | None = None  # of the host that was named last
        self._last: LastRequest | None = None

    staging: StagedContent | None = None
    """A content whose body comes."""

    @property
    def config(self) -> "RestMS":
        """Of the endpoint."""
        return self.endpoint_of_restms.config

    @property
    def patience_under_pressure(self) -> float:
        """As it is configured."""
        return self.config.patience

    # Requests

    def wants_login(self, request: RequestHead) -> bool:
        """Return whether a request needs a user: all but those that browsers send first."""
        return request.method != "OPTIONS"

    def requested(self, request: RequestHead, user: str) -> None:
        """Find what a request is about, and have it answered."""
        route = self._route_of(request)
        if request.method == "OPTIONS":
            self._answer_options(request)
            return
        self._require_origin(request)
        self._count_for(user)
        self.endpoint_of_restms.require_rate(user)
        target = self.find(route, user)
        action = require(restms.action_of(request.method, target.kind, request.path))
        call = RestMSCall(self, request, user, target, route, self._links_for(request))
        try:
            _HANDLERS[target.kind, action](call)
        except TryAgain:
            self.in_turn(self._handle_again, request)

    def _route_of(self, request: RequestHead) -> restms.RequestRoute:
        last = self._last
        if last is None or last.text != request.target:
            last = self._last = LastRequest(request.target, require(restms.route(request.target)))
        return last.route

    def find(self, route: restms.RequestRoute, user: str) -> RequestTarget:
        """Return what a route leads to, for a user; a feed (RestMS's word) is looked up once, as long as it stands."""
        users, last = self.context.users, self._last
        if last is None or last.route is not route:  # a body takes its time, but no other request comes meanwhile
            last = LastRequest("", route)
        if last.feed is not None and last.feed.stands(user, users.version):
            return last.feed.target
        found = users.get(user)
        is_administrator = found is not None and found.is_administrator
        target = find_target(self.endpoint_of_restms.resources, route, user, is_administrator=is_administrator)
        self._last = last._replace(feed=FoundFeed.of(target, user, users.version))
        return target

    def _count_for(self, user: str) -> None:
        """Count this connection among those of the user who asks.

        Raises:
            UserLimitReached: The user has as many as it may have.
        """
        if user != self.user:
            self.context.quotas.require("connect", user, "connections")
            self._uncount()
            self.context.quotas.take(user, "connections")
            self.identify(user)  # it ends with that user

    def _uncount(self) -> None:
        user, self.user = self.user, ""
        if user:
            self.context.quotas.give(user, "connections")

    def released(self) -> None:
        """Close the transport, and count one connection less."""
        self._uncount()
        super().released()

    def _handle_again(self, event: RequestHead | RequestBody) -> None:
        """Handle a request, or its body, once more; if it is over meanwhile nothing is done."""
        if not self.has_left:
            self.do_next(event)
            self.work_off()

    def _links_for(self, request: RequestHead) -> restms.Links:
        host = request.headers.get("host", "")
        if self._links is None or self._links[0] != host:
            here = self.endpoint_of_restms.here
            scheme = "https" if self._transport.is_encrypted else "http"
            base = require(restms.base_of(request.headers, scheme, here, configured=self.config.url))
            self._links = host, restms.Links(base)
        return self._links[1]

    def read_for(
        self, call: RestMSCall, most: int, take: Callable[[bytes, bool], None], *, pieces: bool = False
    ) -> None:
        """Read the body of a request."""

        def take_all(body: bytes, ended: bool) -> None:
            try:
                take(body, ended)
            except TryAgain:
                self.in_turn(self._handle_again, RequestBody(body, ended))

        self.read_body(call.request, most, take if pieces else take_all, pieces=pieces)

    def hold_until_safe(self, domain: "RestMSDomain") -> None:
        """Write nothing until the store has what was just made or deleted."""
        persistence: Persistence | None = domain.directory.persistence
        if persistence is not None:
            persistence.mark_sync_point()
            self.hold_replies(persistence)

    def hold_while_others_are(self) -> None:
        """Write nothing until the store has what earlier answers wait for.

        Who asks a second time for something hears at once that it is done; but it may be on disk no more than for the
        one who has asked first.
        """
        for domain in self.endpoint_of_restms.resources.domains.values():
            if domain.directory.persistence is not None:
                self.hold_replies(domain.directory.persistence)  # all domains have one

    # What waits

    def wait_with(self, waiting: WaitingCall) -> None:
        """Let a request wait."""
        self._waiting = waiting
        self.wait(waiting.call.request)

    def waits_no_longer(self, waiting: WaitingCall) -> None:
        """Forget a request that waits, and its timer."""
        self.endpoint_of_restms.timers.discard(waiting)
        if self._waiting is waiting:
            self._waiting = None

    def call_after(self, waiting: WaitingCall, seconds: float, function: Callable[[], None]) -> None:
        """Call something in a turn, unless the request is over before."""

        def ring(now: float) -> None:
            self.ref.run_in_turn(function)

        self.endpoint_of_restms.timers.set(waiting, trio.current_time() + seconds, ring)

    def request_over(self, request: RequestHead) -> None:
        """Forget a request that is answered, or whose client has gone: nothing was taken for it."""
        if self._waiting is not None:
            self._waiting.end()
        if self.staging is not None:
            self.staging.end()
            self.staging = None

    def writable(self, request: RequestHead) -> None:
        """Go on with a stream of events that its client reads again."""
        if self._waiting is not None:
            self._waiting.go_on()

    # Pages of other origins

    def fields_for(self, request: RequestHead) -> Mapping[str, str]:
        """Return what lets a page of another origin read the answer, where that is configured."""
        origin = request.headers.get("origin")
        if origin is None:
            return _NO_FIELDS
        if origin in self.config.allow_origins:
            allowed = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
        elif "*" in self.config.allow_origins:  # which is for pages that bring a password of their own
            allowed = {"access-control-allow-origin": "*"}
        else:
            return _NO_FIELDS
        return {**allowed, "access-control-expose-headers": _EXPOSED}

    def _require_origin(self, request: RequestHead) -> None:
        """Require that a request which changes something comes from no page that may not: browsers add passwords.

        Raises:
            Refusal: It does.
        """
        origin = request.headers.get("origin")
        if origin is None or request.method in ("GET", "HEAD") or self.fields_for(request):
            return
        if origin.partition("://")[2] != request.headers.get("host", ""):
            text = f"pages of {origin[:80]!r} may not do this; an administrator can add it to allow_origins"
            raise Refusal(restms.Problem("forbidden", text))

    def _answer_options(self, request: RequestHead) -> None:
        headers = {"allow": "GET, HEAD, POST, PUT, DELETE, OPTIONS"}
        if "access-control-request-method" in request.headers and self.fields_for(request):
            headers |= {
                "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
                "access-control-allow-headers": _ALLOWED_FIELDS,
                "access-control-max-age": "600",
            }
        self.answer(request, 204, b"", headers)

    # What cannot be done

    def answer_to(self, error: Exception) -> HTTPAnswer:
        """Return the answer to what was refused: a text, and a word for programs."""
        return _answer_of(error.problem if isinstance(error, Refusal) else problem_of(error))

    def refusal(self, status: int, text: str, headers: Mapping[str, str] = _NO_FIELDS) -> HTTPAnswer:
        """Return the answer to a request that HTTP refuses: with a word for programs, too."""
        code: restms.ProblemCode = "closing" if self.ending and status == _UNAVAILABLE else _HTTP_CODES[status]
        return _answer_of(restms.Problem(code, text, headers))


def _answer_of(problem: restms.Problem) -> HTTPAnswer:
    return HTTPAnswer(problem.status, problem.body, problem.answer_headers)


_UNAVAILABLE: Final = 503

_HTTP_CODES: Final[Mapping[int, restms.ProblemCode]] = {
    401: "login",
    403: "forbidden",
    429: "too-many",
    _UNAVAILABLE: "overloaded",
}


def problem_of(error: Exception) -> restms.Problem:
    """Return what a client is told of a refusal of the core's."""
    text = str(error)
    match error:
        case PublishingPaused(pressure=Pressure.DISK):
            text = "the disk cannot be written, and nothing was published; try again when it can"
            return restms.Problem("disk-full", text, restms.retry_after(_RETRY))
        case PublishingPaused(pressure=pressure):
            text = f"{pressure.value}, and nothing was published; try again when consumers have made room"
            return restms.Problem("overloaded", text, restms.retry_after(_RETRY))
        case ClientEnded() | ActorError() | UserLimitReached():  # 2/RestMS: 503 is for limits, too
            return restms.Problem("overloaded", text, restms.retry_after(1.0))
        case (
            UnknownType()
            | OtherType()
            | BadAddress()
            | BadFeedName()
            | NotAFeed()
            | DefaultFeedJoin()
            | OnlySharedFeeds()
            | TooManyJoins()
        ):
            return restms.Problem(_CODES[type(error)], text)
        case NotFound():
            return restms.Problem("missing", text)
        case Forbidden() | AccessRefused():
            return restms.Problem("forbidden", text)
        case LimitExceeded():
            return restms.Problem("bad-property", text)
        case PreconditionFailed() | ResourceLocked():
            return restms.Problem("forbidden", text)
        case _:
            return restms.Problem("overloaded", text, restms.retry_after(1.0))


_CODES: Final[Mapping[type, restms.ProblemCode]] = {
    UnknownType: "unknown-type",
    OtherType: "other-type",
    BadAddress: "bad-property",
    BadFeedName: "bad-name",
    NotAFeed: "bad-name",
    DefaultFeedJoin: "default-feed",
    OnlySharedFeeds: "on-demand",
    TooManyJoins: "overloaded",  # 2/RestMS: 503 is for limits of pipes, too
}
"""Words of RestMS for what cannot be done with feeds (its word), pipes and joins."""

_RETRY: Final = 10.0
"""Seconds after which to try again what a pressure has refused: consumers or an administrator need as long."""


def _answer_nothing(call: RestMSCall) -> None:
    """Answer that what is not there is deleted."""
    call.connection.hold_while_others_are()
    call.done()


_HANDLERS: Final[Mapping[tuple[str, str], Handler]] = {
    ("root", "read"): resources.get_root,
    ("description", "read"): resources.get_description,
    ("domain", "read"): resources.get_domain,
    ("domain", "create"): resources.post_to_domain,
    ("feed", "read"): resources.get_feed,
    ("feed", "publish"): messages.post_to_feed,
    ("feed", "change"): resources.put_feed,
    ("feed", "delete"): resources.delete_feed,
    ("configured feed", "read"): resources.get_feed,
    ("configured feed", "publish"): messages.post_to_feed,
    ("pipe", "read"): messages.get_pipe,
    ("pipe", "create"): resources.post_to_pipe,
    ("pipe", "change"): resources.put_pipe,
    ("pipe", "delete"): resources.delete_pipe,
    ("join", "read"): resources.get_join,
    ("join", "delete"): resources.delete_join,
    ("default join", "read"): resources.get_join,
    ("message", "read"): messages.get_message,
    ("message", "delete"): messages.delete_message,
    ("asynclet", "read"): messages.get_asynclet,
    ("content", "read"): messages.get_content,
    ("content", "delete"): messages.delete_content,
    ("missing", "nothing"): _answer_nothing,
}
