"""Conditional requests and preferences (1/RestTL, Conditional and Asynchronous operations; RFC 9110 section 13).

A condition is looked at only when the answer would be 200 otherwise: 404, 403 and 400 come first. Of two that ask for
the same, the entity tag decides and the date is not looked at (C16, RFC 9110 section 13.2.2).

    GET           If-None-Match, If-Modified-Since      304 if it is what the client has
    PUT, DELETE   If-Match, If-Unmodified-Since         412 if it is not what the client has seen
    GET           When-None-Match, When-Modified-After  no answer until it has changed; both must hold

An entity tag is the resource's own tag and a letter for the media type, since 1/RestTL has XML and JSON differ:
``"17-x"``, ``"17-j"``. Clients get the one of what they were sent. If-Match is about the resource, so a client that
has read XML may put JSON: there the letter does not count. Tags may come without quotation marks, as 1/RestTL has them.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from triomq.protocols.dates import http_date, parse_http_date
from triomq.protocols.restms.media import MediaType
from triomq.protocols.restms.problems import Problem

Tags: TypeAlias = frozenset[str] | None
"""Tags without quotation marks; None if nothing was asked, and ``*`` stands for any."""

_LONGEST: Final = 4096
"""Characters of a list of tags that are read: a hundred of ours."""


class Version(msgspec.Struct, frozen=True):
    """Which state a resource is in.

    Args:
        tag: Differs after each change that its document shows; letters and digits.
        modified: When that was, in seconds since 1970.
    """

    tag: str
    modified: float


def etag(version: Version, media_type: MediaType) -> str:
    """Return the entity tag of a document."""
    return f'"{version.tag}-{media_type.tag}"'


class Conditions(msgspec.Struct, frozen=True):
    """What a request makes its answer depend on; dates are seconds since 1970, and None where nothing was asked."""

    if_match: Tags = None
    if_none_match: Tags = None
    if_modified_since: int | None = None
    if_unmodified_since: int | None = None
    when_none_match: Tags = None
    when_modified_after: int | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Conditions":
        """Read the fields of a request; a date that is none is passed over, as RFC 9110 wants it."""
        if _NAMES.isdisjoint(headers):
            return _NO_CONDITIONS
        found = {name: headers[field] for name, field in _FIELDS if field in headers}
        return cls(**{name: _READERS[name](text) for name, text in found.items()})  # type: ignore[arg-type]

    @property
    def are_none(self) -> bool:
        """Whether nothing is asked, so that no version need be worked out."""
        return self is _NO_CONDITIONS

    def unchanged(self, version: Version, media_type: MediaType) -> bool:
        """Return whether a GET is answered with 304, since the client has what it would be sent."""
        if self.if_none_match is not None:
            return _has(self.if_none_match, f"{version.tag}-{media_type.tag}")
        return self.if_modified_since is not None and int(version.modified) <= self.if_modified_since

    def refusal(self, version: Version) -> Problem | None:
        """Return why a PUT or DELETE is refused: the resource is not what the client has seen; None if it is."""
        if self.if_match is not None:
            refused = not _has_any_type(self.if_match, version.tag)
            what = f"its tag is {version.tag}, which If-Match does not have"
        else:
            refused = self.if_unmodified_since is not None and int(version.modified) > self.if_unmodified_since
            what = f"it has changed at {http_date(version.modified)}, after If-Unmodified-Since"
        if not refused:
            return None
        return Problem("changed", f"the resource is not what you have read: {what}; GET it, and decide again")

    def must_wait(self, version: Version, media_type: MediaType) -> bool:
        """Return whether a GET is not answered yet, since the client asked for what is other than this."""
        # 1/RestTL, Asynchronous operations: with both, both must hold.
        if self.when_none_match is not None and _has(self.when_none_match, f"{version.tag}-{media_type.tag}"):
            return True
        return self.when_modified_after is not None and int(version.modified) <= self.when_modified_after


_NO_CONDITIONS: Final = Conditions()
_FIELDS: Final = tuple((name, name.replace("_", "-")) for name in Conditions.__struct_fields__)
_NAMES: Final = frozenset(field for _, field in _FIELDS)


def _has(tags: frozenset[str], tag: str) -> bool:
    return tag in tags or "*" in tags


def _has_any_type(tags: frozenset[str], tag: str) -> bool:
    return "*" in tags or any(each == tag or each.rpartition("-")[0] == tag for each in tags)


def _tags(text: str) -> frozenset[str]:
    """Read a list of tags, weak ones and ones without quotation marks among them."""
    tags = (part.strip(" \t").removeprefix("W/").strip('"') for part in text[:_LONGEST].split(","))
    return frozenset(tag for tag in tags if tag)


_READERS: Final = {
    name: parse_http_date if name.endswith(("_since", "_after")) else _tags for name in Conditions.__struct_fields__
}


class Preferences(msgspec.Struct, frozen=True):
    """What a client would like (RFC 7240), and which part of it is met here.

    Args:
        wait: Seconds after which a GET that waits is answered with 204; None for never, as in 2009 (C22).
        representation: Whether the answer to a POST of messages is to count joins where the profile has none (C2).
    """

    wait: float | None = None
    representation: bool = False

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Preferences":
        """Read the field of a request; what is not known, or makes no sense, is passed over (RFC 7240, section 2)."""
        if "prefer" not in headers:
            return _NO_PREFERENCES
        wait, representation = None, False
        for part in headers["prefer"][:_LONGEST].lower().split(","):
            name, _, value = (word.strip(' \t"') for word in part.partition(";")[0].partition("="))
            # Section 2: of a preference that stands there twice the first counts.
            if name == "wait" and wait is None and value.isascii() and value.isdigit() and len(value) < 10:
                wait = float(value)
            representation = representation or (name, value) == ("return", "representation")
        return cls(wait, representation)


_NO_PREFERENCES: Final = Preferences()
