"""What a document asks for, where it is posted or put.

2/RestMS says what each resource takes. A created resource has a single Location, so a document that creates holds one
resource (C40); only messages come in numbers.
"""

from typing import Final, Literal

import msgspec

from triomq.protocols.restms.documents import NAMES, Document, FeedElement, JoinElement, MessageElement, PipeElement
from triomq.protocols.restms.problems import Problem, shown

_CREATED: Final[dict[str, tuple[str, ...]]] = {"domain": ("feed", "pipe"), "pipe": ("join",)}
"""What is created by a POST, by where it is posted."""

_ALL: Final = Document.__struct_encode_fields__
_FIELDS: Final = tuple(zip(_ALL, Document.__struct_fields__, strict=True))
_NOT_PUBLISHED: Final = tuple((name, field) for name, field in _FIELDS if name != "message")


def posted(document: Document, on: Literal["domain", "pipe"]) -> FeedElement | PipeElement | JoinElement | Problem:
    """Return what is to be created; types are for the one who knows the domain's profiles.

    Args:
        document: The request's.
        on: Where it is posted: feeds and pipes at a domain, joins at a pipe.
    """
    found = _single(document, _CREATED[on])
    match found:
        case JoinElement(feed=feed) if not feed:
            text = "the join names no feed; send feed=URI, the href of a feed in the domain's document"
            return Problem("incomplete", text)
        case JoinElement(address=None):
            return msgspec.structs.replace(found, address="*")  # C34
    return found


def _single(document: Document, allowed: tuple[str, ...]) -> FeedElement | PipeElement | JoinElement | Problem:
    resources = [(name, each) for name, field in _FIELDS for each in getattr(document, field)]
    wanted = " or a ".join(allowed)
    if not resources:
        return Problem("incomplete", f"the document has no resource that is known here; send a {wanted} in it")
    others = [name for name, _ in resources if name not in allowed]
    if others:
        return Problem("not-creatable", f"a {others[0]} cannot be posted here; a {wanted} can; see where it belongs")
    if len(resources) > 1:
        return Problem("several", f"the document has {len(resources)} resources; send one {wanted} in each request")
    ((_, found),) = resources
    return found  # type: ignore[no-any-return]  # getattr has no type; the names have been looked at


def published(document: Document) -> tuple[MessageElement, ...] | Problem:
    """Return the messages that are to be routed: one or more, and nothing else."""
    others = [name for name, field in _NOT_PUBLISHED if getattr(document, field)]
    if others:
        text = f"there is a {others[0]} in the document; only messages are posted to a feed; create others elsewhere"
        return Problem("not-creatable", text)
    return document.messages or Problem("incomplete", "the document has no message; send one or more in it")


class Changes(msgspec.Struct, frozen=True):
    """What a PUT changes; None is left as it is."""

    title: str | None = None
    license: str | None = None


def changed(document: Document, current: FeedElement | PipeElement) -> Changes | Problem:
    """Return what a PUT changes of a feed (title and license) or of a pipe (title).

    Args:
        document: The request's; it may repeat what it does not change, and clients of 2009 send empty names.
        current: The resource as its document shows it.
    """
    kind = NAMES[type(current)]
    found = _single(document, (kind,))
    if isinstance(found, Problem):
        return Problem("incomplete", found.text) if found.code == "not-creatable" else found
    for name in ("name", "type"):
        wanted, there = getattr(found, name), getattr(current, name)
        if wanted and wanted != there:
            text = f"the {name} of this {kind} is {shown(there or '')} and cannot be changed to {shown(wanted)}; "
            return Problem("fixed", f"{text}leave it out, or create another {kind}")
    if isinstance(found, FeedElement):
        return Changes(found.title, found.license)
    return Changes(found.title if isinstance(found, PipeElement) else None)
