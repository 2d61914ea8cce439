"""The opening handshake of WebSocket, an HTTP/1.1 request and its answer (RFC 6455 section 4), as bytes in and out.

h11 parses the request. What is wrong with one is told in plain text, with the status that fits best:

===  ================================================================================
400  it is no HTTP/1.1 request, has a body, or has no usable ``Sec-WebSocket-Key``
403  it comes from a page whose origin may not connect
404  it asks for another path
405  it is no GET
426  it does not ask for WebSocket, or for another version than 13
431  it is longer than 16 KiB
===  ================================================================================
"""

import binascii
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import h11
import msgspec
from wsproto.connection import ConnectionType
from wsproto.utilities import generate_accept_token

from triomq.transports.websocket_config import WebSocket

_LONGEST: Final = 16 * 1024
"""Bytes of a request at most: browsers send all cookies of a site, which may be 4 KiB each."""

_VERSION: Final = "13"
"""The only version that was ever used (RFC 6455 section 4.1)."""


class Answer(msgspec.Struct, frozen=True):
    """The end of a handshake.

    Args:
        reply: What the other side is to be sent.
        refusal: Why there is no connection; empty if there is one.
        rest: What has come behind the handshake.
    """

    reply: bytes = b""
    refusal: str = ""
    rest: bytes = b""


class _NotAccepted(Exception):
    """Internal: the request is answered with a status that is no 101."""

    def __init__(self, status: int, text: str, *fields: str) -> None:
        super().__init__(text)
        self.status = status
        self.fields = fields


class ServerHandshake:
    """Judges one request; made for it, and dropped with its answer.

    Args:
        config: Which path, which origins.
        subprotocols: What is spoken here, by its registered names; clients need not ask for any.
    """

    role: Final = ConnectionType.SERVER
    greeting: Final = b""

    def __init__(self, config: WebSocket, subprotocols: Sequence[str] = ()) -> None:
        self._config = config
        self._subprotocols = subprotocols
        self._received = 0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_LONGEST)

    def receive(self, data: bytes) -> Answer | None:
        """Parse some of the request; return the answer once it is whole."""
        try:
            self._http.receive_data(data)
            self._received += len(data)
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return None
            if not isinstance(event, h11.Request):
                raise _NotAccepted(400, "expected an HTTP/1.1 request")
            rest, _ = self._http.trailing_data
            if self._received - len(rest) > _LONGEST:  # h11 lets pass what comes in one piece
                raise _NotAccepted(431, f"expected an HTTP/1.1 request of {_LONGEST:,} octets at most")
            return Answer(self._judge(event), rest=rest)
        except h11.RemoteProtocolError as error:
            return _refusal(error.error_status_hint, f"expected an HTTP/1.1 request: {error}")
        except _NotAccepted as refused:
            return _refusal(refused.status, str(refused), *refused.fields)

    def _judge(self, request: h11.Request) -> bytes:
        """Return the answer to a request that is all right (RFC 6455 section 4.2.2)."""
        fields: dict[str, list[str]] = {}
        for name, value in request.headers:
            fields.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        self._check_request(request, fields)
        self._check_origin(fields)
        token = generate_accept_token(_key_of(fields)).decode()
        lines = ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {token}"]
        offered = _tokens(fields, "sec-websocket-protocol")
        chosen = next((name for name in offered if name in self._subprotocols), "")
        if chosen:
            lines.append(f"Sec-WebSocket-Protocol: {chosen}")
        return _head(101, lines)

    def _check_request(self, request: h11.Request, fields: dict[str, list[str]]) -> None:
        path = self._config.path
        if request.method != b"GET":
            raise _NotAccepted(405, "WebSocket begins with a GET", "Allow: GET")
        if request.target.decode("latin-1").partition("?")[0] != path:
            raise _NotAccepted(404, f"there is nothing but WebSocket at {path}")
        has_body = "transfer-encoding" in fields or fields.get("content-length", ["0"]) != ["0"]
        if request.http_version != b"1.1" or has_body:
            raise _NotAccepted(400, "WebSocket begins with a request of HTTP/1.1 without a body")
        upgrades = "upgrade" in map(str.lower, _tokens(fields, "connection"))
        if not upgrades or "websocket" not in map(str.lower, _tokens(fields, "upgrade")):
            asked = ("Upgrade: websocket", "Connection: Upgrade")
            raise _NotAccepted(426, "this port speaks WebSocket: connect with ws:// or wss://", *asked)
        if fields.get("sec-websocket-version") != [_VERSION]:
            found = ", ".join(fields.get("sec-websocket-version", ["none"]))
            raise _NotAccepted(
                426, f"found version {found} of WebSocket, expected {_VERSION}", f"Sec-WebSocket-Version: {_VERSION}"
            )

    def _check_origin(self, fields: dict[str, list[str]]) -> None:
        """Let in pages of allowed origins, and programs that are no browsers (RFC 6455 section 10.2)."""
        allowed = self._config.allow_origins
        for origin in fields.get("origin", ()):
            if "*" not in allowed and origin not in allowed:
                raise _NotAccepted(
                    403, f"pages of {origin} may not connect here; the broker's setting allow_origins says which may"
                )


def _key_of(fields: dict[str, list[str]]) -> bytes:
    """Return the key, which encodes 16 octets (RFC 6455 section 4.2.1)."""
    keys = fields.get("sec-websocket-key", [])
    try:
        if len(keys) == 1 and len(binascii.a2b_base64(keys[0], strict_mode=True)) == 16:
            return keys[0].encode("latin-1")
    except ValueError:
        pass
    raise _NotAccepted(400, "expected one Sec-WebSocket-Key of 16 octets in base64")


def _tokens(fields: dict[str, list[str]], name: str) -> list[str]:
    """Return the elements of a list, which may stand in several fields (RFC 9110 section 5.6.1)."""
    return [token for value in fields.get(name, ()) for part in value.split(",") if (token := part.strip())]


def _refusal(status: int, text: str, *fields: str) -> Answer:
    body = f"{text}\n".encode("latin-1", "replace")
    lines = [*fields, "Content-Type: text/plain", f"Content-Length: {len(body)}"]
    if not any(line.startswith("Connection:") for line in lines):
        lines.append("Connection: close")
    return Answer(_head(status, lines) + body, refusal=f"{status}, {text}")


def _head(status: int, lines: Sequence[str]) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *lines, "", ""]).encode("latin-1")
