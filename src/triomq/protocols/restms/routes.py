"""Where resources are (1/RestTL, resource names): from a URI to what it names, and back.

    /restms                             all domains; an addition
    /restms/openapi.json                what can be asked for, for programs; an addition
    /restms/domain/NAME
    /restms/feed/NAME                   a public feed of the domain `default`
    /restms/feed/DOMAIN/NAME            of another one (C26)
    /restms/resource/HASH               whatever is private: who knows its hash may use it

Names are percent-encoded UTF-8, decoded after the path was taken apart, so that a name which AMQP made may have a slash
in it. Clients send URIs in documents too; they may be paths, and host and scheme are not looked at, since a broker may
be known by several.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import msgspec

from triomq.protocols.restms.problems import Problem, no_resource, shown

RouteKind: TypeAlias = Literal["root", "description", "domain", "feed", "resource", "any"]

DEFAULT_DOMAIN: Final = "default"

LONGEST_URI: Final = 8192
"""Characters: a name of 255 bytes has 765, and RFC 9110 wants 8000 to be possible."""

_MOST_FIELDS: Final = 16  # of a query; three are known
_ABSOLUTE: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_NOT_ENCODED: Final = re.compile(r"%(?![0-9a-fA-F]{2})|[\0- \x7f]")
_AUTHORITY: Final = re.compile(r"([a-z0-9._~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)
_SAFE: Final = "!$&'()*+,;=:@"  # in a segment (RFC 3986, section 3.3), besides letters, digits and -._~


class RequestRoute(msgspec.Struct, frozen=True):
    """What a URI names, whether it is there or not.

    Args:
        kind: Of what it names; ``any`` is the ``*`` of OPTIONS.
        name: Of a domain or a feed, or the hash of a resource; decoded.
        domain: The feed's.
        query: What stands behind the question mark.
    """

    kind: RouteKind
    name: str = ""
    domain: str = DEFAULT_DOMAIN
    query: dict[str, str] = {}


def route(uri: str) -> RequestRoute | Problem:
    """Take a request's target apart, or a URI in a document.

    Args:
        uri: Percent-encoded; a path, or with scheme and host, which are not looked at.
    """
    if len(uri) > LONGEST_URI:
        return Problem("bad-uri", f"the URI has {len(uri):,} characters; {LONGEST_URI:,} are allowed; shorten it")
    if found := _ABSOLUTE.match(uri):
        uri = uri[found.end() :] or "/"
    path, _, query = uri.partition("#")[0].partition("?")
    if wrong := _NOT_ENCODED.search(path):
        text = f"{shown(uri)} has {shown(wrong[0])} in it, which must be percent-encoded: %20, %25 or the like"
        return Problem("bad-uri", text)
    fields: dict[str, str] = {}
    if query:
        try:
            fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            return Problem(
                "bad-uri", f"the query has more than {_MOST_FIELDS} fields; leave out those that mean nothing"
            )
    match path.split("/"):
        case ["", "restms", "resource", name] if name:
            return RequestRoute("resource", _decoded(name), query=fields)
        case ["", "restms", "feed", name] if name:
            return RequestRoute("feed", _decoded(name), query=fields)
        case ["", "restms", "feed", domain, name] if domain and name:
            return RequestRoute("feed", _decoded(name), _decoded(domain), query=fields)
        case ["", "restms", "domain", name] if name:
            return RequestRoute("domain", _decoded(name), query=fields)
        case ["", "restms"] | ["", "restms", ""]:
            return RequestRoute("root", query=fields)
        case ["", "restms", "openapi.json"]:
            return RequestRoute("description", query=fields)
        case ["*"]:
            return RequestRoute("any")
    return no_resource(path)


def _decoded(segment: str) -> str:
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape") if "%" in segment else segment


def _encoded(name: str) -> str:
    # A dot or two would be taken for a step in the path, by clients and by proxies.
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe=_SAFE, errors="surrogateescape")


class Links:
    """Writes the URIs of one listener's answers; all are absolute (1/RestTL), and clients of 2009 need them so."""

    def __init__(self, base: str) -> None:
        """Begin URIs with ``base``: scheme and host, as ``base_of`` finds them."""
        self.base = base
        self._resources = f"{base}/restms/resource/"

    def domain(self, name: str) -> str:
        """Return where a domain is."""
        return f"{self.base}/restms/domain/{_encoded(name)}"

    def feed(self, name: str, domain: str = DEFAULT_DOMAIN) -> str:
        """Return where a public feed is."""
        within = "" if domain == DEFAULT_DOMAIN else f"{_encoded(domain)}/"
        return f"{self.base}/restms/feed/{within}{_encoded(name)}"

    def resource(self, name: str) -> str:
        """Return where a private resource is, by its hash."""
        return self._resources + name


def base_of(headers: Mapping[str, str], scheme: str, here: str, *, configured: str = "") -> str | Problem:
    """Say by which scheme and host the client knows the broker; its URIs begin with them.

    What a proxy says of that (``Forwarded`` and the like) is not looked at: anybody can send such fields, and would
    have others follow links to a host of his.

    Args:
        headers: Of the request.
        scheme: ``http`` or ``https``, as the connection is.
        here: Host and port of the listener, for a client of HTTP/1.0 that names none.
        configured: Scheme and host by configuration, ``https://mq.example.org``, no path; then nothing else counts.
    """
    if configured:
        return configured.rstrip("/")
    host = headers.get("host") or here
    if not _AUTHORITY.fullmatch(host):
        text = f"the request says that the broker is {shown(f'{scheme}://{host}')}; send Host: NAME or NAME:PORT"
        return Problem("bad-request", text)
    return f"{scheme}://{host}"
