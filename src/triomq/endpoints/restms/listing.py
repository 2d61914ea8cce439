"""The document of a domain, which lists all public feeds (RestMS's word), and so is written some feeds at a time.

A domain with 10,000 exchanges and shared queues has a document of more than a MiB; at once that would be a turn of
70 ms. What is made or deleted meanwhile is listed or not.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final

from triomq.endpoints.feeds import feed_names, find_public
from triomq.endpoints.restms.calls import TAG_BYTES
from triomq.endpoints.restms.views import view_domain, view_feed
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.calls import RestMSCall

_AT_ONCE: Final = 500
"""Names of one turn: some 4 ms."""


class DomainListing:
    """A GET of a domain.

    Args:
        call: The request.
    """

    __slots__ = ("_call", "_digest", "_modified", "_names", "_writer")

    def __init__(self, call: "RestMSCall") -> None:
        self._call = call
        self._modified = call.domain.looked()
        self._writer = restms.DomainWriter(view_domain(call.domain), call.media)
        self._digest = blake2b(repr(call.domain.book.profiles).encode(), digest_size=TAG_BYTES)
        self._names: Iterator[str] = iter(feed_names(call.domain.book))

    def go_on(self) -> None:
        """Add some feeds (RestMS's word), and answer if these were the last; nothing if the request is over."""
        domain, links = self._call.domain, self._call.links
        names = list(islice(self._names, _AT_ONCE))
        found = [feed for name in names if (feed := find_public(domain.book, name)) is not None]
        if found:
            views = [view_feed(domain, feed, links, listed=True) for feed in found]
            self._digest.update(self._writer.add(views))
        if len(names) < _AT_ONCE:
            version = restms.Version(self._digest.hexdigest(), self._modified)
            self._call.show_rendered(version, self._writer.finish)
        elif not self._call.is_over:
            self._call.connection.in_turn(self.go_on)
