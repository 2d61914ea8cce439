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
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import h11
import msgspec
from wsproto.utilities import generate_accept_token, generate_nonce

from triomq.transports.websocket_config import WebSocket

_LONGEST: Final = 16 * 1024
"""Bytes of a request at most: browsers send all cookies of a site, which may be 4 KiB each."""

_SHOWN: Final = 200
"""Bytes of a refusal's text that a client shows."""

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
        fields = _fields_of(request.headers)
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


class ClientHandshake:
    """Asks for a connection, and judges the answer; made for it, and dropped with it.

    Args:
        host: The server's name, and its port unless that is the usual one.
        path: What is asked for.
        subprotocol: What is to be spoken.
    """

    def __init__(self, host: str, path: str, subprotocol: str) -> None:
        self._key = generate_nonce()
        self._subprotocol = subprotocol
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST)
        fields = {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": _VERSION,
            "Sec-WebSocket-Key": self._key.decode(),
            "Sec-WebSocket-Protocol": subprotocol,
        }
        self.request = self._http.send(h11.Request(method="GET", target=path, headers=list(fields.items()))) or b""
        """What is to be sent."""
        self._http.send(h11.EndOfMessage())
        self._refusal = ""
        self._text = b""

    def receive(self, data: bytes) -> Answer | None:
        """Parse some of the answer, nothing for its end; return what it was once it is whole."""
        if not data and not self._refusal:
            return Answer(refusal="it hung up")
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                    refusal = self._fault_of(_fields_of(event.headers))
                    return Answer(refusal=refusal, rest=self._http.trailing_data[0])
                if isinstance(event, h11.Response):
                    self._refusal = f"{event.status_code} {event.reason.decode('latin-1')}"
                elif isinstance(event, h11.Data):
                    self._text += event.data
                if isinstance(event, h11.EndOfMessage) or len(self._text) > _SHOWN:
                    text = self._text[:_SHOWN].decode("utf-8", "replace").strip()
                    return Answer(refusal=f"{self._refusal}, {text}")
        except h11.RemoteProtocolError as error:
            return Answer(refusal=str(error))
        return None

    def _fault_of(self, fields: dict[str, list[str]]) -> str:
        """Return what is wrong with an answer that is a 101 (RFC 6455 section 4.1); empty if nothing is."""
        if "websocket" not in map(str.lower, _tokens(fields, "upgrade")):
            return "the answer does not upgrade to websocket"
        if fields.get("sec-websocket-accept") != [generate_accept_token(self._key).decode()]:
            return "the answer does not accept the key that it was asked with"
        if "sec-websocket-extensions" in fields:
            return "the answer has an extension that it was not asked for"
        if fields.get("sec-websocket-protocol", [self._subprotocol]) != [self._subprotocol]:
            return f"the answer has another subprotocol than {self._subprotocol}"
        return ""


def _fields_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        fields.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return fields


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
