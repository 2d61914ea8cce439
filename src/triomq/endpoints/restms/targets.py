"""What a request is about: from its path to the resource that is there, for its user.

A resource of another user is not there. A hash leads to a resource wherever it is. Two kinds of hashes are made out of
others, since there are very many and hardly any is asked for: those of default joins, and of contents of messages.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from triomq.endpoints.feeds import FeedView, JoinState, find_feed
from triomq.endpoints.restms.pipes import PipeMessage, ServedPipe
from triomq.endpoints.restms.staged import StagedContent
from triomq.endpoints.restms.views import CONTENT
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.resources import RestMSDomain, RestMSResources


class RequestTarget(msgspec.Struct, frozen=True):
    """What a path leads to.

    Args:
        kind: As ``restms.action_of`` knows it.
        domain: Where it is; None for the root, and for what is missing.
        feed: The feed (RestMS's word) that it is.
        pipe: The pipe that it is, or that it belongs to.
        message: The message that it is, or whose content it is; an asynclet too.
        join: The join that it is; None for a default join.
        content: The staged content that it is.
    """

    kind: restms.ResourceKind
    domain: "RestMSDomain | None" = None
    feed: FeedView | None = None
    pipe: ServedPipe | None = None
    message: PipeMessage | None = None
    join: JoinState | None = None
    content: StagedContent | None = None


class FoundFeed(NamedTuple):
    """A feed (RestMS's word) that was found for a user; and what must be as it was then, for it to be the same.

    Args:
        target: What was found.
        user: For whom.
        users: The version of all users.
        directory: The version of the domain's directory.
        record: What the domain's book has of the feed.
    """

    target: RequestTarget
    user: str
    users: int
    directory: int
    record: object

    @classmethod
    def of(cls, target: RequestTarget, user: str, users: int) -> "FoundFeed | None":
        """Return what is to be remembered of a target; nothing of what is no feed: pipes and messages come and go."""
        if target.feed is None or target.domain is None:
            return None
        book = target.domain.book
        return cls(target, user, users, book.directory.version, book.feeds.get(target.feed.name))

    def stands(self, user: str, users: int) -> bool:
        """Return whether the same would be found now."""
        return (self.user, self.users) == (user, users) and FoundFeed.of(self.target, user, users) == self


_MISSING: Final = RequestTarget("missing")


def find_target(
    resources: "RestMSResources", route: restms.RequestRoute, user: str, *, is_administrator: bool
) -> RequestTarget:
    """Return what a route leads to, for a user."""
    if route.kind in ("root", "description"):
        return RequestTarget(route.kind)
    if route.kind == "any":
        return _MISSING
    if route.kind == "resource":
        return _find_hash(resources, route.name, user, is_administrator=is_administrator)
    domain = resources.domains.get(route.name if route.kind == "domain" else route.domain or "default")
    if domain is None:
        return _MISSING
    if route.kind == "domain":
        return RequestTarget("domain", domain)
    return _of_feed(domain, route.name, user, is_administrator=is_administrator)


def _of_feed(domain: "RestMSDomain", name: str, user: str, *, is_administrator: bool) -> RequestTarget:
    feed = find_feed(domain.book, name)
    if feed is None:
        return _MISSING
    may_change = feed.is_changed_by(user, is_administrator=is_administrator)
    return RequestTarget("feed" if may_change else "configured feed", domain, feed=feed)


def _find_hash(resources: "RestMSResources", hash_: str, user: str, *, is_administrator: bool) -> RequestTarget:
    found = resources.find(hash_)
    if found is None:
        return _find_made_of_another(resources, hash_, user)
    match found:
        case StagedContent():
            return RequestTarget("content", found.domain, content=found) if found.user == user else _MISSING
        case ServedPipe():
            return RequestTarget("pipe", found.domain, pipe=found) if _is_theirs(found, user) else _MISSING
        case PipeMessage():
            kind: restms.ResourceKind = "asynclet" if found.is_asynclet else "message"
            is_theirs = _is_theirs(found.pipe, user) and (found.is_asynclet or found.is_there)
            return RequestTarget(kind, found.pipe.domain, pipe=found.pipe, message=found) if is_theirs else _MISSING
        case JoinState():
            pipe = resources.serve(found.pipe)
            is_theirs = _is_theirs(pipe, user) and found.is_there
            return RequestTarget("join", pipe.domain, pipe=pipe, join=found) if is_theirs else _MISSING
        case _:
            return _of_feed(found.domain, found.name, user, is_administrator=is_administrator)


def _find_made_of_another(resources: "RestMSResources", hash_: str, user: str) -> RequestTarget:
    message = resources.found.get(hash_.removeprefix(CONTENT))
    if hash_.startswith(CONTENT) and isinstance(message, PipeMessage) and _is_theirs(message.pipe, user):
        if message.is_there and message.has_content:
            return RequestTarget("content", message.pipe.domain, pipe=message.pipe, message=message)
        return _MISSING
    pipe = resources.find_pipe_of_default_join(hash_)
    if pipe is not None and _is_theirs(pipe, user):
        return RequestTarget("default join", pipe.domain, pipe=pipe)
    return _MISSING


def _is_theirs(pipe: ServedPipe, user: str) -> bool:
    return pipe.state.record.user == user
