"""What stands around a document in an answer, and the file that describes all answers."""

from functools import cache
from pathlib import Path

from triomq.protocols.dates import http_date
from triomq.protocols.restms.conditions import Version, etag
from triomq.protocols.restms.media import MediaType


def document_headers(version: Version, media_type: MediaType, *, location: str | None = None) -> dict[str, str]:
    """Return the fields of an answer with a document, or with 304.

    A cache has to ask each time whether the document is still that: one that may guess from the date, as browsers do
    (RFC 9111, section 4.2.2), shows a feed that has not changed for long for months, also to another user.

    Args:
        version: Of the resource.
        media_type: Of the document.
        location: Where the resource is, after POST, whether it was created or there already (C13).
    """
    date = http_date(version.modified)
    fields = {
        "content-type": media_type.name,
        "etag": etag(version, media_type),
        # HTTP calls it by the first name, 1/RestTL by the second (C14).
        "last-modified": date,
        "date-modified": date,
        "vary": "accept, origin",
        "cache-control": "no-cache",
    }
    if location is not None:
        fields["location"] = location
    return fields


@cache
def openapi() -> bytes:
    """Return the OpenAPI file, which a GET of ``/restms/openapi.json`` answers with, as ``application/json``."""
    return Path(__file__).with_name("openapi.json").read_bytes()
