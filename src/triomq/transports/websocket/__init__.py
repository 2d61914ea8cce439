"""WebSocket (RFC 6455) over any transport; apart, so that only its users load wsproto and h11."""

from triomq.transports.websocket.handshake import ClientHandshake, ServerHandshake
from triomq.transports.websocket.layer import WebSocketTransport

__all__ = [
    "ClientHandshake",
    "ServerHandshake",
    "WebSocketTransport",
]
