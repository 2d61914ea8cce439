"""HTTP/1.1 and 1.0, both roles: requests and answers, their bodies and their limits; no resource, no user, no clock."""

from triomq.protocols.http1.client import HTTPClientEngine
from triomq.protocols.http1.codes import field_value
from triomq.protocols.http1.events import (
    ClientEvent,
    EndOfStream,
    Failed,
    RequestBody,
    RequestHead,
    ResponseBody,
    ResponseHead,
    ServerEvent,
)
from triomq.protocols.http1.server import HTTPServerEngine
from triomq.protocols.http1.settings import Settings

__all__ = [
    "ClientEvent",
    "EndOfStream",
    "Failed",
    "HTTPClientEngine",
    "HTTPServerEngine",
    "RequestBody",
    "RequestHead",
    "ResponseBody",
    "ResponseHead",
    "ServerEvent",
    "Settings",
    "field_value",
]
