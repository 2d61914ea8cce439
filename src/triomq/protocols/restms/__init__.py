"""RestMS without input or output: documents, media types, conditions, addresses and problems (1/RestTL to 4/AMQP9).

What HTTP itself is, is in ``protocols/http1``, which this package does not know: header fields come as a mapping by
lower-case names, and go as one. Whoever has both puts them together:

.. code-block:: text

    request ──▶ route ──▶ action_of ──▶ accepted, document_type ──▶ parse ──▶ posted, changed, published
                  │            │                 │                    │                 │
                  └────────────┴─────────────────┴────────────────────┴─────────────────┴──▶ Problem: an answer
    answer  ◀── document_headers ◀── render ◀── Conditions, of what would be 200

Nothing here raises on what a client sends.
"""

from triomq.protocols.restms.answers import document_headers, openapi
from triomq.protocols.restms.conditions import Conditions, Preferences, Version, etag
from triomq.protocols.restms.documents import (
    ContentElement,
    Document,
    DomainElement,
    FeedElement,
    HeaderElement,
    JoinElement,
    MessageElement,
    PipeElement,
    ProfileElement,
    ResourceElement,
)
from triomq.protocols.restms.events import EVENTS_BEGIN, HEARTBEAT, EventReader, event_of
from triomq.protocols.restms.forms import DomainWriter, parse, render
from triomq.protocols.restms.media import (
    EVENTS,
    JSON,
    OURS,
    TEXT_XML,
    XML,
    MediaType,
    accepted,
    content_coding,
    document_type,
    message_type,
)
from triomq.protocols.restms.methods import METHODS, SUCCESS, MethodAction, ResourceKind, action_of
from triomq.protocols.restms.posted import Changes, changed, posted, published
from triomq.protocols.restms.problems import (
    PROBLEMS,
    Problem,
    ProblemCode,
    closing,
    foreign_content,
    no_content,
    no_feed,
    no_resource,
    pending,
    retry_after,
    shown,
    too_large,
)
from triomq.protocols.restms.properties import (
    basic_properties,
    content_body,
    embedded,
    header_elements,
    headers_table,
    message_of,
)
from triomq.protocols.restms.routes import DEFAULT_DOMAIN, Links, RequestRoute, RouteKind, base_of, route

__all__ = [
    "DEFAULT_DOMAIN",
    "EVENTS",
    "EVENTS_BEGIN",
    "HEARTBEAT",
    "JSON",
    "METHODS",
    "OURS",
    "PROBLEMS",
    "SUCCESS",
    "TEXT_XML",
    "XML",
    "Changes",
    "Conditions",
    "ContentElement",
    "Document",
    "DomainElement",
    "DomainWriter",
    "EventReader",
    "FeedElement",
    "HeaderElement",
    "JoinElement",
    "Links",
    "MediaType",
    "MessageElement",
    "MethodAction",
    "PipeElement",
    "Preferences",
    "Problem",
    "ProblemCode",
    "ProfileElement",
    "RequestRoute",
    "ResourceElement",
    "ResourceKind",
    "RouteKind",
    "Version",
    "accepted",
    "action_of",
    "base_of",
    "basic_properties",
    "changed",
    "closing",
    "content_body",
    "content_coding",
    "document_headers",
    "document_type",
    "embedded",
    "etag",
    "event_of",
    "foreign_content",
    "header_elements",
    "headers_table",
    "message_of",
    "message_type",
    "no_content",
    "no_feed",
    "no_resource",
    "openapi",
    "parse",
    "pending",
    "posted",
    "published",
    "render",
    "retry_after",
    "route",
    "shown",
    "too_large",
]
