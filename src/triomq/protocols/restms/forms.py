"""A document in the form that a media type names."""

from collections.abc import Sequence

from triomq.protocols.restms.documents import Document, DomainElement, FeedElement
from triomq.protocols.restms.json_form import feeds_as_json, parse_json, render_json
from triomq.protocols.restms.media import MediaType
from triomq.protocols.restms.problems import Problem
from triomq.protocols.restms.xml_form import feeds_as_xml, parse_xml, render_xml


def parse(body: bytes, media_type: MediaType) -> Document | Problem:
    """Read a document; an empty body is none, which is for the caller to see before if it is allowed.

    Args:
        body: All of it; the caller has limited its size.
        media_type: As ``document_type`` or ``message_type`` read it.
    """
    if not body or body.isspace():
        return Problem("empty", "the request has no document; send one, with its Content-Type")
    if media_type.is_json:
        return parse_json(body)
    return parse_xml(body, media_type.charset)


def render(document: Document, media_type: MediaType) -> bytes:
    """Write a document."""
    return render_json(document) if media_type.is_json else render_xml(document)


class DomainWriter:
    """Writes the document of a domain with any number of feeds, some at a time: what ``render`` would write at once.

    Args:
        domain: The domain without its feeds; it has a profile at least.
        media_type: How it is written.
    """

    __slots__ = ("_begin", "_end", "_is_json", "_pieces")

    def __init__(self, domain: DomainElement, media_type: MediaType) -> None:
        self._is_json = media_type.is_json
        whole = render(Document(domains=(domain,)), media_type)
        end = whole.rindex(b"}]}}" if self._is_json else b"</domain>")
        self._begin, self._end = whole[:end], whole[end:]
        self._pieces: list[bytes] = []

    def add(self, feeds: Sequence[FeedElement]) -> bytes:
        """Add feeds, one at least, behind those that are there; return what was written for them."""
        piece = feeds_as_json(feeds) if self._is_json else feeds_as_xml(feeds)
        self._pieces.append(piece)
        return piece

    def finish(self) -> bytes:
        """Return the document."""
        if self._is_json and self._pieces:
            return b'%b,"feed":[%b]%b' % (self._begin, b",".join(self._pieces), self._end)
        return b"".join((self._begin, *self._pieces, self._end))
